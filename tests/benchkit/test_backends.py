import pytest
import torch

from benchkit import agent, backends
from benchkit.config import BackendConfig, HardwareConfig, RunConfig
from benchkit.errors import Unavailable


def config(backend="gloo", device="cpu", ranks_per_device=1, **changes):
    devices = {"nccl": ["cuda"]}.get(backend, ["cpu", "cuda"])
    settings = {
        "suite": "allreduce", "seed": 0, "world_size": "auto", "threads_per_rank": "auto", "start_method": "forkserver",
        "timeout_s": 10.0, "measure": None, "model": None, "backend": BackendConfig(backend, devices, {"A": "b"}),
        "hardware": HardwareConfig(device, ranks_per_device),
    }  # fmt: skip
    return RunConfig(**(settings | changes))


@pytest.fixture
def three_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(backends.dist, "is_backend_available", lambda name: name != "ucc")


def test_what_is_there_passes(three_gpus):
    backends.require_available(config(), 64)
    backends.require_available(config("nccl", "cuda"), 3)
    backends.require_available(config("gloo", "cuda", ranks_per_device=2), 6)


@pytest.mark.parametrize(
    ("wanted", "world_size", "reason"),
    [
        (config("nccl", "cpu"), 2, "nccl communicates cuda tensors, not cpu"),
        (config("ucc", "cuda"), 2, "built without ucc"),
        (config("nccl", "cuda"), 4, "needs 4 GPUs for 4 ranks, 3 visible"),
        (config("gloo", "cuda", ranks_per_device=2), 7, "needs 4 GPUs for 7 ranks, 3 visible"),
    ],
)
def test_what_is_not_there_is_said(three_gpus, wanted, world_size, reason):
    with pytest.raises(Unavailable, match=reason):
        backends.require_available(wanted, world_size)


def test_auto_is_two_or_the_places_on_the_gpus(three_gpus):
    assert agent.resolve_world_size(config()) == 2
    assert agent.resolve_world_size(config(device="cuda")) == 3
    assert agent.resolve_world_size(config(device="cuda", ranks_per_device=2)) == 6
    assert agent.resolve_world_size(config(world_size=5)) == 5


def test_the_backend_brings_its_environment():
    environment = backends.rank_environment(config(), 1, 4)
    assert environment["RANK"] == "1"
    assert environment["WORLD_SIZE"] == "4"
    assert environment["A"] == "b"

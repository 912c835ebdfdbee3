import pytest

from benchkit import backends
from benchkit.config import BackendConfig, HardwareConfig, RunConfig
from benchkit.errors import Unavailable


def config(backend="gloo", device="cpu", ranks_per_device=1, slowdown=1, **changes):
    devices = {"nccl": ["cuda"]}.get(backend, ["cpu", "cuda"])
    settings = {
        "suite": "allreduce", "seed": 0, "world_size": "auto", "threads_per_rank": "auto", "start_method": "forkserver",
        "timeout_s": 10.0, "join_timeout_s": 5.0,
        "measure": None, "model": None, "backend": BackendConfig(backend, devices, {"A": "b"}),
        "hardware": HardwareConfig(device, ranks_per_device, slowdown, "auto"), "profile": False,
    }  # fmt: skip
    return RunConfig(**(settings | changes))


@pytest.fixture(autouse=True)
def all_but_ucc(monkeypatch):
    monkeypatch.setattr(backends.dist, "is_backend_available", lambda name: name != "ucc")


def test_what_is_there_passes():
    backends.require_available(config())
    backends.require_available(config("nccl", "cuda"))
    backends.require_available(config("gloo", "cuda", ranks_per_device=2))


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (config("nccl", "cpu"), "nccl communicates cuda tensors, not cpu"),
        (config("ucc", "cuda"), "built without ucc"),
    ],
)
def test_what_is_not_there_is_said(wanted, reason):
    with pytest.raises(Unavailable, match=reason):
        backends.require_available(wanted)

import os
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from benchkit.errors import Unavailable
from benchkit.point import placement
from benchkit.rank import backends

from tests.support.configs import config


@pytest.fixture(autouse=True)
def all_but_ucc(monkeypatch):
    monkeypatch.setattr(backends.dist, "is_backend_available", lambda name: name != "ucc")


def test_require_built_names_missing_backend():
    backends.require_built("gloo")
    with pytest.raises(Unavailable, match="is built without ucc"):
        backends.require_built("ucc")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (config(), ""),
        (config("nccl", "cuda"), ""),
        (config("gloo", "cuda", ranks_per_device=2), ""),
        (config("nccl", "cpu"), "nccl communicates cuda tensors, not cpu"),
        (config("nccl", "cuda", ranks_per_device=2), "nccl refuses ranks that share a GPU; gloo does not"),
    ],
)
def test_unsuited_backend_has_reason(wanted, reason):
    assert placement.unsuited(wanted) == reason


class FakeUcc:
    """torch.distributed with UCC, which reads its environment at a group's first call."""

    def __init__(self, fault=None):
        self.read, self.fault = [], fault

    def is_backend_available(self, name):
        return True

    def new_group(self, backend, timeout):
        return f"a group over {backend}"

    def all_reduce(self, tensor, group):
        self.read.append([os.environ.get(name) for name in ("UCC_CL_BASIC_TLS", "TORCH_UCC_SHARED_COMM")])
        if self.fault:
            raise RuntimeError(self.fault)


def side_group(name, monkeypatch, fault=None, first_reason=lambda reason: reason):
    ucc = FakeUcc(fault)
    monkeypatch.setattr(backends, "dist", ucc)
    return backends.side_group(name, torch.device("cpu"), timedelta(seconds=1), first_reason), ucc.read


def test_side_group_uses_only_its_layer(monkeypatch):
    monkeypatch.setenv("TORCH_UCC_SHARED_COMM", "1")
    assert side_group("ucc/tl/ucp", monkeypatch) == ("a group over ucc", [["ucp", "0"]])
    assert side_group("ucc", monkeypatch) == ("a group over ucc", [[None, "1"]])
    assert "UCC_CL_BASIC_TLS" not in os.environ
    assert side_group("default", monkeypatch) == (None, [])


def test_side_group_failure_is_unavailable(monkeypatch):
    with pytest.raises(Unavailable, match=r"ucc/tl/ucp: no such transport$"):
        side_group("ucc/tl/ucp", monkeypatch, fault="no such transport\nand a trace")
    with pytest.raises(Unavailable, match="ucc: only rank 1 lacks it"):
        side_group("ucc", monkeypatch, first_reason=lambda reason: "only rank 1 lacks it")
    for name in ("ucc/tl/cuda", "ucc/tl/nccl", "nccl"):
        with pytest.raises(Unavailable, match=f"{name} communicates cuda tensors, not cpu"):
            side_group(name, monkeypatch)


@pytest.mark.parametrize(("backend", "connects"), [("nccl", True), ("gloo", False)])
def test_warm_up_connects_nccl(backend, connects, monkeypatch):
    calls = []
    group = SimpleNamespace(get_backend=lambda: backend, get_world_size=lambda: 3)
    group.all_reduce = lambda tensor: calls.append(("all_reduce", tensor.nbytes))
    group.all_to_all_single = lambda into, tensor: calls.append(("all_to_all", tensor.nbytes, into.nbytes))
    monkeypatch.setattr(backends, "dist", group)
    monkeypatch.setattr(backends.torch.cuda, "synchronize", lambda device: calls.append("synchronize"))
    backends.warm_up(torch.device("cpu"))
    size = 3 * 2**20
    assert calls == ([("all_reduce", size), ("all_to_all", size, size), "synchronize"] if connects else [])


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (RuntimeError("CUDA error: device busy\nCompile with"), Unavailable, "cuda:1: CUDA error: device busy"),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError, "CUDA out of memory"),
    ],
)
def test_gpu_that_refuses_a_rank_is_unavailable(monkeypatch, error, raised, said):
    def refuse(device):
        raise error

    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    place = SimpleNamespace(device_index=1)
    with pytest.raises(raised, match=f"^{said}$"):
        backends.join(config(device="cuda"), place, 1, None)

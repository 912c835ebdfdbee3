"""Meshes over the backend of the job, and what crashes there."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from benchkit.api import p2p

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("backend", "device", "lacks"), [("gloo", CUDA, True), ("gloo", CPU, False), ("nccl", CUDA, False)]
)
def test_only_gloo_on_gpus_lacks_dtensor(backend, device, lacks, monkeypatch):
    monkeypatch.setattr(p2p.dist, "get_backend", lambda: backend)
    reason = p2p.dtensor_missing(device)
    assert ("pytorch issue 152645" in reason, "backend=nccl" in reason) == (lacks, lacks)


@pytest.mark.usefixtures("group_of_one")
def test_mesh_has_group_of_job(monkeypatch):
    """Where there are GPUs and the job is over gloo, torch makes another group for a mesh of its own."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert p2p.mesh_of(p2p.subgroup(timedelta(0), [0]), CPU).get_group() is dist.group.WORLD


@pytest.mark.parametrize(
    ("groups", "rank", "made", "mine"),
    [
        ([[0, 1], [2, 3]], 2, [[0, 1], [2, 3]], [None, (2, 3)]),
        ([[0, 1]], 3, [[0, 1]], [None]),
        ([[0, 1, 2, 3]], 1, [], ["world"]),
    ],
)
def test_all_ranks_make_all_groups_and_have_their_own(groups, rank, made, mine, monkeypatch):
    """They have the backend and the timeout of the job; a rank outside has no mesh."""
    done = []

    def new_group(ranks, timeout, backend):
        done.append(ranks)
        assert (timeout.total_seconds(), backend) == (660, "nccl")
        return tuple(ranks)

    fake = SimpleNamespace(
        get_world_size=lambda: 4, get_rank=lambda: rank, get_backend=lambda: "nccl", new_group=new_group,
        group=SimpleNamespace(WORLD="world"),
    )  # fmt: skip
    monkeypatch.setattr(p2p, "dist", fake)
    p2p.new_group.cache_clear()
    found = [p2p.subgroup(timedelta(seconds=660), ranks) for ranks in groups]
    p2p.new_group.cache_clear()
    assert (done, found) == (made, mine)
    assert p2p.mesh_of(None, CUDA) is None

"""Meshes over the backend of the job, and what crashes there."""

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
    assert p2p.mesh_of_first(1, CPU, 600).get_group() is dist.group.WORLD


def test_mesh_of_some_ranks_outlasts_point(monkeypatch):
    """All ranks make the group, over the backend of the job; those that are not in it have no mesh."""
    made = []
    dist_of_three = SimpleNamespace(get_world_size=lambda: 3, get_rank=lambda: 2, get_backend=lambda: "nccl")
    dist_of_three.new_group = lambda *given: made.append(given)
    monkeypatch.setattr(p2p, "dist", dist_of_three)
    assert p2p.mesh_of_first(2, CUDA, 600) is None
    [(ranks, timeout, backend)] = made
    assert (ranks, backend) == ([0, 1], "nccl")
    assert timeout.total_seconds() > 600


@pytest.mark.parametrize(
    ("groups", "rank", "made", "mine"),
    [([[0, 1], [2, 3]], 2, [[0, 1], [2, 3]], (2, 3)), ([[0, 1]], 3, [[0, 1]], None), ([[0, 1, 2, 3]], 1, [], None)],
)
def test_all_ranks_make_all_groups_and_have_their_own(groups, rank, made, mine, monkeypatch):
    done = []
    fake = SimpleNamespace(get_world_size=lambda: 4, get_rank=lambda: rank, get_backend=lambda: "gloo")
    fake.new_group = lambda ranks, timeout, backend: done.append(ranks) or tuple(ranks)
    monkeypatch.setattr(p2p, "dist", fake)
    p2p.join_group.cache_clear()
    assert p2p.join_group(tuple(map(tuple, groups)), 600) == mine
    p2p.join_group.cache_clear()
    assert done == made

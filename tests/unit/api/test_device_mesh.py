"""Meshes over the backend of the job, and what crashes there."""

import pytest
import torch
import torch.distributed as dist
from benchkit.api import device_mesh

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("backend", "device", "lacks"), [("gloo", CUDA, True), ("gloo", CPU, False), ("nccl", CUDA, False)]
)
def test_only_gloo_on_gpus_lacks_dtensor(backend, device, lacks, monkeypatch):
    monkeypatch.setattr(device_mesh.dist, "get_backend", lambda: backend)
    reason = device_mesh.dtensor_missing(device)
    assert ("pytorch issue 152645" in reason, "backend=nccl" in reason) == (lacks, lacks)


@pytest.mark.usefixtures("group_of_one")
def test_mesh_has_group_of_job(monkeypatch):
    """Where there are GPUs and the job is over gloo, torch makes another group for a mesh of its own."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_mesh.mesh_of_first(1, CPU).get_group() is dist.group.WORLD

"""Meshes of ranks for DTensor and FSDP2, over the backend of the job."""

import functools
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

GLOO_ON_GPUS = (
    "DTensor gathers by all_gather_into_tensor_coalesced, which crashes with gloo on a GPU's "
    "memory (pytorch issue 152645): backend=nccl, with a GPU for each rank"
)
GRACE_S = 60.0
"""How much longer than a point its collectives may take."""


def dtensor_missing(device: torch.device) -> str:
    """Returns why DTensors cannot change their layout over the job's backend; "" if they can.

    The same holds for whatever else calls torch's functional collectives.
    """
    return GLOO_ON_GPUS if device.type == "cuda" and dist.get_backend() == "gloo" else ""


@functools.cache
def group_of_first(ranks: int, timeout_s: float) -> dist.ProcessGroup | None:
    """Returns a group of the first ranks; a process that runs several points makes it once."""
    timeout = timedelta(seconds=timeout_s + GRACE_S)
    return dist.new_group(list(range(ranks)), timeout, dist.get_backend())


def mesh_of_first(ranks: int, device: torch.device, timeout_s: float) -> DeviceMesh | None:
    """Returns a mesh of the first ranks, None on the others; all ranks of the job call it together.

    The mesh communicates over the job's backend. A mesh that torch makes without a process group
    may have another, which would be measured in place of the job's.

    Args:
        ranks: how many ranks the mesh has.
        device: where their tensors live.
        timeout_s: the point's time-out in seconds. Collectives of the mesh end later: the agent
            ends what hangs, with a better message.
    """
    if ranks == dist.get_world_size():
        group = dist.group.WORLD
    else:
        group = group_of_first(ranks, timeout_s)
    if dist.get_rank() >= ranks:
        return None
    return DeviceMesh.from_group(group, device.type)

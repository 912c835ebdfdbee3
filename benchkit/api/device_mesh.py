"""Groups of some ranks, and meshes for DTensor and FSDP2, over the backend of the job."""

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
    group = join_group((tuple(range(ranks)),), timeout_s)
    if dist.get_rank() >= ranks:
        return None
    return DeviceMesh.from_group(group or dist.group.WORLD, device.type)


@functools.cache
def join_group(groups: tuple[tuple[int, ...], ...], timeout_s: float) -> dist.ProcessGroup | None:
    """Makes disjoint groups and returns this rank's; all ranks of the job call it together.

    A process that runs several points makes them once.

    Args:
        groups: the ranks of each group.
        timeout_s: as for `mesh_of_first`.

    Returns:
        The group; None for the job's own, which has all ranks, and where no group has this rank.
    """
    mine = None
    for ranks in groups:
        if len(ranks) == dist.get_world_size():
            return None
        timeout = timedelta(seconds=timeout_s + GRACE_S)
        group = dist.new_group(list(ranks), timeout, dist.get_backend())
        if dist.get_rank() in ranks:
            mine = group
    return mine

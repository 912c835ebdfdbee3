"""torch's fused all-gather and matmul on symmetric memory, where GPUs reach each other's."""

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from benchkit.errors import Unavailable

if TYPE_CHECKING:
    from benchkit.models.tensor_parallel.columnwise import Columnwise, Step


def require(device: torch.device, even: bool) -> None:
    """Raises Unavailable where it cannot run."""
    if device.type != "cuda":
        raise Unavailable("symmetric memory needs GPUs that reach each other's memory")
    if not even:
        raise Unavailable("torch's fused kernels need shards of one size")
    try:
        from torch.distributed import _symmetric_memory  # noqa: F401
    except ImportError as error:
        raise Unavailable(f"torch {torch.__version__} has no symmetric memory ({error})") from None


def all_gather_matmul(job: "Columnwise") -> "Step":
    """Gathers A while multiplying: a shard lies in memory that its peers read."""
    require(job.a.device, job.rows.even)
    from torch.distributed import _symmetric_memory as symmetric

    group = job.group or dist.group.WORLD
    assert group is not None
    name = group.group_name
    shard = symmetric.empty(job.a.shape, dtype=job.a.dtype, device=job.a.device)
    symmetric.rendezvous(shard, name)

    def step() -> None:
        shard.copy_(job.a)
        _, [product] = torch.ops.symm_mem.fused_all_gather_matmul(shard, [job.b], gather_dim=0, group_name=name)
        job.c.copy_(product)

    return step

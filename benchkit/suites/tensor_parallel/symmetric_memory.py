"""torch's fused all-gather and matmul on symmetric memory, for GPUs with peer access."""

import torch.distributed as dist
from torch import Tensor

from benchkit.api import torch_internals
from benchkit.api.case import Work
from benchkit.errors import Unavailable
from benchkit.suites.tensor_parallel.columnwise import Columnwise
from benchkit.suites.tensor_parallel.implementation import Implementation
from benchkit.suites.tensor_parallel.references import Options


def obstacle(job: Columnwise) -> str:
    """Returns why the fused product cannot run here; "" if it can."""
    if job.a.device.type != "cuda":
        return "symmetric memory needs GPUs that reach each other's memory"
    if not job.rows.even:
        return "torch's fused kernels need shards of one size"
    return torch_internals.symmetric_memory_missing()


def place(like: Tensor, group_name: str) -> Tensor:
    """Allocates memory of this shape that all ranks of a group can read, or raises Unavailable."""
    try:
        return torch_internals.symmetric_empty(like, group_name)
    except RuntimeError as error:
        # GPUs are on several nodes, without peer access or shared by ranks: alike on all ranks.
        raise Unavailable(f"symmetric memory: {str(error).splitlines()[0]}") from None


def all_gather_matmul(
    job: Columnwise, work: Work, parts: tuple[Options, Options] | None
) -> Implementation:
    """Builds the fused product, whose shard is a copy of A's that is made outside the clock.

    Raises:
        Unavailable: where this machine or this build cannot run it.
    """
    if why := obstacle(job):
        raise Unavailable(why)
    group = job.group or dist.group.WORLD
    name = group.group_name
    shard, product = place(job.a, name), [job.c]

    def step() -> None:
        product[0] = torch_internals.all_gather_matmul(shard, job.b, name)

    def prepare() -> None:
        shard.copy_(job.a)

    return Implementation(step, work, lambda: product[0], parts=parts, prepare=prepare)

"""torch's fused all-gather and matmul on symmetric memory, for GPUs with peer access."""

import torch.distributed as dist
from torch import Tensor

from benchkit.api import torch_internals
from benchkit.api.case import Work
from benchkit.api.gather import first_reason
from benchkit.errors import Unavailable, is_out_of_memory
from benchkit.suites.tensor_parallel.columnwise import Columnwise
from benchkit.suites.tensor_parallel.implementation import Implementation
from benchkit.suites.tensor_parallel.references import Options


def obstacle(job: Columnwise) -> str:
    """Returns why the fused product cannot run here; "" if it can."""
    if job.a.device.type != "cuda":
        return "symmetric memory needs GPUs that reach each other's memory"
    if not job.rows.even:
        return "torch's fused kernels need shards of one size"
    if job.a.dtype != job.c.dtype:
        return "torch's fused product of float8 takes other scales than benchkit's"
    return torch_internals.symmetric_memory_missing()


def place(job: Columnwise) -> Tensor:
    """Allocates memory for rows of A that all ranks can read, and tries the fused product once.

    GPUs may lack peer access or be shared by ranks, and torch chooses a kernel by what one GPU
    can do, which the GPUs together may refuse, such as multicast without NVSwitch.

    Raises:
        Unavailable: on all ranks, if one of them is refused.
    """
    shard, reason = job.a, ""
    try:
        shard = torch_internals.symmetric_empty(job.a, name_of(job))
        torch_internals.all_gather_matmul(shard, job.b, name_of(job))
    except RuntimeError as error:
        if is_out_of_memory(type(error).__name__, str(error)):
            raise
        reason = str(error).splitlines()[0]
    if reason := first_reason(reason, job.group):
        raise Unavailable(f"symmetric memory: {reason}")
    return shard


def name_of(job: Columnwise) -> str:
    """Returns torch's name of the group of a job."""
    group = job.group or dist.group.WORLD
    return str(group.group_name)


def all_gather_matmul(
    job: Columnwise, work: Work, parts: tuple[Options, Options] | None
) -> Implementation:
    """Builds the fused product, whose shard is a copy of A's that is made outside the clock.

    Raises:
        Unavailable: where this machine or this build cannot run it.
    """
    if why := obstacle(job):
        raise Unavailable(why)
    name = name_of(job)
    shard, product = place(job), [job.c]

    def step() -> None:
        product[0] = torch_internals.all_gather_matmul(shard, job.b, name)

    def prepare() -> None:
        shard.copy_(job.a)

    return Implementation(step, work, lambda: product[0], parts=parts, prepare=prepare)

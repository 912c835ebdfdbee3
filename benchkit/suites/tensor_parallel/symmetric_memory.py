"""torch's fused all-gather and matmul on symmetric memory, where GPUs reach each other's."""

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.case import Work
from benchkit.errors import Unavailable
from benchkit.suites.tensor_parallel.primitive import Implementation
from benchkit.suites.tensor_parallel.references import Options

if TYPE_CHECKING:
    from benchkit.suites.tensor_parallel.columnwise import Columnwise


def obstacle(job: "Columnwise") -> str:
    """Why it cannot run here; "" where it can."""
    if job.a.device.type != "cuda":
        return "symmetric memory needs GPUs that reach each other's memory"
    if not job.rows.even:
        return "torch's fused kernels need shards of one size"
    try:
        from torch.distributed import _symmetric_memory  # noqa: F401 (it defines the operators)
    except ImportError as error:
        return f"torch {torch.__version__} has no symmetric memory ({error})"
    return ""


def place(like: Tensor, group_name: str) -> Tensor:
    """Memory of this shape that all ranks of a group can read. Raises Unavailable."""
    from torch.distributed import _symmetric_memory as symmetric

    try:
        shard: Tensor = symmetric.empty(like.shape, dtype=like.dtype, device=like.device)
        symmetric.rendezvous(shard, group_name)
    except RuntimeError as error:  # GPUs of several nodes, without peer access, or shared by ranks: alike on all ranks
        raise Unavailable(f"symmetric memory: {str(error).splitlines()[0]}") from None
    return shard


def fused(shard: Tensor, b: Tensor, group_name: str) -> Tensor:
    """All ranks' shards times B, gathered while multiplying."""
    fused_product = torch.ops.symm_mem.fused_all_gather_matmul
    _, [product] = fused_product(shard, [b], gather_dim=0, group_name=group_name, return_A=False)
    return product


def all_gather_matmul(job: "Columnwise", work: Work, parts: tuple[Options, Options] | None) -> Implementation:
    """The fused product; its shard is a copy of A's, made outside the clock. Raises Unavailable."""
    if why := obstacle(job):
        raise Unavailable(why)
    group = job.group or dist.group.WORLD
    name = group.group_name
    shard, product = place(job.a, name), [job.c]

    def step() -> None:
        product[0] = fused(shard, job.b, name)

    return Implementation(step, work, lambda: product[0], parts=parts, prepare=lambda: shard.copy_(job.a))

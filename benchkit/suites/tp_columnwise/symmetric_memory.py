"""The columnwise product fused with its all-gather, over memory that GPUs read from each other.

Where GPUs lack what its kernels need, torch refuses them or they hang. Therefore a small product is
tried first, in child processes with a time limit.
"""

import faulthandler
import functools
import itertools
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import torch_internals
from benchkit.api.case import Work
from benchkit.api.fresh_process import run_in_fresh_process
from benchkit.api.p2p import all_gather_json, first_reason
from benchkit.errors import Reason, Unavailable, is_out_of_memory
from benchkit.suites.tensor_parallel.config import Options
from benchkit.suites.tensor_parallel.primitive import Implementation, ProductBuffers

START_S, TRIAL_S = 300.0, 60.0
"""Time limits of the start of a trial's process, and of its product."""
TOO_LONG = f"no end of a small product within {TRIAL_S:g} s"
TRIED = 128  # rows of each rank's shard, and columns
trials = itertools.count()


def obstacle(job: ProductBuffers) -> Reason:
    if job.a.device.type != "cuda":
        return "symmetric memory needs GPUs that reach each other's memory"
    if not job.rows.even:
        return "torch's fused kernels need shards of one size"
    if job.a.dtype != job.c.dtype:
        return "torch's fused product of float8 takes other scales than benchkit's"
    return ""


@functools.cache
def trial_refusal(dtype: torch.dtype, device: torch.device) -> Reason:
    """Try a small product in a child process, once per rank; all ranks call this together."""
    if missing := first_reason(torch_internals.symmetric_memory_missing()):
        return missing
    store_arguments = torch_internals.store_address(), f"trial {next(trials)}"
    this_rank = dist.get_rank(), dist.get_world_size(), dist.get_backend(), device.index
    reason = ""
    try:
        run_in_fresh_process(try_product, *store_arguments, *this_rank, dtype)
    except BrokenProcessPool:
        reason = TOO_LONG
    except Exception as error:  # also for a lack of memory, which only that process has
        reason = (str(error) or type(error).__name__).splitlines()[0]
    # A rank that is refused leaves the others waiting.
    reasons = sorted(filter(None, all_gather_json(reason)), key=TOO_LONG.__eq__)
    return next(iter(reasons), "")


def try_product(
    address: Any, name: str, rank: int, size: int, backend: str, device: int, dtype: torch.dtype
) -> None:
    """Multiply once; after a time limit a thread dumps a traceback and ends this process."""
    faulthandler.dump_traceback_later(START_S, exit=True)
    torch.cuda.set_device(device)
    store = dist.PrefixStore(name, torch_internals.store_at(address))
    store.set(f"ready {rank}", "")
    store.wait([f"ready {peer}" for peer in range(size)], timedelta(seconds=START_S))
    faulthandler.dump_traceback_later(TRIAL_S, exit=True)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    factor = torch.ones(TRIED, TRIED, dtype=dtype, device="cuda")
    group = group_name(None)
    shard = torch_internals.symmetric_empty(factor, group)
    shard.copy_(factor)
    torch_internals.all_gather_matmul(shard, factor, group)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def group_name(group: dist.ProcessGroup | None) -> str:
    return str((group or dist.group.WORLD).group_name)


def allocate_shard(job: ProductBuffers) -> Tensor:
    """Allocate memory for rows of A that all ranks can read, and call the fused product once.

    Torch chooses a kernel also by the shape and by the features of one GPU, which the GPUs together
    may lack, such as multicast without NVSwitch.
    """
    shard, reason = job.a, ""
    try:
        shard = torch_internals.symmetric_empty(job.a, group_name(job.group))
        torch_internals.all_gather_matmul(shard, job.b, group_name(job.group))
    except RuntimeError as error:
        if is_out_of_memory(type(error).__name__, str(error)):
            raise
        reason = str(error).splitlines()[0]
    if reason := first_reason(reason, job.group):
        raise Unavailable(f"symmetric memory: {reason}")
    return shard


def all_gather_matmul(
    job: ProductBuffers, work: Work, parts: tuple[Options, Options] | None
) -> Implementation:
    """Build the fused product, whose shard is copied from A outside the clock."""
    if problem := obstacle(job):
        raise Unavailable(problem)
    if reason := trial_refusal(job.a.dtype, job.a.device):
        raise Unavailable(f"symmetric memory: {reason}")
    shard, product = allocate_shard(job), [job.c]
    name = group_name(job.group)

    def step() -> None:
        product[0] = torch_internals.all_gather_matmul(shard, job.b, name)

    def prepare() -> None:
        shard.copy_(job.a)

    return Implementation(step, work, lambda: product[0], parts=parts, prepare=prepare)

"""All uses of private parts of torch and its compiler.

tests/unit/api/test_torch_internals.py and test_compiler_internals.py pin the names, the arguments
and the results, and say what to do if a new torch changes them.
"""

import inspect
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.errors import Reason, is_out_of_memory

RING_ARGUMENTS = ("group", "seq_dim", "op", "query", "key", "value", "is_causal")


def default_store() -> dist.Store:
    return dist.distributed_c10d._get_default_store()  # torch has no public name for it


def store_address() -> str | tuple[str, int]:
    """Return the address of this job's store for other processes: a path, or host and port."""
    store = default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if isinstance(store, dist.FileStore):  # its path may be a descriptor of this process
        return str(store.path).replace("/proc/self/", f"/proc/{os.getpid()}/")
    return store.host, store.port


def store_at(address: str | tuple[str, int]) -> dist.Store:
    if isinstance(address, str):
        return dist.FileStore(address)
    return dist.TCPStore(*address, is_master=False)


def keep_gpu_busy(cycles: int) -> None:
    """Queue a kernel on the current stream that runs for `cycles` of the GPU's clock."""
    torch.cuda._sleep(cycles)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> tuple[Tensor, ...]:
    """Compute attention by the device's fused kernel, which skips masked keys.

    These are the kernels of torch's scaled_dot_product_attention, which does not return the
    log-sum-exp.

    Args:
        query: [1, H, L, D]; key and value are [1, H, K, D].
        causal: whether query i sees only the keys up to i.

    Returns:
        The output [1, H, L, D], the log-sum-exp of the scores [1, H, L], and values for backward.
    """
    aten = torch.ops.aten
    if query.device.type == "cpu":
        fused = aten._scaled_dot_product_flash_attention_for_cpu
        return tuple(fused(query, key, value, 0.0, causal))
    if query.dtype in (torch.float16, torch.bfloat16):
        fused = aten._scaled_dot_product_flash_attention
        return tuple(fused(query, key, value, 0.0, causal))
    fused = aten._scaled_dot_product_efficient_attention
    out, lse, *rest = fused(query, key, value, None, True, 0.0, causal)
    return out, lse[..., : query.shape[2]], *rest  # the kernel pads L to a multiple of 32


def fused_attention_missing(device: torch.device, dtype: torch.dtype, width: int) -> Reason:
    """Return why fused_attention() cannot run, such as half precision before Ampere; or ""."""

    def attend() -> None:
        tokens = torch.ones(1, 1, 16, width, device=device).to(dtype)
        fused_attention(tokens, tokens, tokens, True)

    name = str(dtype).removeprefix("torch.")
    return unsupported_reason(f"compute fused attention of {name} on {device.type}", attend)


def unsupported_reason(operation: str, trial: Callable[[], None]) -> Reason:
    """Return why torch refuses a trial, or ""; out-of-memory errors are raised."""
    try:
        trial()
    except (AttributeError, RuntimeError) as error:
        if is_out_of_memory(type(error).__name__, str(error)):
            raise
        return f"torch {torch.__version__} cannot {operation}: {str(error).splitlines()[0]}"
    return ""


def multiply_float8(
    scale: Tensor, left: Tensor, right: Tensor, out: Tensor, fast: bool = False
) -> None:
    """Multiply float8 [m, k] by [k, n] into bfloat16.

    Sums are float32; if `fast`, of fewer bits where tensor cores support that. `left` and the
    transpose of `right` are contiguous. Each factor is multiplied by `scale`.
    """
    torch._scaled_mm(left, right, scale, scale, out_dtype=out.dtype, use_fast_accum=fast, out=out)


def nccl_has_failed(device: torch.device) -> bool:
    """Return whether NCCL has reported an asynchronous error to a group of this rank."""
    groups = [*dist.distributed_c10d._world.pg_map]  # a copy: other threads make groups
    over_nccl = [backend for backend in groups if dist.get_backend(backend) == "nccl"]
    backends = [group._get_backend(device) for group in over_nccl]
    errors = [
        backend.get_error() for backend in backends if hasattr(backend, "get_error")
    ]  # torch 2.7 on
    return any(error.name != "SUCCESS" for error in errors)


def ring_attention_missing() -> Reason:
    """Return why this torch lacks attend_in_ring(), or ""."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

        names = ("_templated_ring_attention", "_cp_options.enable_load_balance")
        attention, _ = attrgetter(*names)(theirs)
        inspect.signature(attention).bind(**dict.fromkeys(RING_ARGUMENTS))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return f"torch {torch.__version__} has no ring attention to compare with ({error})"
    return ""


def attend_in_ring(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Compute this rank's part [1, H, L, D] of attention over the tokens of all ranks.

    The public context_parallel has a ring for GPU kernels only. Every rank holds the same number of
    tokens, in zigzag order if causal.
    """
    from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

    def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, ...]:
        return fused_attention(query, key, value, options["is_causal"])

    theirs._cp_options.enable_load_balance = causal
    values = (dist.group.WORLD, 2, kernel, query, key, value, causal)
    out: Tensor
    out, *_ = theirs._templated_ring_attention(**dict(zip(RING_ARGUMENTS, values, strict=True)))
    return out


def symmetric_memory_missing() -> Reason:
    try:
        from torch.distributed import _symmetric_memory  # noqa: F401 (it defines the operators)
    except ImportError as error:
        return f"torch {torch.__version__} has no symmetric memory ({error})"
    return ""


def symmetric_empty(like: Tensor, group_name: str) -> Tensor:
    """Allocate symmetric memory of this shape on all ranks of a group; all call this together.

    Raises RuntimeError if the GPUs cannot access each other's memory.
    """
    from torch.distributed import _symmetric_memory as symmetric

    shard: Tensor = symmetric.empty(like.shape, dtype=like.dtype, device=like.device)
    symmetric.rendezvous(shard, group_name)
    return shard


def all_gather_matmul(shard: Tensor, b: Tensor, group_name: str) -> Tensor:
    """All-gather the shards in symmetric memory and multiply them by B, overlapped."""
    fused = torch.ops.symm_mem.fused_all_gather_matmul
    _, [product] = fused(shard, [b], gather_dim=0, group_name=group_name, return_A=False)
    return product


GRAPH_BREAKS = ("graph_break", "unimplemented")
"""Torch's counters of graph breaks; the second has branches on values of tensors."""

EVENTS = 100_000


@dataclass(frozen=True)
class Compilations:
    """Counts of torch.compile in this process; the cache is inductor's on disk."""

    seconds: float = 0.0
    graphs: int = 0
    graph_breaks: int = 0
    recompilations: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


def is_compiler_loaded() -> bool:
    return "torch._dynamo" in sys.modules


def reset_compiler() -> None:
    if is_compiler_loaded():
        from torch._dynamo import convert_frame, utils

        if convert_frame.FRAME_COUNTER:  # else reset() would load inductor, which takes seconds
            torch.compiler.reset()
        utils.clear_compilation_metrics()
        utils.counters.clear()


def compilations() -> Compilations:
    """Count the compilations since `reset_compiler`; call this after each call that compiles.

    Until the first call torch keeps the latest 64 events only, then EVENTS.
    """
    if not is_compiler_loaded():
        return Compilations()
    from torch._dynamo import utils

    utils.set_compilation_metrics_limit(EVENTS)
    events = [event for event in utils.get_compilation_metrics() if not event.is_runtime]
    inductor = utils.counters["inductor"]
    return Compilations(
        seconds=sum(event.duration_us or 0 for event in events) / 1e6,
        graphs=utils.counters["stats"]["unique_graphs"],
        graph_breaks=sum(sum(utils.counters[kind].values()) for kind in GRAPH_BREAKS),
        recompilations=sum(event.recompile_reason is not None for event in events),
        cache_hits=inductor["fxgraph_cache_hit"],
        cache_misses=inductor["fxgraph_cache_miss"],
    )


def keep_progress_bars_local() -> None:
    """Give the progress bars of this process a lock of its own.

    Tracing makes a bar with a semaphore as its lock. A rank exits without releasing it, and Python
    would print a warning.
    """
    from torch.hub import tqdm

    if hasattr(tqdm, "set_lock"):  # torch's fallback without tqdm lacks it
        tqdm.set_lock(threading.RLock())

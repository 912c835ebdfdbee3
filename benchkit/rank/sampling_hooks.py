"""Hooks around the samples of a rank: throttle, cache flush, names and ranges for nsys."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import torch

from benchkit.api.case import Case, noop
from benchkit.api.keys import NSYS, RunConfig
from benchkit.api.memory import free_unused
from benchkit.measure.sampler import Hooks
from benchkit.rank.throttle import ThrottleController

CACHES = 2  # bytes written to flush the L2 cache, as a multiple of its size


def make_hooks(
    config: RunConfig,
    controller: ThrottleController,
    world_size: int,
    turn_to: Callable[[Case], None] = noop,
    cuda: Any = torch.cuda,
) -> Hooks:
    """Return the hooks of this rank.

    Only a single rank continues after it runs out of memory. `turn_to` is called before each series
    of samples of a case.
    """
    device = config.hardware.device
    flush = cache_flush(cuda, device) if config.measure.cold_l2 else noop

    @contextmanager
    def around_samples_of(case: Case) -> Iterator[None]:
        controller.set_for(case.unslowed)
        turn_to(case)
        with named_range(label_of(case), cuda) if device == "cuda" else nullcontext():
            yield

    def around_blocks() -> AbstractContextManager[None]:
        return capture_with_nsys(cuda) if config.profile == NSYS else nullcontext()

    return Hooks(
        around_samples_of=around_samples_of,
        around_blocks=around_blocks,
        before_sample=flush,
        spoil=spoil,
        after_oom=free_unused if world_size == 1 else None,
    )


def spoil(result: object) -> None:
    """Overwrite the tensor that a call returned, so that returning it again is detected."""
    if isinstance(result, torch.Tensor):
        with torch.inference_mode(result.is_inference()), torch.no_grad():
            result.fill_(float("nan") if result.is_floating_point() else 0)


def label_of(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.labels.items())


@contextmanager
def named_range(name: str, cuda: Any) -> Iterator[None]:
    """Name this context in the traces of nsys."""
    cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        cuda.nvtx.range_pop()


@contextmanager
def capture_with_nsys(cuda: Any) -> Iterator[None]:
    """Let `nsys profile --capture-range=cudaProfilerApi` record this context."""
    cuda.synchronize()
    cuda.profiler.start()
    with flush_profiler("cuda", cuda):
        yield


@contextmanager
def flush_profiler(device: str, cuda: Any = torch.cuda) -> Iterator[None]:
    """Flush the buffers of nsys and other users of CUPTI at the end of this context.

    A rank exits by os._exit, which would discard them.
    """
    try:
        yield
    finally:
        with suppress(RuntimeError):  # after an error of the GPU, which another exception reports
            if device == "cuda":
                cuda.synchronize()
                cuda.profiler.stop()


def cache_flush(cuda: Any, device: str) -> Callable[[], object]:
    size = CACHES * cuda.get_device_properties(cuda.current_device()).L2_cache_size
    buffer = torch.empty(size, dtype=torch.int8, device=device)
    return lambda: buffer.zero_()

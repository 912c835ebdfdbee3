"""What a rank does around its samples: throttles, a cold cache, and what nsys is told of a GPU."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import torch

from benchkit.api.case import Case, noop
from benchkit.api.groups import NSYS
from benchkit.api.memory import free_unused
from benchkit.api.schema import RunConfig
from benchkit.measure.hooks import Hooks
from benchkit.rank.throttle_controller import ThrottleController

CACHES = 2
"""Size of what is written to flush the L2 cache, as a multiple of its size."""


def hooks_of(
    config: RunConfig,
    controller: ThrottleController,
    world_size: int,
    turn_to: Callable[[Case], None] = noop,
    cuda: Any = torch.cuda,
) -> Hooks:
    """Returns what this rank does around samples.

    Args:
        config: of the point.
        controller: this rank's throttle.
        world_size: number of ranks; where there is one only, it goes on after a lack of memory.
        turn_to: called before each series of samples of a case.
        cuda: torch.cuda, or what replaces it in a test.
    """
    device = config.hardware.device
    flush = cache_flush(cuda, device) if config.measure.cold_l2 else noop

    @contextmanager
    def series(case: Case) -> Iterator[None]:
        controller.set_for(case.unslowed)
        turn_to(case)
        with named_range(label_of(case), cuda) if device == "cuda" else nullcontext():
            yield

    def measured() -> AbstractContextManager[None]:
        return captured_by_nsys(cuda) if config.profile == NSYS else nullcontext()

    return Hooks(
        series=series,
        measured=measured,
        before_sample=flush,
        spoil=spoil,
        after_oom=free_unused if world_size == 1 else None,
    )


def spoil(result: object) -> None:
    """Overwrites a tensor that a call returned, so that it cannot be returned again unseen."""
    if isinstance(result, torch.Tensor):
        with torch.inference_mode(result.is_inference()), torch.no_grad():
            result.fill_(float("nan") if result.is_floating_point() else 0)


def label_of(case: Case) -> str:
    """Returns what sets a case apart in its job, as traces name it."""
    return " ".join(f"{name}={value}" for name, value in case.labels.items())


@contextmanager
def named_range(name: str, cuda: Any) -> Iterator[None]:
    """Names what happens in this context in the traces of nsys."""
    cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        cuda.nvtx.range_pop()


@contextmanager
def captured_by_nsys(cuda: Any) -> Iterator[None]:
    """Lets `nsys profile --capture-range=cudaProfilerApi` record what happens in this context."""
    cuda.synchronize()
    cuda.profiler.start()
    with flushed_profiler("cuda", cuda):
        yield


@contextmanager
def flushed_profiler(device: str, cuda: Any = torch.cuda) -> Iterator[None]:
    """Makes nsys, and others that use CUPTI, write out at the end of this context what they hold.

    A rank ends by os._exit, which would discard it.
    """
    try:
        yield
    finally:
        with suppress(RuntimeError):  # after an error of the GPU, which another exception reports
            if device == "cuda":
                cuda.synchronize()
                cuda.profiler.stop()


def cache_flush(cuda: Any, device: str) -> Callable[[], object]:
    """Returns a call that fills the L2 cache of the current GPU with other data."""
    size = CACHES * cuda.get_device_properties(cuda.current_device()).L2_cache_size
    buffer = torch.empty(size, dtype=torch.int8, device=device)
    return lambda: buffer.zero_()

"""Square matrix products as cases; every rank multiplies matrices of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from benchkit.api import lut
from benchkit.api.case import CONFIGURED, CapturableStep, Case, Rank, Work
from benchkit.api.keys import COLD, GRAPH, MeasureConfig
from benchkit.api.p2p import first_reason
from benchkit.api.products import Matmul, SquareProduct, float8_missing, matmul_here
from benchkit.suites.matmul_lut.suite import MatmulLutConfig, checking_bytes

SMALL, PROBED = 64, 4096
"""Sizes that are timed: one whose call takes as little as any, one that fills a whole GPU."""
TURNS = 3
CHECKS = 2
CAPTURE = 2
"""Further calls of a case that a graph replaces: one beside the capture, which itself computes
nothing, and one to verify it."""
FILLING = 2
"""Samples that find the number of calls of a sample, where that is `auto`."""


@dataclass(frozen=True)
class ProductTimes:
    """Times of products of matrices [size, size] on the slowest rank; 0 where none was timed.

    A product takes at least launch_s, a large one cube_s times the cube of its size.
    """

    launch_s: float = 0.0
    cube_s: float = 0.0

    def seconds(self, size: int) -> float:
        return max(self.launch_s, self.cube_s * size**3)

    def launches(self, sizes: Sequence[int]) -> str:
        bound = [str(size) for size in sizes if self.cube_s * size**3 < self.launch_s]
        if not bound:
            return ""
        least = f"{1e6 * self.launch_s:.3g} us"
        return (
            f"sizes {', '.join(bound)}: a product of {SMALL} rows takes {least}, "
            "longer than theirs by their operations; these are times of a kernel's start"
        )


def forecast(
    sizes: Sequence[int], rank: Rank, product: Callable[[int], Callable[[], object]]
) -> ProductTimes:
    """Time a large product and, on a GPU, a small one; all ranks call this together.

    On a CPU launching takes no time, and nothing is timed unless there are larger sizes.
    """
    on_cpu = rank.device.type == "cpu"
    if on_cpu and max(sizes) <= PROBED:
        return ProductTimes()
    timed = [PROBED] if on_cpu else [PROBED, SMALL]
    large, *small = map(max, rank.seconds_of(*map(product, timed), turns=TURNS))
    return ProductTimes(max(small, default=0.0), large / PROBED**3)


def fewest_calls(measure: MeasureConfig) -> int:
    samples = 1 + measure.warmup_iterations
    untimed = CHECKS + (CAPTURE if measure.mode == GRAPH else 0)
    calls = measure.sample_of(CONFIGURED).number
    return untimed + (samples * calls or FILLING + samples)


Multiply = Callable[[], object]


def cases_of(config: MatmulLutConfig, rank: Rank) -> list[Case]:
    """Return the case of each size; those beyond memory or the point's time are skipped."""
    kind = matmul_here(config.dtype, rank.device)
    if kind.is_float8 and (lacking := first_reason(float8_missing(kind))):
        return [Case(labels={lut.SIZE: size}, unavailable=lacking) for size in config.sizes]
    times = ProductTimes()
    if config.measure.mode != COLD:  # a forecast would make the first calls
        times = forecast(config.sizes, rank, lambda size: SquareProduct(kind, size, seed=0).step)
    calls = fewest_calls(config.measure)
    cases: list[Case] = []
    held_bytes = check_bytes = 0
    spent_s = 0.0
    for size in config.sizes:
        needed_bytes = config.held_bytes(size)
        most_check_bytes = max(check_bytes, checking_bytes(size))
        seconds = calls * times.seconds(size)
        skip = rank.memory_shortage(held_bytes + needed_bytes + most_check_bytes)
        if not skip and spent_s + seconds > config.timeout_s:
            skip = too_late_reason(calls, times.seconds(size), config.timeout_s - spent_s)
        if skip:
            cases.append(Case(labels={lut.SIZE: size}, skip=skip))
            continue
        held_bytes, check_bytes = held_bytes + needed_bytes, most_check_bytes
        spent_s += seconds
        cases.append(matmul(size, kind, config, rank))
    warning = times.launches(config.sizes)
    if warning and config.measure.mode != GRAPH:  # a graph is launched once
        cases[0] = replace(cases[0], warnings=(warning,))
    return cases


def too_late_reason(calls: int, seconds: float, left_s: float) -> str:
    return (
        f"needs {calls} calls of about {seconds:.3g} s, {left_s:.3g} s left: "
        "a larger timeout_s, or smaller sizes"
    )


def matmul(size: int, kind: Matmul, config: MatmulLutConfig, rank: Rank) -> Case:
    square = SquareProduct(kind, size, rank.seed + rank.index)
    streams = [torch.cuda.Stream(rank.device) for _ in range(config.bg_streams)]
    background_steps = [
        partial(square.multiply_into, torch.empty_like(square.product)) for _ in streams
    ]
    background = list(zip(streams, background_steps, strict=True))
    step = CapturableStep(partial(multiply_together, square.step, background))
    flops = square.flops * rank.world_size
    # With other streams its rate would be only a share of the GPU's.
    useful = None if config.bg_streams else flops
    work = Work(useful_flops=useful, executed_flops=flops * (1 + config.bg_streams))
    labels = {lut.SIZE: size}
    return Case(step, labels, verify=square.verify, work=work, details=lambda: kind.details)


def multiply_together(
    timed: Multiply, background: Sequence[tuple[torch.cuda.Stream, Multiply]]
) -> None:
    """Multiply on the current stream, and concurrently on others, to other outputs.

    The others begin after the work that is queued already; the current stream waits for their end.
    """
    for stream, beside in background:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            beside()
    timed()
    for stream, _ in background:
        torch.cuda.current_stream().wait_stream(stream)

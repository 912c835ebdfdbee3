"""Warms up and times the cases of one job, in interleaved blocks, until they are known well enough.

Runs on every rank in step: every decision is made from samples that all ranks have exchanged, so all ranks decide
the same. Knows neither torch nor processes; clock, barrier and exchange are handed in.
"""

import gc
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from benchkit.case import Case
from benchkit.clocks import Clock
from benchkit.config import MeasureConfig
from benchkit.errors import starved
from benchkit.measurement import Measurement
from benchkit.statistics import relative_half_width, slowest_rank

Exchange = Callable[[list[float]], list[list[float]]]
"""Gives every rank's list, in order of ranks, for one's own; all lists have the same length."""


def measure(
    cases: Sequence[Case],
    config: MeasureConfig,
    *,
    clock: Clock,
    barrier: Callable[[], None],
    exchange: Exchange,
    seed: int,
    before: Callable[[Case], None] = lambda case: None,
    single_rank: bool = False,
) -> list[Measurement]:
    """Times every case; returns their measurements in the order of `cases`.

    before: called before some samples. single_rank: then a case that finds too little memory is given up, and the
    others are timed. Of several ranks the others would wait for it.
    """
    timer = Timer(config, clock, barrier, exchange, before)
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle of a sample is not the case's time
    try:
        measurements = [Measurement() for _ in cases]
        for case, measurement in zip(cases, measurements, strict=True):
            with given_up(measurement, single_rank):
                timer.warm_up(case, measurement)
        order = random.Random(seed)  # the same on all ranks
        active = [index for index, measurement in enumerate(measurements) if not measurement.starved]
        while active:
            single_case = len(active) == 1  # nobody to alternate with: fewer exchanges, the same blocks
            for index in order.sample(active, len(active)):
                with given_up(measurements[index], single_rank):
                    timer.run_blocks(cases[index], measurements[index], single_case)
                if measurements[index].starved or stop(measurements[index], config):
                    active.remove(index)
        return measurements
    finally:
        if collecting:
            gc.enable()


@contextmanager
def given_up(measurement: Measurement, single_rank: bool) -> Iterator[None]:
    """Within, too little memory is noted rather than raised, on a rank that nobody waits for."""
    try:
        yield
    except Exception as error:
        measurement.starved = starved(error) if single_rank else ""
        if not measurement.starved:
            raise


@dataclass(frozen=True)
class Timer:
    """Takes samples of a case: reset and barrier outside the clock, the step inside."""

    config: MeasureConfig
    clock: Clock
    barrier: Callable[[], None]
    exchange: Exchange
    before: Callable[[Case], None]

    def warm_up(self, case: Case, measurement: Measurement) -> None:
        """Runs the warm-up and sizes the blocks by it; without one, a block is one sample."""
        measurement.calls_per_sample = calls = self.calls(case)
        if not self.config.warmup_iterations:
            return
        durations, starts, _ = self.sample(case, calls, self.config.warmup_iterations)
        ends = [*starts[1:], self.clock.now()]  # a sample costs its reset and barrier, too
        gathered = self.exchange([*durations, *(end - start for start, end in zip(starts, ends, strict=True))])
        measurement.warmup_s = [row[: len(durations)] for row in gathered]
        typical_s = float(np.median(slowest_rank([row[len(durations) :] for row in gathered])))
        measurement.block_iterations = block_size(typical_s, self.config)
        measurement.blocks_per_exchange = max(1, fitting(typical_s, self.config) // measurement.block_iterations)

    def calls(self, case: Case) -> int:
        """Calls in one sample; `auto` doubles them until all ranks together fill block_seconds."""
        most = case.max_calls_per_reset or sys.maxsize
        given = self.config.calls_per_sample
        if self.config.mode != "loop" or given != "auto":
            return min(int(given), most)
        calls = 1
        while calls < most:
            durations, _, _ = self.sample(case, calls, 1)
            if max(row[0] for row in self.exchange(durations)) * calls >= self.config.block_seconds:
                break
            calls = min(2 * calls, most)
        return calls

    def run_blocks(self, case: Case, measurement: Measurement, single_case: bool) -> None:
        """Takes a block of samples, or where the case is alone as many as fill block_seconds, and shares them."""
        began = self.clock.now()
        wanted = measurement.block_iterations * (measurement.blocks_per_exchange if single_case else 1)
        count = min(wanted, self.config.max_iterations - measurement.num_samples())
        durations, starts, regions = self.sample(case, measurement.calls_per_sample, count)
        spent = [seconds[name] for name in case.regions for seconds in regions]
        gathered = self.exchange([*durations, *starts, *spent, self.clock.now() - began])
        columns = [[row[i * count : (i + 1) * count] for row in gathered] for i in range(2 + len(case.regions))]
        measurement.add(columns[0], columns[1], dict(zip(case.regions, columns[2:], strict=True)))
        measurement.elapsed_s += max(row[-1] for row in gathered)

    def sample(self, case: Case, calls: int, count: int) -> tuple[list[float], list[float], list[dict[str, float]]]:
        """`count` samples of this rank: seconds per call, when each started, and seconds per call in each region."""
        durations, starts, regions = [], [], []
        self.before(case)
        for _ in range(count):
            case.reset()
            self.barrier()
            self.clock.take_regions()  # what reset() marked, if anything
            start, duration = self.clock.time(case.step, calls)
            durations.append(duration / calls)
            starts.append(start)
            spent = self.clock.take_regions()
            regions.append({name: spent.get(name, 0.0) / calls for name in case.regions})
            case.observe(regions[-1])
        return durations, starts, regions


def block_size(typical_s: float, config: MeasureConfig) -> int:
    """Samples in a block: as many as fill block_seconds, yet few enough for min_blocks of them, and odd.

    The median of an even number is a mean of two, which for skewed times estimates something else than the median.
    """
    size = max(1, min(fitting(typical_s, config), config.max_iterations // config.min_blocks))
    return size if size % 2 else size - 1


def fitting(typical_s: float, config: MeasureConfig) -> int:
    """Samples that fill block_seconds."""
    return math.ceil(config.block_seconds / typical_s) if typical_s > 0 else config.max_iterations


def stop(measurement: Measurement, config: MeasureConfig) -> bool:
    """Decides after a block whether the case is done, and notes why."""
    taken, block = measurement.num_samples(), measurement.block_iterations
    if config.target_rel_ci is not None:
        width = relative_half_width(np.asarray(measurement.block_medians_s))
        measurement.converged = width is not None and width <= config.target_rel_ci
        if measurement.converged and taken >= config.min_blocks * block:
            measurement.stopped_by = "target_rel_ci"
            return True
    if taken >= config.max_iterations:
        measurement.stopped_by = "max_iterations"
    elif measurement.elapsed_s >= config.max_seconds:
        measurement.stopped_by = "max_seconds"
    return bool(measurement.stopped_by)

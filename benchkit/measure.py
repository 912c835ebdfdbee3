"""Warms up and times the cases of one job, in interleaved blocks, until they are known well enough.

Runs on every rank in step: every decision is made from samples that all ranks have exchanged, so all ranks decide
the same. Knows neither torch nor processes; clock, barrier and exchange are handed in.
"""

import gc
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchkit.case import Case
from benchkit.clocks import Clock
from benchkit.config import MeasureConfig
from benchkit.statistics import block_medians, relative_half_width, slowest_rank

Exchange = Callable[[list[float]], list[list[float]]]
"""Gives every rank's list, in order of ranks, for one's own; all lists have the same length."""


@dataclass
class Measurement:
    """The raw samples of one case: seconds per call, as [rank][iteration].

    start_offsets_s: when each rank started, after the first to start, per iteration. regions_s: per region seconds per
    call, as [rank][iteration]. stopped_by: target_rel_ci,
    max_iterations or max_seconds. converged: whether the target was met; None where there was none.
    """

    calls_per_sample: int
    block_iterations: int = 1
    blocks_per_exchange: int = 1
    warmup_s: list[list[float]] = field(default_factory=list)
    samples_s: list[list[float]] = field(default_factory=list)
    start_offsets_s: list[list[float]] = field(default_factory=list)
    regions_s: dict[str, list[list[float]]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    stopped_by: str = ""
    converged: bool | None = None
    block_medians_s: list[float] = field(default_factory=list)

    def add(self, samples: list[list[float]], starts: list[list[float]], regions: dict[str, list[list[float]]]) -> None:
        """Appends whole blocks, or the rest at the end: [rank][iteration]."""
        if not self.samples_s:
            self.samples_s = [[] for _ in samples]
            self.start_offsets_s = [[] for _ in samples]
            self.regions_s = {name: [[] for _ in samples] for name in regions}
        self.block_medians_s += block_medians(slowest_rank(samples), self.block_iterations).tolist()
        first = [min(column) for column in zip(*starts, strict=True)]
        for rank, (durations, began) in enumerate(zip(samples, starts, strict=True)):
            self.samples_s[rank] += durations
            self.start_offsets_s[rank] += [start - zero for start, zero in zip(began, first, strict=True)]
            for name, spent in regions.items():
                self.regions_s[name][rank] += spent[rank]


def measure(
    cases: Sequence[Case],
    config: MeasureConfig,
    *,
    clock: Clock,
    barrier: Callable[[], None],
    exchange: Exchange,
    seed: int,
    before: Callable[[Case], None] = lambda case: None,
) -> list[Measurement]:
    """Times every case; returns their measurements in the order of `cases`. `before`: called before some samples."""
    timer = Timer(config, clock, barrier, exchange, before)
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle of a sample is not the case's time
    try:
        measurements = [timer.warm_up(case) for case in cases]
        order = random.Random(seed)  # the same on all ranks
        active = list(range(len(cases)))
        while active:
            alone = len(active) == 1  # nobody to alternate with: fewer exchanges, the same blocks
            for index in order.sample(active, len(active)):
                timer.run_blocks(cases[index], measurements[index], alone)
                if stop(measurements[index], config):
                    active.remove(index)
        return measurements
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True)
class Timer:
    """Takes samples of a case: reset and barrier outside the clock, the step inside."""

    config: MeasureConfig
    clock: Clock
    barrier: Callable[[], None]
    exchange: Exchange
    before: Callable[[Case], None]

    def warm_up(self, case: Case) -> Measurement:
        """Runs the warm-up and sizes the blocks by it; without one, a block is one sample."""
        measurement = Measurement(calls := self.calls(case))
        if not self.config.warmup_iterations:
            return measurement
        durations, starts, _ = self.sample(case, calls, self.config.warmup_iterations)
        ends = [*starts[1:], self.clock.now()]  # a sample costs its reset and barrier, too
        gathered = self.exchange([*durations, *(end - start for start, end in zip(starts, ends, strict=True))])
        measurement.warmup_s = [row[: len(durations)] for row in gathered]
        typical_s = float(np.median(slowest_rank([row[len(durations) :] for row in gathered])))
        measurement.block_iterations = block_size(typical_s, self.config)
        measurement.blocks_per_exchange = max(1, fitting(typical_s, self.config) // measurement.block_iterations)
        return measurement

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

    def run_blocks(self, case: Case, measurement: Measurement, alone: bool) -> None:
        """Takes a block of samples, or where the case is alone as many as fill block_seconds, and shares them."""
        began = self.clock.now()
        wanted = measurement.block_iterations * (measurement.blocks_per_exchange if alone else 1)
        count = min(wanted, self.config.max_iterations - num_samples(measurement))
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


def num_samples(measurement: Measurement) -> int:
    return len(measurement.samples_s[0]) if measurement.samples_s else 0


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
    taken, block = num_samples(measurement), measurement.block_iterations
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

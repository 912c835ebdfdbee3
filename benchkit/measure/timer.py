"""Warms up and times the cases of one job, in interleaved blocks, until they are known well enough.

Runs on every rank in step: every decision is made from samples that all ranks have exchanged, so all ranks decide
the same. Knows neither torch nor processes; clock, barrier and exchange are handed in.
"""

import gc
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from benchkit.api.case import Case
from benchkit.api.schema import MeasureConfig
from benchkit.errors import starved
from benchkit.measure.clocks import Clock
from benchkit.measure.disturbance import COUNTERS, core_ghz, read_counters
from benchkit.measure.measurement import Measurement
from benchkit.statistics.intervals import Array, series_interval
from benchkit.statistics.summary import relative_half_width, slowest_rank

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
            with skip_on_oom(measurement, single_rank):
                timer.warm_up(case, measurement)
        order = random.Random(seed)  # the same on all ranks
        active = [index for index, measurement in enumerate(measurements) if not measurement.starved]
        while active:
            single_case = len(active) == 1  # it takes turns with no other
            for index in order.sample(active, len(active)):
                with skip_on_oom(measurements[index], single_rank):
                    timer.run_block(cases[index], measurements[index], single_case)
                if measurements[index].starved or stop(measurements[index], config, single_case):
                    active.remove(index)
        return measurements
    finally:
        if collecting:
            gc.enable()


@contextmanager
def skip_on_oom(measurement: Measurement, single_rank: bool) -> Iterator[None]:
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
        """Calls the case until it gets no faster, at least `warmup_iterations` times."""
        measurement.calls_per_sample = self.calls(case)
        measurement.estimator, measurement.ranks = case.estimator, case.ranks
        window, count, spent_s = None, self.config.warmup_iterations, 0.0
        while count:
            times, elapsed_s = self.warm_up_window(case, measurement, count)
            spent_s += elapsed_s
            measurement.typical_s = elapsed_s / count
            if window is not None:
                measurement.steady = float(np.median(times)) >= float(np.quantile(window, 0.25))
            if measurement.steady or spent_s >= self.config.max_warmup_seconds:
                break
            window, count = times, max(count, fitting(measurement.typical_s, self.config))

    def warm_up_window(self, case: Case, measurement: Measurement, count: int) -> tuple[Array, float]:
        """Takes some samples, sets them aside; their times and how long all of it took (s), as all ranks know them."""
        began = self.clock.now()
        durations, _, _ = self.sample(case, measurement.calls_per_sample, count)
        gathered = self.exchange([*durations, self.clock.now() - began])
        rows = [row[:count] for row in gathered]
        kept = measurement.warmup_s or [[] for _ in rows]
        measurement.warmup_s = [before + row for before, row in zip(kept, rows, strict=True)]
        return slowest_rank(rows), max(row[-1] for row in gathered)

    def calls(self, case: Case) -> int:
        """Calls in one sample; where a length is asked for, doubled until all ranks together fill it."""
        given = self.config.calls_per_sample
        to_fill = case.fill_seconds or (self.config.block_seconds if given == "auto" else 0.0)
        if not to_fill:
            return int(given)
        calls = 1
        while not all(self.fills(case, calls, to_fill) for _ in range(2)):  # twice: a single call may be held up
            calls *= 2
        return calls

    def fills(self, case: Case, calls: int, seconds: float) -> bool:
        """Whether so many calls fill so many seconds on the slowest rank."""
        durations, _, _ = self.sample(case, calls, 1)
        return max(row[0] for row in self.exchange(durations)) * calls >= seconds

    def run_block(self, case: Case, measurement: Measurement, single_case: bool) -> None:
        """Takes a block of samples and shares them; where the case is alone, as many as fill block_seconds."""
        began, before = self.clock.now(), read_counters()
        size = fitting if single_case else block_size
        count = min(size(measurement.typical_s, self.config), self.config.max_iterations - measurement.num_samples())
        durations, starts, regions = self.sample(case, measurement.calls_per_sample, count)
        spent = [seconds[name] for name in case.regions for seconds in regions]
        grown = [after - then for after, then in zip(read_counters(), before, strict=True)]
        gathered = self.exchange([*durations, *starts, *spent, *grown, core_ghz(), self.clock.now() - began])
        columns = [[row[i * count : (i + 1) * count] for row in gathered] for i in range(2 + len(case.regions))]
        measurement.add(columns[0], columns[1], dict(zip(case.regions, columns[2:], strict=True)))
        counted = [row[-2 - len(COUNTERS) : -2] for row in gathered]
        measurement.add_disturbance(dict(zip(COUNTERS, map(list, zip(*counted, strict=True)), strict=True)))
        measurement.add_frequency([row[-2] for row in gathered])
        measurement.elapsed_s += max(row[-1] for row in gathered)
        measurement.typical_s = measurement.elapsed_s / measurement.num_samples()

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
    """Samples in a block: as many as fill block_seconds, few enough for min_blocks of them, and odd.

    The median of an even number is a mean of two, which for skewed times estimates something else than the median.
    """
    size = max(1, min(fitting(typical_s, config), config.max_iterations // config.min_blocks))
    return size if size % 2 else size - 1


def fitting(typical_s: float, config: MeasureConfig) -> int:
    """Samples that fill block_seconds; one where nothing is known of them yet."""
    return math.ceil(config.block_seconds / typical_s) if typical_s > 0 else 1


def stop(measurement: Measurement, config: MeasureConfig, single_case: bool) -> bool:
    """Decides after a block whether the case is done, and notes why."""
    if config.target_rel_ci is not None:
        times = measurement.times()
        width = relative_half_width(series_interval(times), float(np.median(times)))
        measurement.converged = width is not None and width <= config.target_rel_ci
        if measurement.converged and (single_case or len(measurement.blocks) >= config.min_blocks):
            measurement.stopped_by = "target_rel_ci"
            return True
    if measurement.num_samples() >= config.max_iterations:
        measurement.stopped_by = "max_iterations"
    elif measurement.elapsed_s >= config.max_seconds:
        measurement.stopped_by = "max_seconds"
    return bool(measurement.stopped_by)

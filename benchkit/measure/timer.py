"""Warms up and times the cases of one job in interleaved blocks, until they are known well enough.

It runs on every rank in step. Every decision is made from samples that all ranks have exchanged, so
all ranks decide the same. It knows neither torch nor processes: clock, barrier and exchange are
handed in.
"""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from benchkit.api.case import Case
from benchkit.api.schema import MeasureConfig
from benchkit.errors import oom_reason
from benchkit.measure.budget import block_size, fitting, stop
from benchkit.measure.clocks import Clock
from benchkit.measure.disturbance import COUNTERS, core_ghz, read_counters
from benchkit.measure.measurement import Measurement, Rows
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import slowest_rank

Exchange = Callable[[list[float]], list[list[float]]]
"""Returns every rank's list for one's own, in order of ranks; all lists have the same length."""
Samples = tuple[list[float], list[float], list[dict[str, float]]]
"""One rank's seconds per call, starts in seconds, and seconds per call by region: [iteration]."""


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

    Args:
        cases: what to time; alike on all ranks.
        config: how long, and until when, each case is timed.
        clock: times the calls of this rank.
        barrier: returns when all ranks have called it.
        exchange: shares numbers among all ranks.
        seed: sets the order in which cases take turns; alike on all ranks.
        before: called before each series of samples of a case.
        single_rank: whether there is one rank only. Then a case that runs out of memory is
            skipped, and the others are timed. With several ranks the other ranks would wait for it.
    """
    timer = Timer(config, clock, barrier, exchange, before, single_rank)
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle of a sample is not the case's time
    try:
        return timer.run(cases, seed)
    finally:
        if collecting:
            gc.enable()


@contextmanager
def skip_on_oom(measurement: Measurement, single_rank: bool) -> Iterator[None]:
    """Notes a lack of memory instead of raising it, on a rank that no other rank waits for."""
    try:
        yield
    except Exception as error:
        measurement.oom_reason = oom_reason(error) if single_rank else ""
        if not measurement.oom_reason:
            raise


@dataclass(frozen=True)
class Timer:
    """Takes samples of cases: reset and barrier outside the clock, step inside; see `measure`."""

    config: MeasureConfig
    clock: Clock
    barrier: Callable[[], None]
    exchange: Exchange
    before: Callable[[Case], None]
    single_rank: bool

    def run(self, cases: Sequence[Case], seed: int) -> list[Measurement]:
        """Warms up every case, then runs rounds of one block per case until every case is done."""
        measurements = [Measurement() for _ in cases]
        for case, measurement in zip(cases, measurements, strict=True):
            with skip_on_oom(measurement, self.single_rank):
                self.warm_up(case, measurement)
        order = random.Random(seed)  # the same on all ranks
        active = [index for index in range(len(cases)) if not measurements[index].oom_reason]
        while active:
            single_case = len(active) == 1  # it takes turns with no other
            for index in order.sample(active, len(active)):
                measurement = measurements[index]
                with skip_on_oom(measurement, self.single_rank):
                    self.run_block(cases[index], measurement, single_case)
                if measurement.oom_reason or stop(measurement, self.config, single_case):
                    active.remove(index)
        return measurements

    def warm_up(self, case: Case, measurement: Measurement) -> None:
        """Calls the case until it gets no faster, at least `warmup_iterations` times."""
        measurement.calls_per_sample = self.calls(case)
        measurement.estimator = case.estimator
        measurement.ranks = case.ranks
        window: Array | None = None
        count = self.config.warmup_iterations
        spent_s = 0.0
        while count:
            times, elapsed_s = self.warm_up_window(case, measurement, count)
            spent_s += elapsed_s
            measurement.typical_s = elapsed_s / count
            if window is not None:
                measurement.steady = float(np.median(times)) >= float(np.quantile(window, 0.25))
            if measurement.steady or spent_s >= self.config.max_warmup_seconds:
                break
            window = times
            count = max(count, fitting(measurement.typical_s, self.config))

    def warm_up_window(
        self, case: Case, measurement: Measurement, count: int
    ) -> tuple[Array, float]:
        """Takes `count` samples of the warm-up and sets them aside.

        Returns:
            Seconds per call of the slowest rank, [iteration], and the seconds that all samples took
            on the slowest rank. Both are alike on all ranks.
        """
        began = self.clock.now()
        durations, _, _ = self.sample(case, measurement.calls_per_sample, count)
        gathered = self.exchange([*durations, self.clock.now() - began])
        rows = [row[:count] for row in gathered]
        kept = measurement.warmup_s or [[] for _ in rows]
        measurement.warmup_s = [before + row for before, row in zip(kept, rows, strict=True)]
        return slowest_rank(rows), max(row[-1] for row in gathered)

    def calls(self, case: Case) -> int:
        """Returns the calls of one sample: as configured, or doubled until they fill a length."""
        configured = self.config.calls_per_sample
        fill_s = case.fill_seconds or (self.config.block_seconds if configured == "auto" else 0.0)
        if not fill_s:
            return int(configured)
        calls = 1
        # Two samples must fill it, because a single call may be held up.
        while not all(self.fills(case, calls, fill_s) for _ in range(2)):
            calls *= 2
        return calls

    def fills(self, case: Case, calls: int, seconds: float) -> bool:
        """Returns whether so many calls take at least so many seconds on the slowest rank."""
        durations, _, _ = self.sample(case, calls, 1)
        return max(row[0] for row in self.exchange(durations)) * calls >= seconds

    def run_block(self, case: Case, measurement: Measurement, single_case: bool) -> None:
        """Adds a block of all ranks' samples; a single case takes as many as fill block_seconds."""
        began = self.clock.now()
        counters = read_counters()
        size = fitting if single_case else block_size
        remaining = self.config.max_iterations - measurement.num_samples()
        count = min(size(measurement.typical_s, self.config), remaining)
        durations, starts, regions = self.sample(case, measurement.calls_per_sample, count)
        spent = [seconds[name] for name in case.regions for seconds in regions]
        growth = [after - before for after, before in zip(read_counters(), counters, strict=True)]
        own = [*durations, *starts, *spent, *growth, core_ghz(), self.clock.now() - began]
        gathered = self.exchange(own)

        def series(index: int) -> Rows:
            """Returns one of the series that have a number per iteration: [rank][iteration]."""
            return [row[index * count : (index + 1) * count] for row in gathered]

        spent_by_region = {name: series(2 + index) for index, name in enumerate(case.regions)}
        measurement.add(series(0), series(1), spent_by_region)
        counted = [row[-2 - len(COUNTERS) : -2] for row in gathered]
        by_counter = map(list, zip(*counted, strict=True))
        measurement.add_disturbance(dict(zip(COUNTERS, by_counter, strict=True)))
        measurement.add_frequency([row[-2] for row in gathered])
        measurement.elapsed_s += max(row[-1] for row in gathered)
        measurement.typical_s = measurement.elapsed_s / measurement.num_samples()

    def sample(self, case: Case, calls: int, count: int) -> Samples:
        """Takes `count` samples of `calls` calls on this rank."""
        durations, starts, regions = [], [], []
        self.before(case)
        for _ in range(count):
            case.reset()
            self.barrier()
            self.clock.take_regions()  # discards what reset() marked, if anything
            start, duration = self.clock.time(case.step, calls)
            durations.append(duration / calls)
            starts.append(start)
            spent = self.clock.take_regions()
            regions.append({name: spent.get(name, 0.0) / calls for name in case.regions})
            case.observe(regions[-1])
        return durations, starts, regions

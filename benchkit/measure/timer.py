"""Warms up and times the cases of one job in interleaved blocks, until they are known well enough.

It runs on every rank in step. Every decision is made from samples that all ranks have exchanged, so
all ranks decide the same. It knows neither torch nor processes: clock, barrier and exchange are
handed in.
"""

import gc
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchkit.api.case import Case
from benchkit.api.details import QUEUEING
from benchkit.api.groups import COLD, MeasureConfig
from benchkit.errors import oom_reason
from benchkit.measure.budget import block_size, fitting, stop
from benchkit.measure.clocks import Clock
from benchkit.measure.disturbance import COUNTERS, core_ghz, read_counters
from benchkit.measure.hooks import DEFAULT_HOOKS, Hooks
from benchkit.measure.lead import Lead
from benchkit.measure.measurement import Measurement, Rows
from benchkit.measure.sampler import Sampler
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import slowest_rank

Exchange = Callable[[list[float]], list[list[float]]]
"""Returns every rank's list for one's own, in order of ranks; all lists have the same length."""


def measure(
    cases: Sequence[Case],
    config: MeasureConfig,
    *,
    clock: Clock,
    barrier: Callable[[], None],
    exchange: Exchange,
    seed: int,
    hooks: Hooks = DEFAULT_HOOKS,
) -> list[Measurement]:
    """Times every case; returns their measurements in the order of `cases`.

    Args:
        cases: what to time; alike on all ranks.
        config: how long, and until when, each case is timed.
        clock: times the calls of this rank.
        barrier: returns when all ranks have called it.
        exchange: shares numbers among all ranks.
        seed: sets the order in which cases take turns; alike on all ranks.
        hooks: what this rank does around samples.
    """
    timer = Timer(config, Sampler(clock, barrier, hooks), exchange)
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle of a sample is not the case's time
    try:
        return timer.run(cases, seed)
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True)
class Timer:
    """Decides, on all ranks alike, which samples of which case are taken next; see `measure`."""

    config: MeasureConfig
    sampler: Sampler
    exchange: Exchange

    def run(self, cases: Sequence[Case], seed: int) -> list[Measurement]:
        """Warms up every case, then runs rounds of one block per case until every case is done."""
        # A lead would hide the work of the host, which is what makes first calls slow.
        is_cold = self.config.mode == COLD
        leads = [None if case.on_host or is_cold else Lead() for case in cases]
        measurements = [Measurement(lead=lead) for lead in leads]
        for case, measurement in zip(cases, measurements, strict=True):
            self.attempt(measurement, partial(self.warm_up, case, measurement))
        with self.sampler.hooks.measured():
            self.run_rounds(cases, measurements, random.Random(seed))  # the same on all ranks
        return measurements

    def run_rounds(
        self, cases: Sequence[Case], measurements: list[Measurement], order: random.Random
    ) -> None:
        """Runs one block per case in a random order, again and again, until every case is done."""
        active = [index for index in range(len(cases)) if not measurements[index].oom_reason]
        while active:
            single_case = len(active) == 1  # it takes turns with no other
            for index in order.sample(active, len(active)):
                measurement = measurements[index]
                block = partial(self.run_block, cases[index], measurement, single_case)
                self.attempt(measurement, block)
                if measurement.oom_reason or stop(measurement, self.config, single_case):
                    active.remove(index)

    def attempt(self, measurement: Measurement, timing: Callable[[], None]) -> None:
        """Runs a part of the timing; notes a lack of memory where no other rank waits."""
        try:
            timing()
        except Exception as error:
            if self.sampler.hooks.after_oom:
                measurement.oom_reason = oom_reason(error)
            if not measurement.oom_reason:
                raise
        if measurement.oom_reason and self.sampler.hooks.after_oom:
            self.sampler.hooks.after_oom()  # now, because the exception held the case's tensors

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
        began = self.sampler.clock.now()
        lead_s = measurement.lead_s
        durations, _, regions = self.sampler.sample(
            case, measurement.calls_per_sample, count, lead_s
        )
        queueing = [spent.get(QUEUEING, 0.0) for spent in regions]
        gathered = self.exchange([*durations, *queueing, self.sampler.clock.now() - began])
        rows = [row[:count] for row in gathered]
        measurement.learn_lead([row[count:-1] for row in gathered])
        kept = measurement.warmup_s or [[] for _ in rows]
        measurement.warmup_s = [before + row for before, row in zip(kept, rows, strict=True)]
        return slowest_rank(rows), max(row[-1] for row in gathered)

    def calls(self, case: Case) -> int:
        """Returns the calls of one sample: as configured, or doubled until they fill a length."""
        if self.config.mode == COLD:
            return 1
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
        lead_s = None if case.on_host else 0.0
        durations, _, _ = self.sampler.sample(case, calls, 1, lead_s)
        return max(row[0] for row in self.exchange(durations)) * calls >= seconds

    def run_block(self, case: Case, measurement: Measurement, single_case: bool) -> None:
        """Adds a block of all ranks' samples; a single case takes as many as fill block_seconds."""
        began = self.sampler.clock.now()
        counters = read_counters()
        size = fitting if single_case else block_size
        remaining = self.config.max_iterations - measurement.num_samples()
        count = min(size(measurement.typical_s, self.config), remaining)
        lead_s, calls = measurement.lead_s, measurement.calls_per_sample
        durations, starts, regions = self.sampler.sample(case, calls, count, lead_s)
        names = self.sampler.region_names(case)
        spent = [seconds[name] for name in names for seconds in regions]
        growth = [after - before for after, before in zip(read_counters(), counters, strict=True)]
        own = [*durations, *starts, *spent, *growth, core_ghz(), self.sampler.clock.now() - began]
        gathered = self.exchange(own)

        def series(index: int) -> Rows:
            """Returns one of the series that have a number per iteration: [rank][iteration]."""
            return [row[index * count : (index + 1) * count] for row in gathered]

        spent_by_region = {name: series(2 + index) for index, name in enumerate(names)}
        measurement.add(series(0), series(1), spent_by_region)
        if QUEUEING in names:
            measurement.learn_lead(spent_by_region[QUEUEING])
        counted = [row[-2 - len(COUNTERS) : -2] for row in gathered]
        by_counter = map(list, zip(*counted, strict=True))
        measurement.add_disturbance(dict(zip(COUNTERS, by_counter, strict=True)))
        measurement.add_frequency([row[-2] for row in gathered])
        measurement.elapsed_s += max(row[-1] for row in gathered)
        measurement.typical_s = measurement.elapsed_s / measurement.num_samples()

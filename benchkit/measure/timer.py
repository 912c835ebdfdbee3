"""Time the cases of a job in interleaved blocks until each is converged or at its limit.

It runs on every rank in step. Every decision is computed from all-gathered samples, so all ranks
decide alike. It imports neither torch nor process code: clock, barrier and all-gather are
parameters.
"""

import gc
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchkit.api.case import Case, noop
from benchkit.api.keys import COLD, MeasureConfig
from benchkit.api.regions import QUEUEING
from benchkit.errors import oom_reason
from benchkit.measure.check_schedule import CheckSchedule
from benchkit.measure.clocks import Clock
from benchkit.measure.disturbance import COUNTERS, core_ghz, read_counters
from benchkit.measure.sampler import DEFAULT_HOOKS, Hooks, LaunchDelay, Sampler
from benchkit.record.record import CaseSamples, Rows
from benchkit.statistics.intervals import Array, series_interval
from benchkit.statistics.samples import slowest_rank
from benchkit.statistics.summary import relative_half_width


@dataclass(kw_only=True)
class Measurement(CaseSamples):
    """The samples of one case so far, and the state that decides on the next ones.

    Attributes:
        iteration_s: estimated seconds of one iteration, with reset and barrier, for the size of the
            next block.
        delay: time in which a GPU is kept busy before a sample, while the host queues its calls;
            None if the host times the calls.
        oom_reason: lack of memory for which the case was dropped; None without.
        check_schedule: positions of its checks among its samples; None without checks.
        is_wrong: whether a check found its result wrong.
    """

    start_offsets_s: Rows = field(default_factory=list)
    iteration_s: float = 0.0
    delay: LaunchDelay | None = field(default_factory=LaunchDelay)
    oom_reason: str | None = None
    check_schedule: CheckSchedule | None = None
    is_wrong: bool = False

    @property
    def has_failed(self) -> bool:
        return self.is_wrong or bool(self.oom_reason)

    @property
    def num_checks(self) -> int | None:
        return self.check_schedule.num_made if self.check_schedule else None

    @property
    def delay_s(self) -> float | None:
        return self.delay.seconds if self.delay else None

    def num_samples(self) -> int:
        return len(self.samples_s[0]) if self.samples_s else 0

    def times(self) -> Array:
        return self.to_samples().times

    def add(self, samples: Rows, starts: Rows, regions: dict[str, Rows]) -> None:
        """Append a block: seconds per call, and starts on one clock: [rank][iteration]."""
        if not self.samples_s:
            self.samples_s = [[] for _ in samples]
            self.start_offsets_s = [[] for _ in samples]
            self.regions_s = {name: [[] for _ in samples] for name in regions}
        self.blocks.append(len(samples[0]))
        first_starts = [min(iteration) for iteration in zip(*starts, strict=True)]
        for rank, (durations, began) in enumerate(zip(samples, starts, strict=True)):
            self.samples_s[rank] += durations
            pairs = zip(began, first_starts, strict=True)
            self.start_offsets_s[rank] += [start - first for start, first in pairs]
            for name, spent in regions.items():
                self.regions_s[name][rank] += spent[rank]

    def learn_delay(self, queueing: Rows) -> None:
        """Set the launch delay of the next samples from the queueing times of this one.

        All ranks compute the same delay and therefore start together.

        Args:
            queueing: seconds per call: [rank][iteration].
        """
        if self.delay:
            calls = self.calls_per_sample
            self.delay.learn([calls * value for value in slowest_rank(queueing)])

    def add_disturbance(self, growth: dict[str, list[float]]) -> None:
        for name, by_rank in growth.items():
            previous = self.disturbance.get(name, [0.0] * len(by_rank))
            self.disturbance[name] = [a + b for a, b in zip(previous, by_rank, strict=True)]

    def add_frequency(self, ghz: list[float]) -> None:
        for name, extreme in (("lowest_ghz", min), ("highest_ghz", max)):
            previous = self.disturbance.get(name, ghz)
            self.disturbance[name] = list(map(extreme, previous, ghz))


FEWEST_TO_STOP = 800
"""Fewest samples of a case that target_rel_ci may stop.

A test after each block selects series whose interval is narrow by chance, most of all with few
samples.
"""


def block_size(typical_s: float, config: MeasureConfig) -> int:
    """Return an odd number of samples that fill block_seconds and leave room for min_blocks.

    The median of an even number of samples is the mean of two, which for skewed times estimates
    something else. `typical_s` is 0 while it is unknown.
    """
    size = max(
        1, min(samples_to_fill(typical_s, config), config.max_iterations // config.min_blocks)
    )
    return size if size % 2 else size - 1


def samples_to_fill(typical_s: float, config: MeasureConfig) -> int:
    return math.ceil(config.block_seconds / typical_s) if typical_s > 0 else 1


def is_converged(measurement: Measurement, config: MeasureConfig) -> bool | None:
    """Return whether the interval of the median meets its target; None without a target."""
    if config.target_rel_ci is None:
        return None
    times = measurement.times()
    width = relative_half_width(series_interval(times), float(np.median(times)))
    return width is not None and width <= config.target_rel_ci


def stop_reason(measurement: Measurement, config: MeasureConfig, single_case: bool) -> str:
    """Return the limit that stops a case after a block, or "" if it goes on.

    For a single case, which is interleaved with no other, min_blocks does not count.
    """
    num_samples = measurement.num_samples()
    has_enough_blocks = single_case or len(measurement.blocks) >= config.min_blocks
    if measurement.converged and has_enough_blocks and num_samples >= FEWEST_TO_STOP:
        return "target_rel_ci"
    if num_samples >= config.max_iterations:
        return "max_iterations"
    return "max_seconds" if measurement.elapsed_s >= config.most_seconds(num_samples) else ""


def launch_delay_of(case: Case, config: MeasureConfig) -> LaunchDelay | None:
    """Return the launch delay of a case; None if the host times its calls.

    First calls are timed by the host, because its work is what makes them slow.
    """
    if case.on_host or config.mode == COLD:
        return None
    return LaunchDelay.never() if case.includes_launches else LaunchDelay()


AllGather = Callable[[list[float]], list[list[float]]]
"""Takes this rank's list and returns those of all ranks: [rank]; all have the same length."""


def all_gather_named(all_gather: AllGather, **series_by_name: Sequence[float]) -> dict[str, Rows]:
    """All-gather several series at once; return each by its name: [rank][item]."""
    rows = all_gather([value for series in series_by_name.values() for value in series])
    named, start = {}, 0
    for name, series in series_by_name.items():
        named[name] = [row[start : start + len(series)] for row in rows]
        start += len(series)
    return named


Check = Callable[[int, Measurement, Sampler], bool]
"""Checks the case with an index by calls made as its samples are; returns whether it is right on
all ranks, which call this together."""


def measure(
    cases: Sequence[Case],
    config: MeasureConfig,
    *,
    clock: Clock,
    barrier: Callable[[], None],
    all_gather: AllGather,
    seed: int,
    hooks: Hooks = DEFAULT_HOOKS,
    after_block: Callable[[Sequence[Measurement]], object] = noop,
    check: Check | None = None,
) -> list[Measurement]:
    """Time every case; return their measurements in the order of `cases`.

    All ranks call this with the same cases and the same seed of the order within rounds.
    `after_block` receives all measurements after each block, outside the clock.
    """
    timer = Timer(config, Sampler(clock, barrier, hooks), all_gather, after_block, check)
    gc_was_enabled = gc.isenabled()
    gc.disable()  # a collection within a sample is not the case's time
    try:
        return timer.run(cases, seed)
    finally:
        if gc_was_enabled:
            gc.enable()


@dataclass(frozen=True)
class Timer:
    """Decides, alike on all ranks, which samples of which case come next; see `measure`."""

    config: MeasureConfig
    sampler: Sampler
    all_gather: AllGather
    after_block: Callable[[Sequence[Measurement]], object] = noop
    check: Check | None = None

    def run(self, cases: Sequence[Case], seed: int) -> list[Measurement]:
        """Warm up every case, then run rounds of one block per case until all are done."""
        measurements = [
            Measurement(
                delay=launch_delay_of(case, self.config), ranks=case.ranks, estimator=case.estimator
            )
            for case in cases
        ]
        # A check would change the first calls that follow it.
        if self.check and self.config.mode != COLD:
            draw = random.Random(self.shared_random_number())
            for measurement in measurements:
                measurement.check_schedule = CheckSchedule(draw)
        for case, measurement in zip(cases, measurements, strict=True):
            self.run_catching_oom(measurement, partial(self.warm_up, case, measurement))
        with self.sampler.hooks.around_blocks():
            self.run_rounds(cases, measurements, random.Random(seed))  # the same on all ranks
        return measurements

    def shared_random_number(self) -> float:
        """Return a random number that no rank can predict, the same on all ranks."""
        return sum(number for [number] in self.all_gather([random.SystemRandom().random()]))

    def run_rounds(
        self, cases: Sequence[Case], measurements: list[Measurement], order: random.Random
    ) -> None:
        active = [index for index in range(len(cases)) if not measurements[index].oom_reason]
        while active:
            single_case = len(active) == 1  # it is interleaved with no other
            for index in order.sample(active, len(active)):
                measurement = measurements[index]
                block = partial(self.run_block, cases[index], measurement, single_case)
                self.run_catching_oom(measurement, block)
                if not measurement.oom_reason and self.is_check_due(measurement):
                    check = partial(self.check_now, index, cases[index], measurement)
                    self.run_catching_oom(measurement, check)
                if not measurement.has_failed:
                    measurement.converged = is_converged(measurement, self.config)
                    measurement.stopped_by = stop_reason(measurement, self.config, single_case)
                if measurement.has_failed or measurement.stopped_by:
                    active.remove(index)
                self.after_block(measurements)

    def progress_of(self, measurement: Measurement) -> float:
        """Return the share of a case's limits that is used up: samples or seconds."""
        num_samples, config = measurement.num_samples(), self.config
        return max(
            num_samples / config.max_iterations,
            measurement.elapsed_s / config.most_seconds(num_samples),
        )

    def samples_before_check(self, measurement: Measurement) -> float:
        if measurement.check_schedule is None:
            return math.inf
        longest_s = self.config.most_seconds(measurement.num_samples())
        sample_share = max(1 / self.config.max_iterations, measurement.iteration_s / longest_s)
        return measurement.check_schedule.samples_before(
            self.progress_of(measurement), sample_share
        )

    def is_check_due(self, measurement: Measurement) -> bool:
        """Advance the schedule of checks to the current progress; return whether to check now."""
        schedule = measurement.check_schedule
        return bool(
            schedule and schedule.advance(self.progress_of(measurement), measurement.elapsed_s)
        )

    def check_now(self, index: int, case: Case, measurement: Measurement) -> None:
        """Check a case after a block, and discard the sample that follows the check."""
        assert self.check
        assert measurement.check_schedule
        began = self.sampler.clock.now()
        with self.sampler.hooks.around_samples_of(case):
            measurement.is_wrong = not self.check(index, measurement, self.sampler)
        if not measurement.is_wrong:
            self.sampler.sample(case, measurement.calls_per_sample, 1, measurement.delay_s)
        [slowest] = map(max, zip(*self.all_gather([self.sampler.clock.now() - began]), strict=True))
        measurement.check_schedule.record_check(slowest)

    def run_catching_oom(self, measurement: Measurement, timing: Callable[[], None]) -> None:
        """Run a part of the timing; record an out-of-memory error if no other rank waits."""
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
        """Call the case until its times are steady, at least `warmup_iterations` times."""
        measurement.calls_per_sample = self.find_calls_per_sample(case)
        window: Array | None = None
        count = self.config.warmup_iterations
        spent_s = 0.0
        while count:
            times, elapsed_s = self.warm_up_window(case, measurement, count)
            spent_s += elapsed_s
            measurement.iteration_s = elapsed_s / count
            if window is not None:
                measurement.steady = float(np.median(times)) >= float(np.quantile(window, 0.25))
            if measurement.steady or spent_s >= self.config.max_warmup_seconds:
                break
            window = times
            count = max(count, samples_to_fill(measurement.iteration_s, self.config))
        if measurement.delay and QUEUEING in self.sampler.clock.own_regions:
            while not measurement.delay.is_settled:  # two samples at most
                self.warm_up_window(case, measurement, 1)

    def warm_up_window(
        self, case: Case, measurement: Measurement, count: int
    ) -> tuple[Array, float]:
        """Take `count` samples of the warm-up.

        Return seconds per call, [iteration], and seconds of all samples, both of the slowest rank
        and therefore equal on all ranks.
        """
        began = self.sampler.clock.now()
        delay_s = measurement.delay_s
        durations, _, regions = self.sampler.sample(
            case, measurement.calls_per_sample, count, delay_s
        )
        all_ranks = all_gather_named(
            self.all_gather,
            durations=durations,
            queueing=[spent.get(QUEUEING, 0.0) for spent in regions],
            elapsed=[self.sampler.clock.now() - began],
        )
        rows = all_ranks["durations"]
        measurement.learn_delay(all_ranks["queueing"])
        earlier = measurement.warmup_s or [[] for _ in rows]
        measurement.warmup_s = [
            earlier_row + row for earlier_row, row in zip(earlier, rows, strict=True)
        ]
        return slowest_rank(rows), max(all_ranks["elapsed"])[0]

    def find_calls_per_sample(self, case: Case) -> int:
        """Return the calls of one sample: as configured, or doubled until they fill a length."""
        sample_length = self.config.sample_of(case.calls)
        if sample_length.number:
            return sample_length.number
        calls = 1
        # Two samples must fill it, because one may be disturbed.
        while not all(self.fills(case, calls, sample_length.fill_s) for _ in range(2)):
            calls *= 2
        return calls

    def fills(self, case: Case, calls: int, seconds: float) -> bool:
        delay_s = None if case.on_host else 0.0
        durations, _, _ = self.sampler.sample(case, calls, 1, delay_s)
        return max(row[0] for row in self.all_gather(durations)) * calls >= seconds

    def run_block(self, case: Case, measurement: Measurement, single_case: bool) -> None:
        """Take a block of samples on all ranks, up to the next check.

        A block of a single case fills block_seconds.
        """
        began = self.sampler.clock.now()
        counters = read_counters()
        size = samples_to_fill if single_case else block_size
        remaining = self.config.max_iterations - measurement.num_samples()
        before_check = self.samples_before_check(measurement)
        count = int(min(size(measurement.iteration_s, self.config), remaining, before_check))
        delay_s, calls = measurement.delay_s, measurement.calls_per_sample
        durations, starts, regions = self.sampler.sample(case, calls, count, delay_s)
        names = self.sampler.region_names(case)
        growth = [after - before for after, before in zip(read_counters(), counters, strict=True)]
        all_ranks = all_gather_named(
            self.all_gather,
            durations=durations,
            starts=starts,
            growth=growth,
            ghz=[core_ghz()],
            elapsed=[self.sampler.clock.now() - began],
            **{f"in {name}": [seconds[name] for seconds in regions] for name in names},
        )
        spent = {name: all_ranks[f"in {name}"] for name in names}
        measurement.add(all_ranks["durations"], all_ranks["starts"], spent)
        if QUEUEING in names:
            measurement.learn_delay(spent[QUEUEING])
        by_counter = map(list, zip(*all_ranks["growth"], strict=True))
        measurement.add_disturbance(dict(zip(COUNTERS, by_counter, strict=True)))
        measurement.add_frequency([ghz for [ghz] in all_ranks["ghz"]])
        measurement.elapsed_s += max(all_ranks["elapsed"])[0]
        measurement.iteration_s = measurement.elapsed_s / measurement.num_samples()

"""Take the samples of one rank: reset and barrier outside the clock, calls inside."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchkit.api.case import Case, noop
from benchkit.measure.clocks import Clock


def no_context(case: Case) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True)
class Hooks:
    """Hooks of a rank around samples; by default they do nothing.

    Attributes:
        around_samples_of: context of each series of samples of a case, in the warm-up and in
            blocks.
        around_blocks: context of the blocks of all cases, after the warm-up.
        before_sample: called after the reset, outside the clock.
        spoil: overwrites the result of a call, which a checked call must not return again.
        after_oom: frees memory after a case ran out of it; the case is dropped and the others are
            timed. None if other ranks would wait for that case; then its exception is raised.
    """

    around_samples_of: Callable[[Case], AbstractContextManager[object]] = no_context
    around_blocks: Callable[[], AbstractContextManager[object]] = nullcontext
    before_sample: Callable[[], object] = noop
    spoil: Callable[[Any], object] = noop
    after_oom: Callable[[], object] | None = None


DEFAULT_HOOKS = Hooks()


SampleRows = tuple[list[float], list[float], list[dict[str, float]]]
"""One rank's seconds per call, starts in seconds, and seconds per call by region: [iteration]."""

CHECKED = 2  # calls with the same inputs that are made for a check


@dataclass(frozen=True)
class Sampler:
    clock: Clock
    barrier: Callable[[], None]
    hooks: Hooks

    def region_names(self, case: Case) -> tuple[str, ...]:
        return (*case.regions, *self.clock.own_regions)

    def sample(self, case: Case, calls: int, count: int, delay_s: float | None) -> SampleRows:
        durations, starts, regions = [], [], []
        names = self.region_names(case)
        with self.hooks.around_samples_of(case):
            for _ in range(count):
                start, duration = self._take_sample(case, case.step, calls, delay_s)
                durations.append(duration / calls)
                starts.append(start)
                spent = self.clock.take_regions()
                regions.append({name: spent.get(name, 0.0) / calls for name in names})
                case.observe(regions[-1])
        return durations, starts, regions

    def check(
        self, case: Case, calls: int, delay_s: float | None, prepare: Callable[[], object] = noop
    ) -> Any:
        """Take samples as `sample` does, without their times; return the last call's result.

        The last two calls get fresh, equal inputs: the first detects a step that ignores changed
        inputs, the second one that does not compute again for equal ones. So with one call per
        sample it takes two samples.
        """
        remaining, result = max(calls, CHECKED), None

        def step() -> None:
            nonlocal remaining, result
            if remaining <= CHECKED:
                self.hooks.spoil(result)
                result = None  # so that memory holds one result
                prepare()
            remaining -= 1
            result = case.step()

        while remaining:
            self._take_sample(case, step, calls, delay_s)
        self.clock.forget_regions()
        return result

    def _take_sample(
        self, case: Case, step: Callable[[], object], calls: int, delay_s: float | None
    ) -> tuple[float, float]:
        """Take a sample; return its start and the duration of all its calls, in seconds."""
        case.reset()
        self.hooks.before_sample()
        self.barrier()
        self.clock.forget_regions()  # what reset() marked, if anything
        return self.clock.time(step, calls, delay_s)


MARGIN = 2.0  # launch delay as a multiple of the queueing time
SLACK_S = 2e-4  # further delay for the aligning collective and the event
LONGEST_S = 0.01
"""Longest delay in seconds. A longer one would fill the queue of about a thousand launches, and the
host would wait for the device."""


def delay_for(queueing_s: float) -> float:
    """Return the delay that hides a queueing time; 0 if it would be too long.

    With only a part hidden, the time would be neither the GPU's nor a program's.
    """
    seconds = MARGIN * queueing_s + SLACK_S
    return seconds if seconds <= LONGEST_S else 0.0


def most_calls_hidden(queueing_s: float) -> int:
    """Return how many calls of this queueing time the longest delay hides."""
    return int((LONGEST_S - SLACK_S) / (MARGIN * queueing_s))


@dataclass
class LaunchDelay:
    """The time in which a GPU is kept busy before each sample, while the host launches kernels.

    It hides the launches, as nvbench's blocking kernel does.

    Attributes:
        seconds: the delay; 0 if launches are not hidden.
        queueing_s: queueing time of a sample without a delay; None if unknown.
        is_tried: whether samples were taken with the delay.
    """

    seconds: float = 0.0
    queueing_s: float | None = None
    is_tried: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether the delay is chosen, and tried on calls if it is not 0."""
        return self.queueing_s is not None and (self.is_tried or not self.seconds)

    @classmethod
    def never(cls) -> "LaunchDelay":
        """Return a delay that stays 0, for calls whose launches count."""
        return cls(queueing_s=math.inf)

    def learn(self, queueing: Sequence[float]) -> None:
        """Set the delay after a series of samples; equal on all ranks, which start together.

        Calls that wait for the device take longer to queue, by the delay. No delay can hide their
        launches, so they get none.

        Args:
            queueing: queueing seconds of a sample on the slowest rank: [iteration].
        """
        if self.queueing_s is None:
            self.queueing_s = median(queueing)
            self.seconds = delay_for(self.queueing_s)
            return
        self.is_tried = True
        if min(queueing) - self.queueing_s > self.seconds / 2:
            self.seconds = 0.0

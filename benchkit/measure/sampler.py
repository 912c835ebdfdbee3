"""Takes the samples of one rank: reset and barrier outside the clock, calls inside."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchkit.api.case import Case, noop
from benchkit.measure.clocks import Clock
from benchkit.measure.hooks import Hooks

Samples = tuple[list[float], list[float], list[dict[str, float]]]
"""One rank's seconds per call, starts in seconds, and seconds per call by region: [iteration]."""

CHECKED = 2
"""Calls with the same inputs that are made for a check."""


@dataclass(frozen=True)
class Sampler:
    """Takes samples of cases on this rank; see `benchkit.measure.timer.measure`."""

    clock: Clock
    barrier: Callable[[], None]
    hooks: Hooks

    def region_names(self, case: Case) -> tuple[str, ...]:
        """Returns the regions of a case that are recorded: its own, and those of the clock."""
        return (*case.regions, *self.clock.own_regions)

    def sample(self, case: Case, calls: int, count: int, lead_s: float | None) -> Samples:
        """Takes `count` samples of `calls` calls.

        Args:
            case: what to time.
            calls: number of calls of a sample.
            count: number of samples.
            lead_s: see `Clock.time`.
        """
        durations, starts, regions = [], [], []
        names = self.region_names(case)
        with self.hooks.series(case):
            for _ in range(count):
                start, duration = self._once(case, case.step, calls, lead_s)
                durations.append(duration / calls)
                starts.append(start)
                spent = self.clock.take_regions()
                regions.append({name: spent.get(name, 0.0) / calls for name in names})
                case.observe(regions[-1])
        return durations, starts, regions

    def check(
        self, case: Case, calls: int, lead_s: float | None, prepare: Callable[[], object] = noop
    ) -> Any:
        """Takes samples as `sample` does, to check their last call, and keeps none of their times.

        The last two calls are both prepared, alike: a call that finds the inputs of the call before
        it has to compute again, and one that finds other inputs has to notice that.

        Args:
            case: what was timed.
            calls: number of calls of a sample; where it is 1, two samples are taken.
            lead_s: see `Clock.time`.
            prepare: writes inputs and poisons outputs.

        Returns:
            What the last call returned.
        """
        left, result = max(calls, CHECKED), None

        def step() -> None:
            nonlocal left, result
            if left <= CHECKED:
                self.hooks.spoil(result)
                result = None  # so that memory holds one result
                prepare()
            left -= 1
            result = case.step()

        while left:
            self._once(case, step, calls, lead_s)
        self.clock.forget_regions()
        return result

    def _once(
        self, case: Case, step: Callable[[], object], calls: int, lead_s: float | None
    ) -> tuple[float, float]:
        """Takes a sample; returns its start and the duration of all its calls, in seconds."""
        case.reset()
        self.hooks.before_sample()
        self.barrier()
        self.clock.forget_regions()  # what reset() marked, if anything
        return self.clock.time(step, calls, lead_s)

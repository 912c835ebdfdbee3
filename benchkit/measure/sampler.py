"""Takes the samples of one rank: reset and barrier outside the clock, calls inside."""

from collections.abc import Callable
from dataclasses import dataclass

from benchkit.api.case import Case
from benchkit.measure.clocks import Clock
from benchkit.measure.hooks import Hooks

Samples = tuple[list[float], list[float], list[dict[str, float]]]
"""One rank's seconds per call, starts in seconds, and seconds per call by region: [iteration]."""


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
                case.reset()
                self.hooks.before_sample()
                self.barrier()
                self.clock.forget_regions()  # what reset() marked, if anything
                start, duration = self.clock.time(case.step, calls, lead_s)
                durations.append(duration / calls)
                starts.append(start)
                spent = self.clock.take_regions()
                regions.append({name: spent.get(name, 0.0) / calls for name in names})
                case.observe(regions[-1])
        return durations, starts, regions

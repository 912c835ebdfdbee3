"""Puts the runs of both arms side by side, point by point and pair by pair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.compare.figures import Point, RunFigures, statistic_of
from benchkit.statistics.compare.signed_rank import log_ratios
from benchkit.statistics.intervals import Array

FAILED_AFTER = 3
"""Pairs in which a point of an arm must fail to have failed; in fewer it may be chance."""
Runs = Mapping[tuple[int, int], RunFigures]
"""Figures of runs by round, from 1, and role."""


@dataclass(frozen=True)
class Columns:
    """The times of one point in all pairs; None where a run has none."""

    baseline: list[Array | None]
    candidate: list[Array | None]

    def figures(self, name: str) -> tuple[Array, Array]:
        """Returns a figure of all runs of the baseline, and of the candidate: [pair]."""
        baseline = [statistic_of(name, times) for times in self.baseline]
        return np.array(baseline), np.array([statistic_of(name, times) for times in self.candidate])

    def log_ratios(self, name: str) -> Array:
        return log_ratios(*self.figures(name))


def points_of(runs: Iterable[RunFigures]) -> list[Point]:
    """Returns all points, in order; one without labels where no run got as far as its cases."""
    keys = {key for run in runs for key in (*run.times, *run.reasons)}
    cases = {key for key in keys if isinstance(key, Point)}
    known = {case.number for case in cases}
    others = {Point(key, ()) for key in keys if isinstance(key, int) and key not in known}
    return sorted(cases | others)


def columns_of(runs: Runs, rounds: Sequence[int], role: int, point: Point) -> Columns:
    """Returns the times of a point in some rounds, of role 0 and of another one."""
    return Columns(
        [runs[number, 0].times.get(point) for number in rounds],
        [runs[number, role].times.get(point) for number in rounds],
    )


def failure(runs: Runs, pairs: Sequence[int], role: int, point: Point) -> str | None:
    """Returns why a point of an arm has failed; "" if not, None if neither arm can measure it."""
    lacking = {arm: [n for n in pairs if point not in runs[n, arm].times] for arm in (role, 0)}
    reasons = [runs[n, arm].missing(point) for arm, rounds in lacking.items() for n in rounds]
    if len(reasons) == 2 * len(pairs) and all(harmless for _, harmless in reasons):
        return None
    for arm, rounds in lacking.items():
        if len(rounds) >= min(FAILED_AFTER, len(pairs)):
            whose = "the baseline, " if arm == 0 else ""
            reason, _ = runs[rounds[-1], arm].missing(point)
            return f"{whose}in {len(rounds)} of {len(pairs)} pairs: {reason}"
    return ""

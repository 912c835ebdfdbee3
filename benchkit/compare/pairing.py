"""Puts the runs of both arms side by side, point by point and pair by pair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.compare.figures import NO_CASE, Point, RunFigures, statistic_of
from benchkit.statistics.compare.signed_rank import log_ratios
from benchkit.statistics.compare.verdicts import Ends, word_of_ends
from benchkit.statistics.intervals import Array

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
    every = list(runs)
    measured = {point for run in every for point in run.times}
    keys = {key for run in every for key in run.reasons}
    named = {key if isinstance(key, Point) else Point(key, ()) for key in keys} - measured
    known = measured | named
    parts = {
        part for part in named if any(part != point and part.is_part_of(point) for point in known)
    }
    return sorted(known - parts)


def columns_of(runs: Runs, rounds: Sequence[int], role: int, point: Point) -> Columns:
    """Returns the times of a point in some rounds, of role 0 and of another one."""
    return Columns(
        [runs[number, 0].times.get(point) for number in rounds],
        [runs[number, role].times.get(point) for number in rounds],
    )


def word_without_times(
    runs: Runs, pairs: Sequence[int], role: int, point: Point
) -> tuple[str, str]:
    """Returns the word on a point of an arm that its times do not decide, and why some are missing.

    Both are "" where all pairs have times. The word alone is "" where those that have decide.
    """
    ends: list[Ends] = []
    reasons: list[str] = []
    for arm, whose in ((0, "the baseline, "), (role, "")):
        lacks = [runs[number, arm].lack(point) for number in pairs]
        lacking = [lack for lack in lacks if lack]
        if lacking:
            how_often = f"{whose}in {len(lacking)} of {len(pairs)} pairs"
            reasons.append(f"{how_often}: {lacking[-1].reason}")
        is_new = arm == 0 and all(lack and lack.reason == NO_CASE for lack in lacks)
        counted = [lack for lack in lacking if not lack.is_left_out]
        planned = 0 if is_new else len(pairs) - len(lacking) + len(counted)
        failed = sum(not lack.is_harmless for lack in counted)
        ends.append(Ends(planned, len(counted), failed))
    return word_of_ends(*ends), "; ".join(reasons[::-1])

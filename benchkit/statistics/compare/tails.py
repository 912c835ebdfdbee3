"""Compares secondary figures, such as the 95th percentile, with a correction of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from benchkit.statistics.compare.multiplicity import holm
from benchkit.statistics.compare.rank_test import RankTest
from benchkit.statistics.intervals import Array
from benchkit.statistics.modes import find_modes, valley_between_modes

Name = TypeVar("Name")


@dataclass(frozen=True)
class Change:
    """A secondary figure, on the scale of its differences: log ratios, or shares.

    Attributes:
        estimate: Hodges-Lehmann estimate of the difference; NaN without runs.
        low: lower end of its interval; minus infinity where the runs are too few for one.
        high: its upper end; infinity where the runs are too few for one.
        p_value: two-sided, not adjusted.
        is_significant: the interval leaves out 0, at the level of Holm's correction.
    """

    estimate: float
    low: float
    high: float
    p_value: float
    is_significant: bool


def changes(tests: Mapping[Name, RankTest], level: float = 0.05) -> dict[Name, Change]:
    """Returns the change of each secondary figure.

    The chance that any of them is called significant where nothing changed is at most `level`.

    Args:
        tests: of each figure of each point.
        level: error rate of all figures together.
    """
    p_values = {name: test.p_outside(0.0) for name, test in tests.items()}
    alpha = holm(list(p_values.values()), level)
    return {
        name: Change(
            test.estimate,
            *test.interval(alpha),
            p_values[name],
            is_significant=p_values[name] <= alpha,
        )
        for name, test in tests.items()
    }


def slow_shares(
    baseline: Sequence[Array], candidate: Sequence[Array]
) -> tuple[Array, Array] | None:
    """Returns the share of samples in the slow mode, of each run of both arms.

    The valley between the modes is that of all runs of the baseline, or of the candidate where the
    baseline has one mode. So a candidate whose only mode is slower has no slow mode.

    Args:
        baseline: times of the samples of each run.
        candidate: the same of the other arm.

    Returns:
        [run] of either arm, from 0 to 1; None where neither arm has two modes.
    """
    for runs in (baseline, candidate):
        times = np.concatenate([np.empty(0), *runs])
        edge = valley_between_modes(times) if find_modes(times) else None
        if edge is not None:
            return share_above(edge, baseline), share_above(edge, candidate)
    return None


def share_above(edge: float, runs: Sequence[Array]) -> Array:
    """Returns the share of times above `edge` of each run; NaN for a run without times."""
    return np.array([np.mean(times > edge) if len(times) else np.nan for times in runs])

"""Corrections for many tests at once: false discovery rate, and family-wise error rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from benchkit.statistics.intervals import ALPHA
from benchkit.statistics.rank_tests import RankTest


def benjamini_hochberg(p_values: Sequence[float], alpha: float) -> float:
    """Return the error rate of each test that keeps the false discovery rate to `alpha`.

    A share of at most `alpha` of the significant tests is wrong on average, also where the tests
    are positively dependent (Benjamini and Hochberg, 1995; Benjamini and Yekutieli, 2001). With R
    of m tests significant the returned rate is R / m times `alpha`, with R = 1 where none is. It
    is also the error rate of the intervals with a false coverage rate of `alpha` (Benjamini and
    Yekutieli, False discovery rate-adjusted multiple confidence intervals, 2005).
    """
    count = max(1, len(p_values))
    passing = np.flatnonzero(np.sort(p_values) <= alpha * np.arange(1, len(p_values) + 1) / count)
    return alpha * (int(passing[-1]) + 1 if len(passing) else 1) / count


def holm(p_values: Sequence[float], alpha: float) -> float:
    """Return the error rate of each test for a family-wise error rate of `alpha`.

    The j-th smallest of m p-values is compared with alpha / (m - j + 1), until the first that
    exceeds it (Holm, 1979). Only the R before it are at most alpha / (m - R).
    """
    remaining = len(p_values)
    for p_value in sorted(p_values):
        if p_value > alpha / remaining:
            break
        remaining -= 1
    return alpha / max(1, remaining)


Name = TypeVar("Name")


@dataclass(frozen=True)
class MetricChange:
    """A change of a secondary metric, on the scale of its differences: log ratios, or shares.

    Attributes:
        low, high: interval; infinite if the runs are too few.
        p_value: two-sided, not adjusted.
        is_significant: whether the interval excludes 0, at the error rate of Holm's correction.
    """

    estimate: float
    low: float
    high: float
    p_value: float
    is_significant: bool


def judge_secondary_metrics(
    tests: Mapping[Name, RankTest], alpha: float = ALPHA
) -> dict[Name, MetricChange]:
    """Return the change of each secondary metric.

    The probability of any significant change where nothing changed is at most `alpha`.
    """
    p_values = {name: test.p_outside(0.0) for name, test in tests.items()}
    alpha_each = holm(list(p_values.values()), alpha)
    return {
        name: MetricChange(
            test.estimate,
            *test.interval(alpha_each),
            p_values[name],
            is_significant=p_values[name] <= alpha_each,
        )
        for name, test in tests.items()
    }

"""Estimates and tests the centre of differences of pairs by Wilcoxon's signed ranks.

The differences of pairs are taken to be independent and symmetric about one centre, and nothing
else. The order of runs makes them symmetric: within a pair a coin decides which arm runs first.
"""

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from benchkit.statistics.compare.rank_test import RankTest
from benchkit.statistics.intervals import Array


def log_ratios(baseline: Array, candidate: Array) -> Array:
    """Returns log(candidate / baseline) of each pair: [pair].

    Args:
        baseline: a positive figure of each run of the baseline: [pair], NaN where there is none.
        candidate: the same of the other arm, in the same order of pairs.

    Returns:
        NaN for a pair that lacks one of its figures, so that pairs of several points stay aligned.
    """
    figures = np.array([baseline, candidate], dtype=np.float64)
    figures[~(np.isfinite(figures) & (figures > 0))] = np.nan
    logs = np.log(figures)
    return np.asarray(logs[1] - logs[0])


class SignedRank(RankTest):
    """The centre of a symmetric distribution: estimate, intervals and p-values from a sample.

    The elementary estimates are the Walsh averages (x_i + x_j) / 2, i <= j, of which a sample of n
    values has n (n + 1) / 2. As many of them are above c as ranks of positive x - c add up to
    (Tukey, 1949). The distribution is exact for every n. An interval is infinite below
    `fewest_pairs(alpha)` values. Source: Hollander, Wolfe and Chicken, Nonparametric Statistical
    Methods, sections 3.1 to 3.3.

    Attributes:
        values: the finite values of the sample: [n].
        num_values: n.
    """

    def __init__(self, values: Array) -> None:
        self.values = values[np.isfinite(values)]
        self.num_values = len(self.values)
        first, second = np.triu_indices(self.num_values)
        averages = (self.values[first] + self.values[second]) / 2
        super().__init__(averages, cumulative_distribution(self.num_values))


@cache
def cumulative_distribution(n: int) -> npt.NDArray[np.float64]:
    """Returns P(T <= t), t = 0 ... n (n + 1) / 2, of the sum T of the ranks of positive values.

    Where the centre is 0, each of the ranks 1 ... n counts with probability 1/2, independently. So
    the probabilities are the coefficients of the product of (1 + x^i) / 2 over i = 1 ... n.
    """
    probabilities = np.zeros(n * (n + 1) // 2 + 1)
    probabilities[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.concatenate([np.zeros(rank), probabilities[:-rank]])
        probabilities = (probabilities + shifted) / 2
    return np.asarray(np.cumsum(probabilities))


def fewest_pairs(alpha: float) -> int:
    """Returns the fewest pairs that have an interval: all n values on one side have p = 2^(1-n)."""
    return math.ceil(1 - math.log2(alpha))

"""Estimates and tests the shift between two samples that are not paired, by Wilcoxon's rank sum."""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from benchkit.statistics.compare.rank_test import RankTest
from benchkit.statistics.intervals import Array

MOST_EXACT = 10_000
"""Pairs of values up to which the distribution is exact, which takes a fraction of a second."""


class RankSum(RankTest):
    """The shift between two samples from distributions of one shape, whatever that shape is.

    The elementary estimates are all differences, a value of the second sample less one of the
    first. The statistic counts those above 0 (Mann and Whitney, 1947). Source: Hollander, Wolfe and
    Chicken, Nonparametric Statistical Methods, sections 4.1 to 4.3.
    """

    def __init__(self, first: Array, second: Array) -> None:
        """Takes the two samples: [m] and [n]; values that are not finite are left out."""
        first, second = first[np.isfinite(first)], second[np.isfinite(second)]
        differences = (second[:, None] - first).ravel()
        super().__init__(differences, cumulative_distribution(len(first), len(second)))


def cumulative_distribution(m: int, n: int) -> npt.NDArray[np.float64]:
    """Returns P(U <= u), u = 0 ... m n, of two samples from one distribution without ties.

    U counts the pairs in which the value of the first sample is the larger one. With probability
    i / (i + j) the largest of i + j values is of the first sample and so counts in j pairs; else it
    counts in none. The same holds of the values that are left (Mann and Whitney, 1947). Beyond
    MOST_EXACT pairs this is the normal approximation with a correction for continuity.
    """
    if m * n > MOST_EXACT:
        normal = NormalDist(m * n / 2, math.sqrt(m * n * (m + n + 1) / 12))
        return np.array([normal.cdf(u + 0.5) for u in range(m * n + 1)])
    no_pair = np.zeros(m * n + 1)
    no_pair[0] = 1.0
    smaller = [no_pair] * (n + 1)  # of one value less in the first sample, by j
    for i in range(1, m + 1):
        row = [no_pair]
        for j in range(1, n + 1):
            of_first = np.concatenate([np.zeros(j), smaller[j][:-j]])
            row.append((i * of_first + j * row[j - 1]) / (i + j))
        smaller = row
    return np.asarray(np.cumsum(smaller[n]))

"""Exact rank tests: centre of one sample, shift between two; estimate, intervals and p-values."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from benchkit.statistics.intervals import ALPHA, Array

Interval = tuple[float, float]


class RankTest:
    """Estimate, intervals and p-values of a centre or a shift.

    The statistic of the test of "it is c" is the number of elementary estimates above c. So tests
    and intervals are equivalent: the interval with error rate `alpha` excludes c if and only if
    `p_above(c)` or `p_below(c)` is at most alpha / 2. Ties with c, or among the values, make both
    conservative. `estimate` is the median of the elementary estimates (Hodges and Lehmann, 1963);
    NaN without any.
    """

    def __init__(self, estimates: Array, cumulative: npt.NDArray[np.float64]) -> None:
        """`cumulative` is P(T <= t) of the statistic: [t]."""
        self._estimates = np.sort(estimates)
        self._cumulative = cumulative
        self.estimate = float(np.median(estimates)) if len(estimates) else math.nan

    def interval(self, alpha: float) -> Interval:
        """Return the interval that excludes the true value with probability `alpha` at most.

        It reaches from the k-th smallest to the k-th largest estimate, with the largest k for which
        P(T < k) <= alpha / 2. It is infinite if no k is small enough.
        """
        k = int(np.searchsorted(self._cumulative, alpha / 2, side="right"))
        if k == 0:
            return -math.inf, math.inf
        return float(self._estimates[k - 1]), float(self._estimates[-k])

    def p_above(self, value: float) -> float:
        """Return the p-value of "it is at most `value`": small where it is above."""
        return float(self._cumulative[np.searchsorted(self._estimates, value, side="right")])

    def p_below(self, value: float) -> float:
        """Return the p-value of "it is at least `value`": small where it is below."""
        not_below = len(self._estimates) - np.searchsorted(self._estimates, value, side="left")
        return float(self._cumulative[not_below])

    def p_outside(self, limit: float) -> float:
        """Return the two-sided p-value of "it is within -limit and limit"."""
        return min(1.0, 2 * self.p_above(limit), 2 * self.p_below(-limit))

    def p_inside(self, limit: float) -> float:
        """Return the p-value of "it is not between -limit and limit".

        The worse of two one-sided tests counts (Schuirmann, 1987).
        """
        return max(self.p_above(-limit), self.p_below(limit))


class SignedRank(RankTest):
    """The centre of a symmetric distribution: estimate, intervals and p-values from a sample.

    The elementary estimates are the n (n + 1) / 2 Walsh averages (x_i + x_j) / 2, i <= j. The
    number of them above c is the sum of the ranks of positive x - c (Tukey, 1949). The distribution
    is exact for every n. An interval is infinite below `fewest_values(alpha)` values. Source:
    Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, sections 3.1 to 3.3.
    """

    def __init__(self, values: Array) -> None:
        self.values = values[np.isfinite(values)]
        self.num_values = len(self.values)
        first, second = np.triu_indices(self.num_values)
        averages = (self.values[first] + self.values[second]) / 2
        super().__init__(averages, signed_rank_distribution(self.num_values))


@cache
def signed_rank_distribution(n: int) -> npt.NDArray[np.float64]:
    """Return P(T <= t), t = 0 ... n (n + 1) / 2, of the sum T of the ranks of positive values.

    Where the centre is 0, each rank 1 ... n counts with probability 1/2, independently. So the
    probabilities are the coefficients of the product of (1 + x^i) / 2 over i = 1 ... n.
    """
    probabilities = np.zeros(n * (n + 1) // 2 + 1)
    probabilities[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.concatenate([np.zeros(rank), probabilities[:-rank]])
        probabilities = (probabilities + shifted) / 2
    return np.asarray(np.cumsum(probabilities))


MOST_EXACT = 10_000
"""Number of pairs of values up to which the exact distribution is used."""


class RankSum(RankTest):
    """The shift between two samples from distributions of the same, arbitrary shape.

    The elementary estimates are all differences of a value of the second sample and one of the
    first. The statistic counts those above 0 (Mann and Whitney, 1947). Source: Hollander, Wolfe and
    Chicken, Nonparametric Statistical Methods, sections 4.1 to 4.3.
    """

    def __init__(self, first: Array, second: Array) -> None:
        first, second = first[np.isfinite(first)], second[np.isfinite(second)]
        differences = (second[:, None] - first).ravel()
        super().__init__(differences, rank_sum_distribution(len(first), len(second)))


def rank_sum_distribution(m: int, n: int) -> npt.NDArray[np.float64]:
    """Return P(U <= u), u = 0 ... m n, of two samples from one distribution without ties.

    U counts the pairs in which the value of the first sample is larger. With probability i / (i +
    j) the largest of i + j values is of the first sample and counts in j pairs; else it counts in
    none. The same holds for the other values (Mann and Whitney, 1947). Beyond MOST_EXACT pairs this
    is the normal approximation with a correction for continuity.
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


def log_ratios(baseline: Array, candidate: Array) -> Array:
    """Return log(candidate / baseline): [pair].

    A pair without two positive numbers is NaN, so pairs of several points stay aligned.
    """
    pairs = np.array([baseline, candidate], dtype=np.float64)
    pairs[~(np.isfinite(pairs) & (pairs > 0))] = np.nan
    logs = np.log(pairs)
    return np.asarray(logs[1] - logs[0])


def geometric_mean(log_ratios: Sequence[Array], alpha: float = ALPHA) -> tuple[float, Interval]:
    """Return the geometric mean of all ratios, [point][pair], and its interval.

    The mean over points is taken within each pair, and the interval over pairs, because the points
    of a pair share their disturbances. Pairs that lack a point are left out.
    """
    test = SignedRank(np.mean(log_ratios, axis=0))
    low, high = test.interval(alpha)
    return math.exp(test.estimate), (math.exp(low), math.exp(high))


def noise_floor(log_ratios: Array, alpha: float = ALPHA) -> float | None:
    """Return how far identical code may be from a ratio of 1, as a share; None with too few pairs.

    It is the farther end of the interval of A/A pairs: a bound on effects of the order of runs and
    of the harness. It is wide unless there are many pairs; a floor from the few A/A pairs of one
    comparison would hide most changes.
    """
    low, high = SignedRank(log_ratios).interval(alpha)
    return None if math.isinf(high) else math.expm1(max(-low, high))

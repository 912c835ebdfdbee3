"""The part that tests by ranks share: intervals and p-values from a sorted list of estimates."""

import math

import numpy as np
import numpy.typing as npt

from benchkit.statistics.intervals import Array

Interval = tuple[float, float]


class RankTest:
    """Estimate, intervals and p-values of a centre or a shift.

    As many elementary estimates are above c as the statistic of the test of "it is c" counts. So
    tests and intervals are two readings of one list: the interval with error rate `alpha` leaves
    out c if and only if `p_above(c)` or `p_below(c)` is at most alpha / 2. Values that equal c, or
    each other, make both conservative.

    Attributes:
        estimate: the median of the elementary estimates (Hodges and Lehmann, 1963); NaN where there
            are none.
    """

    def __init__(self, estimates: Array, cumulative: npt.NDArray[np.float64]) -> None:
        """Takes what tells the tests apart.

        Args:
            estimates: the elementary estimates, in any order: [N].
            cumulative: P(T <= t), t = 0 ... N, of the statistic T of the test.
        """
        self._estimates = np.sort(estimates)
        self._cumulative = cumulative
        self.estimate = float(np.median(estimates)) if len(estimates) else math.nan

    def interval(self, alpha: float) -> Interval:
        """Returns the interval that leaves out the truth with a probability of at most `alpha`.

        It reaches from the k-th smallest to the k-th largest estimate, with the largest k for which
        P(T < k) <= alpha / 2. It is infinite where there are too few values for any k.
        """
        k = int(np.searchsorted(self._cumulative, alpha / 2, side="right"))
        if k == 0:
            return -math.inf, math.inf
        return float(self._estimates[k - 1]), float(self._estimates[-k])

    def p_above(self, value: float) -> float:
        """Returns the p-value of "it is at most `value`": small where it is above."""
        return float(self._cumulative[np.searchsorted(self._estimates, value, side="right")])

    def p_below(self, value: float) -> float:
        """Returns the p-value of "it is at least `value`": small where it is below."""
        not_below = len(self._estimates) - np.searchsorted(self._estimates, value, side="left")
        return float(self._cumulative[not_below])

    def p_outside(self, limit: float) -> float:
        """Returns the two-sided p-value of "it is within -limit and limit"."""
        return min(1.0, 2 * self.p_above(limit), 2 * self.p_below(-limit))

    def p_inside(self, limit: float) -> float:
        """Returns the p-value of "it is not between -limit and limit".

        Two one-sided tests, of which the worse one counts (Schuirmann, 1987).
        """
        return max(self.p_above(-limit), self.p_below(limit))

"""Holds many tests to one error rate.

Each function returns the level of a single test: those with a p-value of at most this level are
significant. Intervals of that error rate agree with the tests.
"""

from collections.abc import Sequence

import numpy as np


def benjamini_hochberg(p_values: Sequence[float], level: float) -> float:
    """Returns the level of each test that keeps the false discovery rate to `level`.

    Of the tests that are significant, a share of at most `level` is wrong on average, also where
    the tests are positively dependent (Benjamini and Hochberg, 1995; Benjamini and Yekutieli,
    2001). With R significant tests of m the level is R / m times `level`, which is also the error
    rate of the intervals with a false coverage rate of `level` (Benjamini and Yekutieli, 2005,
    False discovery rate-adjusted multiple confidence intervals). Where none is significant it is
    that of R = 1.
    """
    count = max(1, len(p_values))
    passing = np.flatnonzero(np.sort(p_values) <= level * np.arange(1, len(p_values) + 1) / count)
    return level * (int(passing[-1]) + 1 if len(passing) else 1) / count


def holm(p_values: Sequence[float], level: float) -> float:
    """Returns the level of each test that keeps the chance of any false one to `level`.

    The j-th smallest of m p-values is held to level / (m - j + 1), until the first one that fails
    (Holm, 1979). The R before it, and no other, are at most level / (m - R).
    """
    left = len(p_values)
    for p_value in sorted(p_values):
        if p_value > level / left:
            break
        left -= 1
    return level / max(1, left)

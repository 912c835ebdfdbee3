"""The centre and spread of what is healthy, among values of which some, even most, may be slow."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchkit.statistics.intervals import Array

HALF = 0.5
NEAR = 1.5
"""A half this much wider than the shortest one may be the healthy half, if its values are lower."""
WINDOW = 2.0
"""Values within so many standard deviations of the centre count as healthy."""
TRUNCATED = 0.8796
"""Standard deviation of normal values within WINDOW, over that of all."""
ROUNDS = 20
MOST_EXPONENT = 500.0
"""A larger one gives quantiles that no ratio of times reaches, and in the end no number."""


@dataclass(frozen=True)
class Healthy:
    """Centre and standard deviation of the healthy values, and how many there are."""

    centre: float
    sd: float
    count: int


def healthy(values: Array, share: float = HALF) -> Healthy:
    """Returns what the healthy ones among some values look like.

    It begins with the shortest half (Rousseeuw, Least Median of Squares Regression, 1984, with the
    factor for few values of Rousseeuw and Leroy, 1987). Of halves about as short, and of those
    below a gap that is wider than they are, it takes the lowest, because faults only make things
    slower: one slow node of four is in half of all pairs across nodes, and a slow cable has less
    noise than the healthy ones. Then it takes mean and standard deviation of all values near that,
    until they no longer change.

    Args:
        values: finite logarithms of times: [n], n >= 1.
        share: of the values that are healthy at least; a third takes the place of the half where
            one slow node of three is in two thirds of all pairs.
    """
    ordered = np.sort(values)
    count = len(ordered)
    half = min(count, max(3, int(count * share)))
    widths = ordered[half - 1 :] - ordered[: count - half + 1]
    gaps = np.append(np.diff(ordered)[half - 1 :], 0.0)  # above each half
    first = int(np.argmax((widths <= NEAR * widths.min()) | (gaps > widths)))
    inside = ordered[first : first + half]
    centre = float(np.median(inside))
    half_width = NormalDist().inv_cdf(HALF + share / 2)  # of that share of normal values
    sd = (1 + 5 / count) * float(widths[first]) / 2 / half_width
    kept = np.zeros(count, dtype=bool)
    for _ in range(ROUNDS):
        near = np.abs(ordered - centre) <= WINDOW * sd
        if not near.any() or (near == kept).all():
            break
        kept, inside = near, ordered[near]
        centre = float(inside.mean())
        sd = float(inside.std(ddof=1)) / TRUNCATED if len(inside) > 1 else 0.0
    return Healthy(centre, sd, len(inside))


def t_quantile(p_value: float, df: Array | float) -> Array:
    """Returns the quantile of Student's t that is exceeded with a small probability.

    It inverts Wallace's transformation to a normal quantile (Bounds on normal approximations to
    Student's and the chi-square distributions, 1959), which is larger than the exact quantile for
    few degrees of freedom and close to it for others.

    Args:
        p_value: of one side, below 0.5.
        df: degrees of freedom; below 1 nothing is known, and the quantile is infinite.
    """
    z = -NormalDist().inv_cdf(p_value)
    known = np.maximum(df, 1)
    exponent = (z * (8 * known + 3) / (8 * known + 1)) ** 2 / known
    quantile = np.sqrt(known * np.expm1(np.minimum(exponent, MOST_EXPONENT)))
    return np.where(np.asarray(df) < 1, np.inf, quantile)

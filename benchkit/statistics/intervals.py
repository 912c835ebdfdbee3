"""Computes 95 % confidence intervals of medians that hold for autocorrelated series.

Times of calls are not independent draws: what slows one call down often slows the next one too. So
the width of an interval follows the effective number of independent values in a series. Simulations
measure the coverage: perf/coverage.py, docs/results/coverage.md.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CONFIDENCE = 0.95
FEWEST_SAMPLES = 400
"""Fewest samples of one case that have an interval. With fewer, a run that stays in one of two
modes, each about 50 samples long, looks in more than one of ten runs as if there were no other."""
FEWEST_ROUNDS = 100
"""The same for ratios of two cases that take turns; they mislead only if their modes differ."""
FEWEST_INDEPENDENT = 15
"""Fewest independent values in a series that has an interval; fewer cannot be estimated well."""


def median_interval(values: Array) -> tuple[float, float] | None:
    """Returns the confidence interval of the median of independent values.

    It reaches from the k-th smallest to the k-th largest value, with the largest k for which the
    binomial tail P(X < k), X ~ B(n, 1/2), is at most (1 - CONFIDENCE) / 2 (Conover, Practical
    Nonparametric Statistics, section 3.2). It assumes no distribution.

    Args:
        values: [n], in any order.

    Returns:
        The lower and the upper end in the unit of the values; None with fewer than 6 values.
    """
    k = order_below(len(values))
    if k == 0:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[len(values) - k])


def series_interval(times: Array, fewest: int = FEWEST_SAMPLES) -> tuple[float, float] | None:
    """Returns the confidence interval of the median of a time series.

    `median_interval` takes two order statistics of independent values. This function takes the same
    quantiles of the series, for its effective number of independent values. The interval always
    contains the median of the series.

    Args:
        times: [n], in the order in which they were taken.
        fewest: fewest values that have an interval.

    Returns:
        The lower and the upper end in the unit of `times`; None where the series is too short, or
        has fewer than FEWEST_INDEPENDENT independent values.
    """
    if len(times) < max(1, fewest):
        return None
    return ordered_interval(np.sort(times), correlation_length(times))


def ordered_interval(ordered: Array, length: float) -> tuple[float, float] | None:
    """Returns the interval of `series_interval` from what it needs of a series.

    Args:
        ordered: the values of the series in ascending order: [n].
        length: how many values of the series count as one independent value.

    Returns:
        The lower and the upper end; None below FEWEST_INDEPENDENT independent values.
    """
    n = len(ordered)
    independent = int(n / length)
    if independent < FEWEST_INDEPENDENT:
        return None
    quantile = (order_below(independent) - 0.5) / independent
    index = max(0, math.floor(quantile * n - 0.5))
    return float(ordered[index]), float(ordered[n - 1 - index])


@cache
def order_below(n: int) -> int:
    """Returns the k of `median_interval` for n values; 0 where no k is small enough."""
    tail, k = 0.0, 0
    while (tail := tail + math.exp(log_binomial(n, k) - n * math.log(2))) <= (1 - CONFIDENCE) / 2:
        k += 1
    return k


def log_binomial(n: int, k: int) -> float:
    """Returns the natural logarithm of n over k."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def correlation_length(times: Array) -> float:
    """Returns how many values of a series count as one independent value, >= 1, on the safe side.

    This is the integrated autocorrelation time 1 + 2 (r1 + r2 + ...) plus one standard error. It is
    computed from the ranks of the values in order of size, which outliers do not move. The sum ends
    where two neighbouring terms together are no longer positive (Geyer, Practical Markov Chain
    Monte Carlo, 1992). For a sum over m lags of n values the variance of the estimate is
    2 (2 m + 1) / n of its square (Sokal, 1997).
    """
    correlations = autocorrelation(np.unique(times, return_inverse=True)[1])
    pairs = correlations[: len(correlations) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    length = max(1.0, 2 * float(np.minimum.accumulate(pairs[:positive]).sum()) - 1)
    lags = max(0, 2 * positive - 1)
    standard_error = math.sqrt(2 * (2 * lags + 1) / len(times))
    return length * (1 + standard_error)


def autocorrelation(values: npt.NDArray[Any]) -> Array:
    """Returns r0 = 1, r1, ... of a series: [n]; without correlation where all values are equal."""
    n = len(values)
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    products = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    if products[0] > 0:
        return np.asarray(products / products[0])
    return np.asarray(np.eye(1, n)[0])

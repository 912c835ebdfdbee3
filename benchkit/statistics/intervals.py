"""95 % confidence intervals of medians that hold where neighbouring values resemble each other.

Times of calls are no independent draws: what slows one call down often slows the next one too. The
width of an interval follows the number of independent values that a series is worth. Coverage by
simulation: tests/perf/coverage.py, docs/results/coverage.md.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CONFIDENCE = 0.95
FEWEST_SAMPLES = 400
"""Samples of one case below which no interval is given: with fewer, a run that stays in one of two
modes, each some 50 samples long, looks in more than one of ten runs as if there were no other."""
FEWEST_ROUNDS = 100
"""The same for ratios of two cases that take turns, where both must be in unlike modes to mislead."""
FEWEST_INDEPENDENT = 15
"""Independent values that a series must be worth; with fewer, how many they are is a guess."""


def median_interval(values: Array) -> tuple[float, float] | None:
    """Confidence interval of the median of independent values, or None with fewer than 6 values.

    The k-th smallest and k-th largest, with the largest k for which the binomial tail P(X < k),
    X ~ B(n, 1/2), is at most (1 - CONFIDENCE) / 2 (Conover, Practical Nonparametric Statistics,
    section 3.2). Assumes no distribution.
    """
    k = order_below(len(values))
    if k == 0:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[len(values) - k])


def series_interval(times: Array, fewest: int = FEWEST_SAMPLES) -> tuple[float, float] | None:
    """Confidence interval of the median of a series in order of time; None where it tells too little.

    The order statistics that `median_interval` would take of as many independent values as the
    series is worth, at the same quantiles of the series. Always contains the series' median.

    Args:
        times: [n], in the order in which they were taken.
        fewest: values below which there is no interval.
    """
    n = len(times)
    if n < max(1, fewest):
        return None
    independent = int(n / correlation_length(times))
    if independent < FEWEST_INDEPENDENT:
        return None
    quantile = (order_below(independent) - 0.5) / independent
    index = max(0, math.floor(quantile * n - 0.5))
    ordered = np.sort(times)
    return float(ordered[index]), float(ordered[n - 1 - index])


def order_below(n: int) -> int:
    """The k of `median_interval` for n values; 0 where there is none."""
    tail, k = 0.0, 0
    while (tail := tail + math.exp(log_binomial(n, k) - n * math.log(2))) <= (1 - CONFIDENCE) / 2:
        k += 1
    return k


def log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def correlation_length(times: Array) -> float:
    """How many values of a series are worth one independent value, >= 1, on the safe side.

    The integrated autocorrelation time 1 + 2 (r1 + r2 + ...) of the values' ranks, which outliers do
    not move, up to where the sum of two neighbouring terms is no longer positive (Geyer, Practical
    Markov Chain Monte Carlo, 1992), and one standard error more (Sokal, 1997: the variance of the
    estimate is 2 (2 m + 1) / n of its square, for a sum over m lags).
    """
    correlations = autocorrelation(np.unique(times, return_inverse=True)[1])
    pairs = correlations[: len(correlations) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    length = max(1.0, 2 * float(np.minimum.accumulate(pairs[:positive]).sum()) - 1)
    lags = max(0, 2 * positive - 1)
    standard_error = math.sqrt(2 * (2 * lags + 1) / len(times))
    return length * (1 + standard_error)


def autocorrelation(values: npt.NDArray[Any]) -> Array:
    """r0 = 1, r1, ... of a series; no correlation where all values are equal."""
    n = len(values)
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    products = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    return np.asarray(products / products[0] if products[0] > 0 else np.eye(1, n)[0])

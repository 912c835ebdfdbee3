"""95 % intervals of medians for autocorrelated series, quantiles, and times with two modes.

Times of calls are not independent: a disturbance of one call often lasts to the next. So the width
of an interval follows from the effective sample size. Simulations measure the coverage:
perf/coverage.py, docs/results/coverage.md.

`np.median` and `np.quantile` take 20 to 60 µs for a few hundred values, nearly all of it overhead.
A case needs some twenty, most of them of the same values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ALPHA = 0.05
"""Error rate of an interval of 95 %."""
FEWEST_SAMPLES = 700
"""Fewest samples of one case that have an interval. With fewer, of two modes that each last about
50 samples, one is missed in more than one of ten runs."""
FEWEST_INDEPENDENT = 6
"""Fewest independent values in a series with an interval, by `median_interval`. A higher limit
would select runs that look uncorrelated by chance."""
FEWEST_TESTED, FEWEST_ROUNDS = 20, 100
"""Fewest rounds whose ratios are tested for correlation, and fewest with a `series_interval`."""
FEWEST_OF_ROUNDS = 15  # fewest independent values among FEWEST_ROUNDS rounds and more
FEWEST_QUARTILES = 12
"""Fewest values with quartiles; fewer have the range of all."""


def t_quantile(p_value: float, df: Array | float) -> Array:
    """Return the upper quantile of Student's t, exceeded with probability `p_value`.

    Exact for 1 and 2 degrees of freedom, 5 % too large between them, right to 0.005 % above (Hill,
    Algorithm 396: Student's t-quantiles, Communications of the ACM, 1970).

    Args:
        df: degrees of freedom. Below 1 the quantile is infinite; with infinitely many it is that of
            the normal distribution.
    """
    n = np.clip(df, 1.0, 1e12)  # where t is normal to all digits
    x = NormalDist().inv_cdf(p_value)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * np.sqrt(a * math.pi / 2) * n
    y = (d * 2 * p_value) ** (2 / n)
    # Near the centre an expansion about the normal quantile:
    c_near = c + np.where(n < 5, 0.3 * (n - 4.5) * (x + 0.6), 0)
    c_near += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
    x_near = (((((0.4 * x**2 + 6.3) * x**2 + 36) * x**2 + 94.5) / c_near - x**2 - 3) / b + 1) * x
    near = np.expm1(a * x_near**2)
    # In the tail one in powers of the probability:
    inner = 1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3)
    tail = ((inner + 0.5 / (n + 4)) * y - 1) * (n + 1) / (n + 2) + 1 / y
    quantile = np.sqrt(n * np.where(y > 0.05 + a, near, tail))
    quantile = np.where(n == 1, 1 / math.tan(math.pi * p_value), quantile)
    quantile = np.where(n == 2, math.sqrt(1 / (2 * p_value * (1 - p_value)) - 2), quantile)
    return np.where(np.asarray(df) < 1, np.inf, quantile)


def median_interval(values: Array, alpha: float = ALPHA) -> tuple[float, float] | None:
    """Return the confidence interval of the median of independent values; None for too few.

    It reaches from the k-th smallest to the k-th largest value, with the largest k for which the
    binomial tail P(X < k), X ~ B(n, 1/2), is at most alpha / 2 (Conover, Practical Nonparametric
    Statistics, section 3.2). No distribution is assumed. For 95 % it needs 6 values.
    """
    k = order_statistic_rank(len(values), alpha)
    if k == 0:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[len(values) - k])


def series_interval(
    times: Array,
    fewest: int = FEWEST_SAMPLES,
    fewest_independent: int = FEWEST_INDEPENDENT,
    alpha: float = ALPHA,
) -> tuple[float, float] | None:
    """Return the confidence interval of the median of a time series, in order of time: [n].

    `median_interval` takes two order statistics of independent values. This function takes the same
    quantiles of the series, for its effective sample size. The interval always contains the median.
    None below `fewest` values, or `fewest_independent` independent ones.
    """
    if len(times) < max(1, fewest):
        return None
    length = correlation_length(times)
    return ordered_interval(np.sort(times), length, fewest_independent, alpha)


def rounds_interval(ratios: Array, alpha: float = ALPHA) -> tuple[float, float] | None:
    """Return the confidence interval of the ratio, in this run, of two interleaved cases: [round].

    The order of cases is drawn anew in each round. So the ratio of equal cases is above 1 with
    probability 1/2, however times correlate, and order statistics of few ratios are valid. Other
    runs may differ. If the ratio drifted during the run, the interval is the range of all rounds: a
    variant is ahead if it was so in each. None for too few rounds.
    """
    if len(ratios) >= FEWEST_ROUNDS:
        interval = series_interval(ratios, FEWEST_ROUNDS, FEWEST_OF_ROUNDS, alpha)
        return interval or (float(ratios.min()), float(ratios.max()))
    if len(ratios) >= FEWEST_TESTED and not lacks_positive_correlation(ratios, alpha):
        return float(ratios.min()), float(ratios.max())
    return median_interval(ratios, alpha)


def fewest_values(alpha: float = ALPHA) -> int:
    """Return the fewest values with a `median_interval`: 6, or 9 for 7 comparisons at once."""
    return math.ceil(1 - math.log2(alpha))


def lacks_positive_correlation(values: Array, alpha: float = ALPHA) -> bool:
    """Test the lag-1 autocorrelation of ranks; return False if it is significant at `alpha`."""
    n = len(values)
    correlations = autocorrelation(np.unique(values, return_inverse=True)[1])
    critical = NormalDist().inv_cdf(1 - alpha) / math.sqrt(n) - 1 / n
    return bool(correlations[1] <= critical)


def quartiles_or_range(ordered: Array) -> tuple[float, float]:
    """Return the quartiles of ascending values, or their range if they are few."""
    if len(ordered) < FEWEST_QUARTILES:
        return float(ordered[0]), float(ordered[-1])
    return quantile(ordered, 0.25), quantile(ordered, 0.75)


def ordered_interval(
    ordered: Array,
    length: float,
    fewest_independent: int = FEWEST_INDEPENDENT,
    alpha: float = ALPHA,
) -> tuple[float, float] | None:
    """Return the interval of `series_interval` of sorted values.

    `length` is the number of values that count as one independent value.
    """
    n = len(ordered)
    independent = int(n / length)
    below = order_statistic_rank(independent, alpha)
    if independent < fewest_independent or not below:
        return None
    quantile = (below - 0.5) / independent
    index = max(0, math.floor(quantile * n - 0.5))
    return float(ordered[index]), float(ordered[n - 1 - index])


@cache
def order_statistic_rank(n: int, alpha: float = ALPHA) -> int:
    """Return the k of `median_interval` for n values; 0 where no k is small enough."""
    probability, k = 0.0, 0
    while (
        probability := probability + math.exp(log_binomial(n, k) - n * math.log(2))
    ) <= alpha / 2:
        k += 1
    return k


def log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def correlation_length(times: Array) -> float:
    """Return the number of values of a series per independent value, >= 1, conservatively.

    It is the integrated autocorrelation time 1 + 2 (r1 + r2 + ...) plus one standard error, of the
    values' ranks, which are robust to outliers. The sum ends where two neighbouring terms together
    are no longer positive (Geyer, Practical Markov Chain Monte Carlo, 1992). For a sum over m lags
    of n values the variance of the estimate is 2 (2 m + 1) / n of its square (Sokal, 1997).
    """
    correlations = autocorrelation(np.unique(times, return_inverse=True)[1])
    pairs = correlations[: len(correlations) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    length = max(1.0, 2 * float(np.minimum.accumulate(pairs[:positive]).sum()) - 1)
    lags = max(0, 2 * positive - 1)
    standard_error = math.sqrt(2 * (2 * lags + 1) / len(times))
    return length * (1 + standard_error)


def autocorrelation(values: npt.NDArray[Any]) -> Array:
    """Return r0 = 1, r1, ... of a series: [n]; 0 beyond r0 where all values are equal."""
    n = len(values)
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 2 * n)
    products = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    if products[0] > 0:
        return np.asarray(products / products[0])
    return np.asarray(np.eye(1, n)[0])


def median(values: Any) -> float:
    """Return the median of values in any order, exactly that of `np.median`."""
    return float(medians(values))


def medians(values: Any) -> Array:
    """Return the medians along the last axis: [..., n] -> [...]."""
    return sorted_medians(np.sort(np.asarray(values, dtype=np.float64)))


def sorted_medians(ordered: Array) -> Array:
    """Return the medians of ascending values: [..., n] -> [...]."""
    n = ordered.shape[-1]
    return np.asarray((ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2)


def quantile(ordered: Array, share: float) -> float:
    """Return a quantile of ascending values, exactly that of `np.quantile`."""
    position = (len(ordered) - 1) * share
    index = math.floor(position)
    low, high = float(ordered[index]), float(ordered[min(index + 1, len(ordered) - 1)])
    weight = position - index
    if weight < 0.5:
        return low + (high - low) * weight
    return high - (high - low) * (1 - weight)


FEWEST, PER_BIN, MOST_BINS = 100, 10, 40
"""Fewest samples for a search of two modes, mean samples per bin, most bins of the histogram."""
LEAST_RATIO = 1.1
"""Smallest ratio of two modes: the clock's resolution makes peaks of short times."""
VALLEY, LEAST_SHARE = 0.5, 0.1
"""Two peaks are two modes if the valley between them is below VALLEY times the lower peak, and at
least LEAST_SHARE of all samples lie on either side of it."""


@dataclass(frozen=True)
class Modes:
    fast_s: float
    slow_s: float
    slow_share: float


def find_modes(times: Array) -> Modes | None:
    """Return the two modes of times; None if there is one, or too few times.

    They are peaks of the smoothed histogram of the times' logarithms, separated at the lowest bin.
    """
    edge = valley_between_modes(times)
    if edge is None:
        return None
    slow = times > edge
    modes = Modes(median(times[~slow]), median(times[slow]), float(slow.mean()))
    return modes if modes.slow_s >= LEAST_RATIO * modes.fast_s else None


def valley_between_modes(times: Array) -> float | None:
    """Return the time in seconds that separates two modes; None if there is one mode."""
    ordered = np.sort(times)
    if len(ordered) < FEWEST or ordered[0] <= 0:
        return None
    logs = np.log(ordered)
    first = logs.searchsorted(quantile(logs, 0.005), side="left")
    last = logs.searchsorted(quantile(logs, 0.995), side="right")
    inside = logs[first:last]
    if inside[-1] - inside[0] < 1e-9:
        return None
    edges = np.linspace(inside[0], inside[-1], min(MOST_BINS, len(inside) // PER_BIN) + 1)
    below = [0, *inside.searchsorted(edges[1:-1]).tolist(), len(inside)]
    smooth = (np.convolve(np.diff(below), [1, 4, 6, 4, 1], mode="same") / 16).tolist()
    highest = smooth.index(max(smooth))
    valleys: list[tuple[float, int]] = []
    for peak in range(len(smooth)):
        low, high = sorted((highest, peak))
        if high - low < 2:
            continue
        between = smooth[low : high + 1]
        valley = low + between.index(min(between))
        if smooth[valley] < VALLEY * smooth[peak]:
            num_below = int(inside.searchsorted(edges[valley + 1], side="right"))
            above = (len(inside) - num_below) / len(inside)
            if min(above, 1 - above) >= LEAST_SHARE:
                valleys.append((smooth[peak], valley))
    if not valleys:
        return None
    _, valley = max(valleys)  # the valley before the highest of the other peaks
    return float(np.exp(edges[valley + 1]))


def slow_shares(
    baseline: Sequence[Array], candidate: Sequence[Array]
) -> tuple[Array, Array] | None:
    """Return the share of samples in the slow mode, 0 to 1, of both arms: [run], [run].

    The valley between the modes is that of all runs of the baseline, or of the candidate if the
    baseline has one mode. So a candidate with a single, slower mode has no slow mode. None if
    neither arm has two modes.
    """
    for runs in (baseline, candidate):
        times = np.concatenate([np.empty(0), *runs])
        edge = valley_between_modes(times) if find_modes(times) else None
        if edge is not None:
            return share_above(edge, baseline), share_above(edge, candidate)
    return None


def share_above(edge: float, runs: Sequence[Array]) -> Array:
    return np.array([np.mean(times > edge) if len(times) else np.nan for times in runs])

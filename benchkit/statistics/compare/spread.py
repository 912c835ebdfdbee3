"""Describes how much runs of the same code differ, and which effects so many pairs can show."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchkit.statistics.compare.signed_rank import SignedRank, fewest_pairs, log_ratios
from benchkit.statistics.intervals import Array

ALPHA, POWER = 0.05, 0.8
EFFICIENCY = 3 / math.pi
"""Of the signed-rank test relative to the t-test for normal differences (Hodges and Lehmann, 1956);
it is higher for most others, and never below 0.864."""
quantile = NormalDist().inv_cdf


@dataclass(frozen=True)
class Spread:
    """Standard deviations of logarithms between runs; None with fewer than two.

    Attributes:
        baseline: of the runs of the baseline, with all that changes from pair to pair.
        candidate: of the runs of the other arm.
        ratios: of the log ratios of pairs. Divided by the square root of 2 it is the spread of one
            run without what both runs of a pair share.
    """

    baseline: float | None
    candidate: float | None
    ratios: float | None


def spread_of_runs(baseline: Array, candidate: Array) -> Spread:
    """Returns the spread between runs of one point; arguments as for `log_ratios`."""
    ones = np.ones(len(baseline))
    return Spread(
        baseline=standard_deviation(log_ratios(ones, baseline)),
        candidate=standard_deviation(log_ratios(ones, candidate)),
        ratios=standard_deviation(log_ratios(baseline, candidate)),
    )


def standard_deviation(values: Array) -> float | None:
    """Returns the sample standard deviation of the finite values; None with fewer than two."""
    finite = values[np.isfinite(values)]
    return float(finite.std(ddof=1)) if len(finite) > 1 else None


def equivalent_sd(test: SignedRank) -> float | None:
    """Returns the standard deviation of normal differences with an interval as wide as this one.

    Outliers widen the interval little, and the standard deviation much; so this is the one to plan
    with (Lehmann, 1963: the width of the interval estimates the standard error). Below 6 pairs,
    which have no interval, it is the sample's standard deviation; None with fewer than two.
    """
    low, high = test.interval(ALPHA)
    if math.isinf(high):
        return standard_deviation(test.values)
    z = quantile(1 - ALPHA / 2)
    return (high - low) / 2 / z * math.sqrt((test.num_values - z**2 / 2) * EFFICIENCY)


def difference_of_runs(sigma_run: float) -> float:
    """Returns what two identical runs differ by at most in 95 of 100 cases, as a share.

    Args:
        sigma_run: standard deviation of the logarithms of runs.
    """
    return math.expm1(quantile(1 - ALPHA / 2) * math.sqrt(2) * sigma_run)


def percent(share: float) -> str:
    """Formats a difference: "0.42 %", "4 %", "618 %"."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def smallest_effect(sd: float, num_pairs: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Returns the log ratio whose interval leaves out 0 with probability `power`.

    That is (z_alpha/2 + z_power) sd / sqrt(e (n - z_alpha/2^2 / 2)): the formula of the t-test with
    Guenther's correction for few pairs (The American Statistician 35, 1981), and its n reduced by
    the efficiency e of the signed-rank test.

    Args:
        sd: standard deviation of the log ratios of pairs.
        num_pairs: n.
        alpha: error rate of the interval.
        power: from 0 to 1.

    Returns:
        Infinity where so few pairs show no effect, however large.
    """
    z = quantile(1 - alpha / 2)
    effective = EFFICIENCY * (num_pairs - z**2 / 2)
    if effective <= 0 or num_pairs < fewest_pairs(alpha):
        return math.inf
    return (z + quantile(power)) * sd / math.sqrt(effective)


def pairs_needed(sd: float, effect: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Returns the fewest pairs for which `smallest_effect` is at most `effect`, a log ratio > 0."""
    z = quantile(1 - alpha / 2)
    pairs = ((z + quantile(power)) * sd / effect) ** 2 / EFFICIENCY + z**2 / 2
    return max(fewest_pairs(alpha), math.ceil(pairs))

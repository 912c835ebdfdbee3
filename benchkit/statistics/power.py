"""Standard deviations between runs, smallest detectable effects, and numbers of pairs."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchkit.statistics.intervals import ALPHA, Array, fewest_values
from benchkit.statistics.rank_tests import SignedRank, log_ratios

POWER = 0.8
EFFICIENCY = 3 / math.pi
"""Of the signed-rank test relative to the t-test for normal differences (Hodges and Lehmann, 1956).
For most others it is higher, and it is never below 0.864."""
normal_quantile = NormalDist().inv_cdf


@dataclass(frozen=True)
class RunDeviations:
    """Standard deviations of logarithms between runs; None with fewer than two.

    Attributes:
        ratios: of the log ratios of pairs. Divided by the square root of 2 it is the standard
            deviation of one run, without disturbances that both runs of a pair share.
    """

    baseline: float | None
    candidate: float | None
    ratios: float | None


def run_deviations(baseline: Array, candidate: Array) -> RunDeviations:
    ones = np.ones(len(baseline))
    return RunDeviations(
        baseline=standard_deviation(log_ratios(ones, baseline)),
        candidate=standard_deviation(log_ratios(ones, candidate)),
        ratios=standard_deviation(log_ratios(baseline, candidate)),
    )


def standard_deviation(values: Array) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.std(ddof=1)) if len(finite) > 1 else None


def equivalent_sd(test: SignedRank) -> float | None:
    """Return the standard deviation of normal differences with an interval as wide as this one.

    It is robust for planning: outliers widen the interval little, and the standard deviation much
    (Lehmann, 1963: the width of the interval estimates the standard error). Below 6 pairs, which
    have no interval, it is the sample's standard deviation; None with fewer than two.
    """
    low, high = test.interval(ALPHA)
    if math.isinf(high):
        return standard_deviation(test.values)
    z = normal_quantile(1 - ALPHA / 2)
    return (high - low) / 2 / z * math.sqrt((test.num_values - z**2 / 2) * EFFICIENCY)


def difference_of_runs(sigma_run: float) -> float:
    """Return the 95 % quantile of the difference of two identical runs, as a share."""
    return math.expm1(normal_quantile(1 - ALPHA / 2) * math.sqrt(2) * sigma_run)


def smallest_effect(sd: float, num_pairs: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the log ratio whose interval excludes 0 with probability `power`.

    It is (z_alpha/2 + z_power) sd / sqrt(e (n - z_alpha/2^2 / 2)): the formula of the t-test with
    Guenther's correction for few pairs (The American Statistician 35, 1981), its n reduced by the
    efficiency e of the signed-rank test. It is infinite if so few pairs detect no effect.
    """
    z = normal_quantile(1 - alpha / 2)
    effective = EFFICIENCY * (num_pairs - z**2 / 2)
    if effective <= 0 or num_pairs < fewest_values(alpha):
        return math.inf
    return (z + normal_quantile(power)) * sd / math.sqrt(effective)


def pairs_needed(sd: float, effect: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Return the fewest pairs for which `smallest_effect` is at most `effect`, a log ratio > 0."""
    z = normal_quantile(1 - alpha / 2)
    pairs = ((z + normal_quantile(power)) * sd / effect) ** 2 / EFFICIENCY + z**2 / 2
    return max(fewest_values(alpha), math.ceil(pairs))

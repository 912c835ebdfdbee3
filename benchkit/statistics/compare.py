"""Whether one of two versions of a program is faster, slower or the same, by runs in turns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist
from typing import Annotated, TypeVar
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from benchkit.statistics.intervals import (
    ALPHA,
    Array,
    fewest_values,
    find_modes,
    valley_between_modes,
)
from benchkit.statistics.judgement import AHEAD, BEHIND, TIED, judge

CONTROL_EVERY = 5  # every fifth round is an A/A pair


@dataclass(frozen=True)
class Round:
    """One run of each arm of all points.

    Attributes:
        roles: the arms in the order in which they run; 0 is the baseline.
        seed: seed of all runs of the round, so that arms differ in nothing else.
        is_control: an A/A pair, in which the baseline plays both roles.
    """

    roles: tuple[Annotated[int, Meta(ge=0, le=10**6)], ...]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    is_control: bool = False


def order_of_runs(num_pairs: int, seed: int, num_arms: int = 2) -> list[Round]:
    """Return the rounds of a comparison; a longer one begins with the same rounds.

    Two rounds make a block: a random order of the arms, then its reverse. So two arms run ABBA or
    BAAB at random, and all arms of a block run at the same mean time: a drift that is linear within
    a block favours none (Cox, Some systematic experimental designs, Biometrika 38, 1951). A/A pairs
    alternate in the same way.
    """
    random, rounds = Random(seed), list[Round]()
    roles, control = list(range(num_arms)), random.sample(range(2), 2)
    for pair in range(num_pairs):
        roles = roles[::-1] if pair % 2 else random.sample(range(num_arms), num_arms)
        rounds.append(Round(tuple(roles), random.getrandbits(31)))
        if (len(rounds) + 1) % CONTROL_EVERY == 0:
            rounds.append(Round(tuple(control), random.getrandbits(31), is_control=True))
            control.reverse()
    return rounds


def benjamini_hochberg(p_values: Sequence[float], level: float) -> float:
    """Return the level of each test that keeps the false discovery rate to `level`.

    A share of at most `level` of the significant tests is wrong on average, also where the tests
    are positively dependent (Benjamini and Hochberg, 1995; Benjamini and Yekutieli, 2001). With R
    of m tests significant the returned level is R / m times `level`, with R = 1 where none is. It
    is also the error rate of the intervals with a false coverage rate of `level` (Benjamini and
    Yekutieli, False discovery rate-adjusted multiple confidence intervals, 2005).
    """
    count = max(1, len(p_values))
    passing = np.flatnonzero(np.sort(p_values) <= level * np.arange(1, len(p_values) + 1) / count)
    return level * (int(passing[-1]) + 1 if len(passing) else 1) / count


def holm(p_values: Sequence[float], level: float) -> float:
    """Return the level of each test that keeps the chance of any false one to `level`.

    The j-th smallest of m p-values is held to level / (m - j + 1), until the first one that fails
    (Holm, 1979). Only the R before it are at most level / (m - R).
    """
    left = len(p_values)
    for p_value in sorted(p_values):
        if p_value > level / left:
            break
        left -= 1
    return level / max(1, left)


Interval = tuple[float, float]


class RankTest:
    """Estimate, intervals and p-values of a centre or a shift.

    The statistic of the test of "it is c" is the number of elementary estimates above c. So tests
    and intervals are two readings of one list: the interval with error rate `alpha` leaves out c if
    and only if `p_above(c)` or `p_below(c)` is at most alpha / 2. Values that equal c, or each
    other, make both conservative. `estimate` is the median of the elementary estimates (Hodges and
    Lehmann, 1963); NaN without any.
    """

    def __init__(self, estimates: Array, cumulative: npt.NDArray[np.float64]) -> None:
        """`cumulative` is P(T <= t) of the statistic: [t]."""
        self._estimates = np.sort(estimates)
        self._cumulative = cumulative
        self.estimate = float(np.median(estimates)) if len(estimates) else math.nan

    def interval(self, alpha: float) -> Interval:
        """Return the interval that leaves out the truth with a probability of at most `alpha`.

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


def log_ratios(baseline: Array, candidate: Array) -> Array:
    """Return log(candidate / baseline): [pair].

    A pair that lacks a positive number is NaN, so pairs of several points stay aligned.
    """
    figures = np.array([baseline, candidate], dtype=np.float64)
    figures[~(np.isfinite(figures) & (figures > 0))] = np.nan
    logs = np.log(figures)
    return np.asarray(logs[1] - logs[0])


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


POWER = 0.8
EFFICIENCY = 3 / math.pi
"""Of the signed-rank test relative to the t-test for normal differences (Hodges and Lehmann, 1956).
For most others it is higher, and it is never below 0.864."""
quantile = NormalDist().inv_cdf


@dataclass(frozen=True)
class Spread:
    """Standard deviations of logarithms between runs; None with fewer than two.

    Attributes:
        ratios: of the log ratios of pairs. Divided by the square root of 2 it is the spread of one
            run, without what both runs of a pair share.
    """

    baseline: float | None
    candidate: float | None
    ratios: float | None


def spread_of_runs(baseline: Array, candidate: Array) -> Spread:
    ones = np.ones(len(baseline))
    return Spread(
        baseline=standard_deviation(log_ratios(ones, baseline)),
        candidate=standard_deviation(log_ratios(ones, candidate)),
        ratios=standard_deviation(log_ratios(baseline, candidate)),
    )


def standard_deviation(values: Array) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.std(ddof=1)) if len(finite) > 1 else None


def equivalent_sd(test: SignedRank) -> float | None:
    """Return the standard deviation of normal differences with an interval as wide as this one.

    Outliers widen the interval little, and the standard deviation much; so plan with this one
    (Lehmann, 1963: the width of the interval estimates the standard error). Below 6 pairs, which
    have no interval, it is the sample's standard deviation; None with fewer than two.
    """
    low, high = test.interval(ALPHA)
    if math.isinf(high):
        return standard_deviation(test.values)
    z = quantile(1 - ALPHA / 2)
    return (high - low) / 2 / z * math.sqrt((test.num_values - z**2 / 2) * EFFICIENCY)


def difference_of_runs(sigma_run: float) -> float:
    """Return the largest difference of two identical runs in 95 of 100 cases, as a share."""
    return math.expm1(quantile(1 - ALPHA / 2) * math.sqrt(2) * sigma_run)


def percent(share: float) -> str:
    """Format a difference: "0.42 %", "4 %", "618 %"."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def plus_minus(share: float) -> str:
    """Format what two runs differ by: "± 12 %", or "a factor of 9.7" of more than 2."""
    if share <= 1:
        return f"± {percent(share)}"
    return f"a factor of {1 + share:.{0 if share >= 9.5 else 1}f}"


def smallest_effect(sd: float, num_pairs: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Return the log ratio whose interval leaves out 0 with probability `power`.

    It is (z_alpha/2 + z_power) sd / sqrt(e (n - z_alpha/2^2 / 2)): the formula of the t-test with
    Guenther's correction for few pairs (The American Statistician 35, 1981), its n reduced by the
    efficiency e of the signed-rank test. It is infinite where so few pairs show no effect.
    """
    z = quantile(1 - alpha / 2)
    effective = EFFICIENCY * (num_pairs - z**2 / 2)
    if effective <= 0 or num_pairs < fewest_values(alpha):
        return math.inf
    return (z + quantile(power)) * sd / math.sqrt(effective)


def pairs_needed(sd: float, effect: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """Return the fewest pairs for which `smallest_effect` is at most `effect`, a log ratio > 0."""
    z = quantile(1 - alpha / 2)
    pairs = ((z + quantile(power)) * sd / effect) ** 2 / EFFICIENCY + z**2 / 2
    return max(fewest_values(alpha), math.ceil(pairs))


FASTER, SLOWER, SAME, UNCLEAR = "FASTER", "SLOWER", "SAME", "UNCLEAR"
FAILED, FIXED, NEW, NOT_COMPARED = "FAILED", "FIXED", "NEW", "NOT COMPARED"
"""Of points that times do not decide, see `word_of_ends`."""
POWER_OF_SAME = 0.9
"""Power for which pairs are counted: SAME needs both ends of an interval within the limit."""
MOST_PAIRS = 10_000
"""Most pairs that are worth naming; an estimate near `fail_on` would need millions."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one point.

    Attributes:
        word: FASTER, SLOWER, SAME or UNCLEAR.
        ratio: time of the candidate over that of the baseline; NaN without pairs.
        low, high: 0 and infinity where the pairs are too few for an interval.
        confidence: of the interval, adjusted for the number of points.
        p_value: two-sided, not adjusted, of "the ratio is within the noise floor".
        smallest_effect: the least change these pairs show with a power of 0.8, as a share; None if
            the spread is unknown.
        pairs_needed: for UNCLEAR, the pairs that would decide if the ratio is as estimated; None if
            more than 10 000, or if the spread is unknown.
    """

    word: str
    ratio: float
    low: float
    high: float
    confidence: float
    p_value: float
    num_pairs: int
    smallest_effect: float | None
    pairs_needed: int | None


@dataclass(frozen=True)
class Limits:
    """Limits of log ratios.

    Attributes:
        margin: the change that matters: log(1 + fail_on).
        floor: how far identical code may be from 0.
        alpha: error rate of the interval that shows a difference.
        alpha_same: error rate of the interval that shows that none matters.
    """

    margin: float
    floor: float
    alpha: float
    alpha_same: float


def verdicts_on(
    log_ratios: Sequence[Array],
    floors: Sequence[float | None],
    *,
    fail_on: float,
    level: float = 0.05,
) -> list[Verdict]:
    """Return the verdict on each point, or on each point of each candidate.

    SAME: the interval is within 1 / (1 + fail_on) and 1 + fail_on, also if it leaves out 1. SLOWER:
    the interval is above 1 and the noise floor, and the estimate is at least 1 + fail_on. FASTER:
    the same below. UNCLEAR: everything else. So SLOWER is wrong with probability level / 2 where
    the candidate is not slower, and SAME with probability level / 2 where it differs by fail_on. An
    interval wholly above 1 + fail_on would take four times as many pairs to find a change of twice
    fail_on.

    Both questions are asked at many points, so each is held to a false discovery rate of its own:
    the tests of a difference to `level`, the one-sided tests of SAME to level / 2.

    Args:
        log_ratios: of each point the log ratios of its pairs, NaN for missing ones.
        floors: of each point the noise floor as a share (see `noise_floor`); None if unknown.
        fail_on: the least change that matters, as a share: 0.05 for 5 %.
        level: error rate; that of one look where there are several.
    """
    tests = [SignedRank(values) for values in log_ratios]
    limits = limits_of(tests, floors, fail_on=fail_on, level=level)
    return [verdict_on(test, held) for test, held in zip(tests, limits, strict=True)]


def limits_of(
    tests: Sequence[RankTest], floors: Sequence[float | None], *, fail_on: float, level: float
) -> list[Limits]:
    margin = math.log1p(fail_on)
    noise = [math.log1p(floor or 0.0) for floor in floors]
    different = [test.p_outside(floor) for test, floor in zip(tests, noise, strict=True)]
    alpha = benjamini_hochberg(different, level)
    alpha_same = 2 * benjamini_hochberg([test.p_inside(margin) for test in tests], level / 2)
    return [Limits(margin, floor, alpha, alpha_same) for floor in noise]


def verdict_on(test: SignedRank, limits: Limits) -> Verdict:
    word = word_for(test, limits)
    alpha = limits.alpha_same if word == SAME else limits.alpha
    low, high = test.interval(alpha)
    sd = equivalent_sd(test)
    least = smallest_effect(sd, test.num_values, alpha, POWER) if sd is not None else None
    return Verdict(
        word=word,
        ratio=math.exp(test.estimate),
        low=math.exp(low),
        high=math.exp(high),
        confidence=1 - alpha,
        p_value=test.p_outside(limits.floor),
        num_pairs=test.num_values,
        smallest_effect=None if least is None else math.expm1(least),
        pairs_needed=more_pairs(test, limits, sd) if word == UNCLEAR else None,
    )


def word_for(test: RankTest, limits: Limits) -> str:
    """Return the word on the log ratio of the candidate's time over the baseline's."""
    of_ties = test.interval(limits.alpha_same)
    judged = judge(test.interval(limits.alpha), limits.margin, limits.floor, of_ties)
    if judged == TIED:
        return SAME
    matters = abs(test.estimate) >= limits.margin
    return {AHEAD: SLOWER, BEHIND: FASTER}.get(judged, UNCLEAR) if matters else UNCLEAR


def more_pairs(test: SignedRank, limits: Limits, sd: float | None) -> int | None:
    size = abs(test.estimate)
    if size < limits.margin:
        distance, alpha, power = limits.margin - size, limits.alpha_same, POWER_OF_SAME
    else:
        distance, alpha, power = size - limits.floor, limits.alpha, POWER
    if sd is None or distance <= 0 or smallest_effect(sd, MOST_PAIRS, alpha, power) > distance:
        return None
    return max(test.num_values + 1, pairs_needed(sd, distance, alpha, power))


def geometric_mean(log_ratios: Sequence[Array], alpha: float = 0.05) -> tuple[float, Interval]:
    """Return the geometric mean of all ratios, [point][pair], and its interval.

    The mean over points is taken in each pair, and the interval over pairs, because the points of a
    pair share their disturbances. Pairs that lack a point are left out.
    """
    test = SignedRank(np.mean(log_ratios, axis=0))
    low, high = test.interval(alpha)
    return math.exp(test.estimate), (math.exp(low), math.exp(high))


def noise_floor(log_ratios: Array, alpha: float = 0.05) -> float | None:
    """Return how far identical code may be from a ratio of 1, as a share; None with too few pairs.

    This is the far end of the interval of A/A pairs: a bound on what the order of runs or the
    harness adds. It is wide unless there are many pairs; a floor from the few A/A pairs of one
    comparison would hide most changes.
    """
    low, high = SignedRank(log_ratios).interval(alpha)
    return None if math.isinf(high) else math.expm1(max(-low, high))


@dataclass(frozen=True)
class Ends:
    """How the planned runs of a point ended on one side of a comparison.

    Attributes:
        unmeasured: planned runs without a result, `failed` or not: skipped, unavailable, never
            made.
    """

    planned: int
    unmeasured: int = 0
    failed: int = 0

    def is_worse_than(self, other: "Ends") -> bool:
        return (
            self.unmeasured * other.planned > other.unmeasured * self.planned
            or self.failed * other.planned > other.failed * self.planned
        )


def word_of_ends(baseline: Ends, candidate: Ends) -> str:
    """Return the word on a point that its times do not decide; "" where they do.

    FAILED: the candidate fails, or is not measured, in a larger share of its runs. NEW: only the
    candidate has the point. FIXED: only the candidate has a result. NOT_COMPARED: neither has one,
    or the suite left the point out of all runs of a side.
    """
    if not baseline.planned:
        return NEW if candidate.planned else NOT_COMPARED
    if candidate.is_worse_than(baseline):
        return FAILED
    if baseline.unmeasured < baseline.planned:
        return "" if candidate.planned else NOT_COMPARED
    return FIXED if candidate.unmeasured < candidate.planned else NOT_COMPARED


def exit_code(words: Sequence[str]) -> int:
    """Return 1 if any point is worse, else 3 if any is unclear or none is compared, else 0."""
    if SLOWER in words or FAILED in words:
        return 1
    is_told = not words or {*words} - {NEW, NOT_COMPARED}
    return 3 if UNCLEAR in words or not is_told else 0


def junit(suite: str, points: Sequence[tuple[str, str, str, str]]) -> bytes:
    """Return JUnit XML: SLOWER and FAILED fail; UNCLEAR and NOT_COMPARED are skipped."""
    kinds = {SLOWER: "failure", FAILED: "failure", UNCLEAR: "skipped", NOT_COMPARED: "skipped"}
    found = [kinds.get(word, "") for _, _, word, _ in points]
    root = ElementTree.Element(
        "testsuite",
        name=suite,
        tests=str(len(points)),
        failures=str(found.count("failure")),
        skipped=str(found.count("skipped")),
    )
    for (group, name, _, message), kind in zip(points, found, strict=True):
        texts = {"classname": group, "name": name, "message": message}
        # XML has no control characters.
        shown = {key: "".join(filter(str.isprintable, text)) for key, text in texts.items()}
        message = shown.pop("message")
        case = ElementTree.SubElement(root, "testcase", shown)
        if kind:
            ElementTree.SubElement(case, kind, message=message)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"


LEVELS = (0.05, 0.0294, 0.0221, 0.0182, 0.0158)
"""Level of each look for 1, 2, ... looks, for an error rate of 0.05, two-sided."""
PAIRS_PER_LOOK = 10  # fewest pairs from one look to the next


@dataclass(frozen=True)
class Plan:
    """When to look, and at which level.

    Attributes:
        looks: numbers of pairs after which verdicts are taken, ascending.
        level: error rate of each look, the `level` of `judge`.
    """

    looks: tuple[int, ...]
    level: float

    def goes_on(self, num_pairs: int, words: Sequence[str]) -> bool:
        is_answered = num_pairs in self.looks and UNCLEAR not in words
        return num_pairs < self.looks[-1] and not is_answered


def fixed_plan(num_pairs: int) -> Plan:
    return Plan((num_pairs,), LEVELS[0])


def auto_plan(max_pairs: int) -> Plan:
    """Return a plan of up to 5 equally spaced looks, at least 10 pairs apart."""
    count = min(len(LEVELS), max(1, max_pairs // PAIRS_PER_LOOK))
    looks = tuple(round(max_pairs * look / count) for look in range(1, count + 1))
    return Plan(looks, LEVELS[count - 1])


MOST_EXACT = 10_000
"""Pairs of values up to which the distribution is exact, in a fraction of a second."""


class RankSum(RankTest):
    """The shift between two samples from distributions of one shape, whatever that shape is.

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


Name = TypeVar("Name")


@dataclass(frozen=True)
class Change:
    """A change of a secondary metric, on the scale of its differences: log ratios, or shares.

    Attributes:
        low, high: infinite where the runs are too few for an interval.
        p_value: two-sided, not adjusted.
        is_significant: the interval leaves out 0, at the level of Holm's correction.
    """

    estimate: float
    low: float
    high: float
    p_value: float
    is_significant: bool


def changes(tests: Mapping[Name, RankTest], level: float = 0.05) -> dict[Name, Change]:
    """Return the change of each secondary metric.

    The chance that any is called significant where nothing changed is at most `level`.
    """
    p_values = {name: test.p_outside(0.0) for name, test in tests.items()}
    alpha = holm(list(p_values.values()), level)
    return {
        name: Change(
            test.estimate,
            *test.interval(alpha),
            p_values[name],
            is_significant=p_values[name] <= alpha,
        )
        for name, test in tests.items()
    }


def slow_shares(
    baseline: Sequence[Array], candidate: Sequence[Array]
) -> tuple[Array, Array] | None:
    """Return the share of samples in the slow mode, 0 to 1, of both arms: [run], [run].

    The valley between the modes is that of all runs of the baseline, or of the candidate where the
    baseline has one mode. So a candidate whose only mode is slower has no slow mode. None if
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

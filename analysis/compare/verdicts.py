"""The verdict on a point of a comparison: by the times of its runs, or by their outcomes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.compare.points import OutcomeCounts
from benchkit.statistics.intervals import ALPHA
from benchkit.statistics.judgement import AHEAD, BEHIND, TIED, judge_interval
from benchkit.statistics.multiplicity import benjamini_hochberg
from benchkit.statistics.power import POWER, equivalent_sd, pairs_needed, smallest_effect
from benchkit.statistics.rank_tests import RankTest, SignedRank

FASTER, SLOWER, SAME, UNCLEAR = "FASTER", "SLOWER", "SAME", "UNCLEAR"
FAILED, FIXED, NEW, NOT_COMPARED = "FAILED", "FIXED", "NEW", "NOT COMPARED"
"""Verdicts from run outcomes instead of times, see `word_by_outcomes`."""
POWER_OF_SAME = 0.9
"""Power for which pairs are counted: SAME needs both bounds of an interval within the limit."""
MOST_PAIRS = 10_000
"""Most pairs that are worth naming; an estimate near `fail_on` would need millions."""


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on one point.

    Attributes:
        word: FASTER, SLOWER, SAME or UNCLEAR.
        ratio: time of the candidate over that of the baseline; NaN without runs.
        low, high: 0 and infinity where the runs are too few for an interval.
        confidence: of the interval, adjusted for the number of points.
        p_value: two-sided, not adjusted, of "the ratio is within the noise floor".
        num_pairs: 0 for unpaired runs, which have none of the following.
        smallest_effect: the least change that these pairs detect with a power of 0.8, as a share;
            None if the spread is unknown.
        pairs_needed: for UNCLEAR, the pairs that would decide if the ratio is as estimated; None if
            more than 10 000, or if the spread is unknown.
    """

    word: str
    ratio: float
    low: float
    high: float
    confidence: float
    p_value: float
    num_pairs: int = 0
    smallest_effect: float | None = None
    pairs_needed: int | None = None

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.high)


@dataclass(frozen=True)
class VerdictLimits:
    """Limits of log ratios.

    Attributes:
        margin: the change that matters: log(1 + fail_on).
        floor: how far identical code may be from 0.
        alpha: error rate of the interval that shows a difference.
        alpha_same: error rate of the interval that shows equivalence.
    """

    margin: float
    floor: float
    alpha: float
    alpha_same: float


def judge_points(
    tests: Sequence[RankTest],
    floors: Sequence[float | None],
    *,
    fail_on: float,
    alpha: float = ALPHA,
) -> list[CaseVerdict]:
    """Return the verdict on each point, or on each point of each candidate.

    SAME: the interval is within 1 / (1 + fail_on) and 1 + fail_on, also if it leaves out 1. SLOWER:
    the interval is above 1 and the noise floor, and the estimate is at least 1 + fail_on. FASTER:
    the same below. UNCLEAR: everything else. So SLOWER is wrong with probability alpha / 2 where
    the candidate is not slower, and SAME with probability alpha / 2 where it differs by fail_on. An
    interval wholly above 1 + fail_on would take four times as many pairs to find a change of twice
    fail_on.

    Both are tested at many points, so each has a false discovery rate of its own: `alpha` for the
    tests of a difference, alpha / 2 for the one-sided tests of SAME.

    Args:
        tests: of each point, of the log ratios of its times.
        floors: of each point the noise floor as a share (see `noise_floor`); None if unknown.
        fail_on: the least change that matters, as a share: 0.05 for 5 %.
        alpha: error rate; that of one look where there are several.
    """
    margin = math.log1p(fail_on)
    noise = [math.log1p(floor or 0.0) for floor in floors]
    different = [test.p_outside(floor) for test, floor in zip(tests, noise, strict=True)]
    alpha_different = benjamini_hochberg(different, alpha)
    alpha_same = 2 * benjamini_hochberg([test.p_inside(margin) for test in tests], alpha / 2)
    return [
        judge_point(test, VerdictLimits(margin, floor, alpha_different, alpha_same))
        for test, floor in zip(tests, noise, strict=True)
    ]


def judge_point(test: RankTest, limits: VerdictLimits) -> CaseVerdict:
    word = classify_ratio(test, limits)
    alpha = limits.alpha_same if word == SAME else limits.alpha
    low, high = test.interval(alpha)
    verdict = CaseVerdict(
        word=word,
        ratio=math.exp(test.estimate),
        low=math.exp(low),
        high=math.exp(high),
        confidence=1 - alpha,
        p_value=test.p_outside(limits.floor),
    )
    if not isinstance(test, SignedRank):
        return verdict
    sd = equivalent_sd(test)
    least = smallest_effect(sd, test.num_values, alpha, POWER) if sd is not None else None
    return replace(
        verdict,
        num_pairs=test.num_values,
        smallest_effect=None if least is None else math.expm1(least),
        pairs_needed=pairs_to_decide(test, limits, sd) if word == UNCLEAR else None,
    )


def classify_ratio(test: RankTest, limits: VerdictLimits) -> str:
    """Return the word on the log ratio of the candidate's time over the baseline's."""
    of_ties = test.interval(limits.alpha_same)
    judged = judge_interval(test.interval(limits.alpha), limits.margin, limits.floor, of_ties)
    if judged == TIED:
        return SAME
    matters = abs(test.estimate) >= limits.margin
    return {AHEAD: SLOWER, BEHIND: FASTER}.get(judged, UNCLEAR) if matters else UNCLEAR


def pairs_to_decide(test: SignedRank, limits: VerdictLimits, sd: float | None) -> int | None:
    size = abs(test.estimate)
    if size < limits.margin:
        distance, alpha, power = limits.margin - size, limits.alpha_same, POWER_OF_SAME
    else:
        distance, alpha, power = size - limits.floor, limits.alpha, POWER
    if sd is None or distance <= 0 or smallest_effect(sd, MOST_PAIRS, alpha, power) > distance:
        return None
    return max(test.num_values + 1, pairs_needed(sd, distance, alpha, power))


def word_by_outcomes(baseline: OutcomeCounts, candidate: OutcomeCounts) -> str:
    """Return the word on a point by its outcomes; "" where its times decide.

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
    is_decided = not words or {*words} - {NEW, NOT_COMPARED}
    return 3 if UNCLEAR in words or not is_decided else 0

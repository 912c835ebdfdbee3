"""Says of each point of a comparison whether the candidate is faster, slower or the same.

What the words on all points mean for a gate, its exit code and its JUnit XML, is here, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from benchkit.statistics.compare.multiplicity import benjamini_hochberg
from benchkit.statistics.compare.rank_test import Interval, RankTest
from benchkit.statistics.compare.signed_rank import SignedRank
from benchkit.statistics.compare.spread import POWER, equivalent_sd, pairs_needed, smallest_effect
from benchkit.statistics.intervals import Array

FASTER, SLOWER, SAME, UNCLEAR = "FASTER", "SLOWER", "SAME", "UNCLEAR"
FAILED, FIXED, NEW, NOT_COMPARED = "FAILED", "FIXED", "NEW", "NOT COMPARED"
"""Of points that runs do not decide, see `word_of_ends`."""
POWER_OF_SAME = 0.9
"""Power for which pairs are counted; SAME needs both ends of an interval to be within the limit."""
MOST_PAIRS = 10_000
"""Most pairs that are worth naming; an estimate near `fail_on` would need millions."""


@dataclass(frozen=True)
class Verdict:
    """What the pairs tell of one point.

    Attributes:
        word: FASTER, SLOWER, SAME or UNCLEAR.
        ratio: time of the candidate over that of the baseline; NaN without pairs.
        low: lower end of the interval of the ratio, 0 where the pairs are too few for one.
        high: its upper end, infinity where the pairs are too few for one.
        confidence: of the interval, adjusted for the number of points.
        p_value: two-sided, not adjusted, that the ratio is within the noise floor.
        num_pairs: pairs with both figures.
        smallest_effect: the least change these pairs show with a power of 0.8, as a share; None
            where the spread is not known.
        pairs_needed: for UNCLEAR, how many pairs would do if the ratio is as estimated; None where
            not even 10 000 would, or the spread is not known.
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
    """What log ratios are held against.

    Attributes:
        margin: the change that matters: log(1 + fail_on).
        floor: how far identical code may be from 1.
        alpha: error rate of the interval that shows a difference.
        alpha_same: error rate of the interval that shows that there is none that matters.
    """

    margin: float
    floor: float
    alpha: float
    alpha_same: float


def judge(
    log_ratios: Sequence[Array],
    floors: Sequence[float | None],
    *,
    fail_on: float,
    level: float = 0.05,
) -> list[Verdict]:
    """Returns the verdict on each point, or on each point of each candidate.

    SAME: the interval is within 1 / (1 + fail_on) and 1 + fail_on, also if it leaves out 1. SLOWER:
    the interval is above 1 and the noise floor, and the estimate is at least 1 + fail_on. FASTER:
    the same below. UNCLEAR: everything else. So SLOWER is wrong with probability level / 2 where
    the candidate is not slower, and SAME with probability level / 2 where it differs by fail_on. To
    ask that the whole interval is above 1 + fail_on would take four times as many pairs to find a
    change of twice fail_on.

    Both questions are asked at many points, so each is held to a false discovery rate of its own:
    the tests of a difference to `level`, the one-sided tests of SAME to level / 2.

    Args:
        log_ratios: of each point the log ratios of its pairs, NaN for those that are missing.
        floors: of each point the noise floor as a share (see `noise_floor`); None if not known.
        fail_on: the least change that matters, as a share: 0.05 for 5 %.
        level: error rate; that of a look where there are several.
    """
    tests = [SignedRank(values) for values in log_ratios]
    limits = limits_of(tests, floors, fail_on=fail_on, level=level)
    return [verdict_on(test, held) for test, held in zip(tests, limits, strict=True)]


def limits_of(
    tests: Sequence[RankTest], floors: Sequence[float | None], *, fail_on: float, level: float
) -> list[Limits]:
    """Returns what the test of each point is held against; arguments as for `judge`."""
    margin = math.log1p(fail_on)
    noise = [math.log1p(floor or 0.0) for floor in floors]
    different = [test.p_outside(floor) for test, floor in zip(tests, noise, strict=True)]
    alpha = benjamini_hochberg(different, level)
    alpha_same = 2 * benjamini_hochberg([test.p_inside(margin) for test in tests], level / 2)
    return [Limits(margin, floor, alpha, alpha_same) for floor in noise]


def verdict_on(test: SignedRank, limits: Limits) -> Verdict:
    """Returns the verdict on one point."""
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
    """Returns the word of `judge` for one point."""
    low, high = test.interval(limits.alpha_same)
    if -limits.margin < low and high < limits.margin:
        return SAME
    low, high = test.interval(limits.alpha)
    if low > limits.floor and test.estimate >= limits.margin:
        return SLOWER
    if high < -limits.floor and test.estimate <= -limits.margin:
        return FASTER
    return UNCLEAR


def more_pairs(test: SignedRank, limits: Limits, sd: float | None) -> int | None:
    """Returns how many pairs would do for an unclear point, see `Verdict.pairs_needed`."""
    size = abs(test.estimate)
    if size < limits.margin:
        distance, alpha, power = limits.margin - size, limits.alpha_same, POWER_OF_SAME
    else:
        distance, alpha, power = size - limits.floor, limits.alpha, POWER
    if sd is None or distance <= 0 or smallest_effect(sd, MOST_PAIRS, alpha, power) > distance:
        return None
    return max(test.num_values + 1, pairs_needed(sd, distance, alpha, power))


def geometric_mean(log_ratios: Sequence[Array], alpha: float = 0.05) -> tuple[float, Interval]:
    """Returns the geometric mean of the ratios of all points, and its interval.

    The mean over points is taken in each pair, and the interval over pairs, because the points of
    a pair share what disturbs them.

    Args:
        log_ratios: [point][pair]; pairs that lack a point are left out.
        alpha: error rate of the interval.
    """
    test = SignedRank(np.mean(log_ratios, axis=0))
    low, high = test.interval(alpha)
    return math.exp(test.estimate), (math.exp(low), math.exp(high))


def noise_floor(log_ratios: Array, alpha: float = 0.05) -> float | None:
    """Returns how far identical code may be from a ratio of 1, as a share.

    This is the far end of the interval of A/A pairs; None where they are too few for one. It is a
    bound on what the order of runs or the harness adds, and wide unless it is of many pairs: one
    from the few A/A pairs of a single comparison would hide most changes.
    """
    low, high = SignedRank(log_ratios).interval(alpha)
    return None if math.isinf(high) else math.expm1(max(-low, high))


@dataclass(frozen=True)
class Ends:
    """How the planned runs of a point ended on one side of a comparison.

    Attributes:
        planned: number of runs.
        unmeasured: of these, runs without a result for whatever reason.
        failed: of these, runs that failed; others were skipped, unavailable or never made.
    """

    planned: int
    unmeasured: int = 0
    failed: int = 0

    def is_worse_than(self, other: "Ends") -> bool:
        """Whether a larger share of the runs has no result, or has failed."""
        return (
            self.unmeasured * other.planned > other.unmeasured * self.planned
            or self.failed * other.planned > other.failed * self.planned
        )


def word_of_ends(baseline: Ends, candidate: Ends) -> str:
    """Returns the word on a point that the figures of its runs do not decide; "" where they do.

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
    """Returns 1 where any point is worse, else 3 where any is unclear or none is told, else 0."""
    if SLOWER in words or FAILED in words:
        return 1
    is_told = not words or {*words} - {NEW, NOT_COMPARED}
    return 3 if UNCLEAR in words or not is_told else 0


def junit(suite: str, points: Sequence[tuple[str, str, str, str]]) -> bytes:
    """Returns JUnit XML: SLOWER and FAILED fail, what is not decided is skipped.

    Args:
        suite: its name.
        points: of each the class, the name, the word and a message.
    """
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

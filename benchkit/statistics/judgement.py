"""Judge whether one variant is ahead of another, by the interval of its speedup.

Screens, figures, pages, exports and `compare` all use `judge_interval`. A range is not an interval:
nothing is judged by it.
"""

import math

from benchkit.statistics.intervals import ALPHA

MARGIN = 0.05
"""Variants are tied if the interval of their speedup lies within this margin."""


AHEAD, BEHIND, TIED, UNCLEAR, NOT_JUDGED = "ahead", "behind", "tied", "unclear", "not judged"
"""Judgements of the speedup of one variant over another."""


def judge_interval(
    interval: tuple[float, float],
    margin: float = math.log1p(MARGIN),
    floor: float = 0.0,
    of_ties: tuple[float, float] | None = None,
) -> str:
    """Judge a speedup by the interval of its logarithm.

    TIED: the whole interval lies within the margin, even if it excludes 0. AHEAD and BEHIND: it
    lies above or below 0, and beyond the noise floor. UNCLEAR: everything else. So the error rate
    of each of the first three is at most that of the interval.

    Args:
        margin: largest logarithm of a speedup that is irrelevant.
        floor: noise floor, as a logarithm.
        of_ties: interval for ties, if their error rate differs.
    """
    low, high = of_ties or interval
    if -margin < low and high < margin:
        return TIED
    low, high = interval
    if low > floor:
        return AHEAD
    return BEHIND if high < -floor else UNCLEAR


def judge_speedup(low: float, high: float) -> str:
    """Judge a speedup by its interval."""
    return judge_interval((math.log(low), math.log(high)))


def bonferroni_alpha(num_comparisons: int) -> float:
    """Return the error rate of each comparison for a family-wise error rate of ALPHA.

    This is Bonferroni's correction. Among k variants there are k - 1 comparisons with a baseline,
    and k (k - 1) / 2 with the variant that turns out to be the fastest.
    """
    return ALPHA / max(1, num_comparisons)

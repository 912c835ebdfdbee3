"""Whether one variant is ahead of another: the one judgement that every claim rests on.

Screens, figures, pages, exports and `compare` ask `judge`, and decide nothing by themselves. A
range is no interval: nothing is judged by it.
"""

import math

from benchkit.statistics.intervals import ALPHA

MARGIN = 0.05
"""Variants are tied where their times differ by no more than this, for certain."""


AHEAD, BEHIND, TIED, UNCLEAR, NOT_JUDGED = "ahead", "behind", "tied", "unclear", "not judged"
"""What is known of the speedup of one variant over another."""


def judge_interval(
    interval: tuple[float, float],
    margin: float = math.log1p(MARGIN),
    floor: float = 0.0,
    of_ties: tuple[float, float] | None = None,
) -> str:
    """Judge a speedup by the interval of its logarithm.

    TIED: the whole interval lies within the margin, also if it leaves out 0. AHEAD and BEHIND: it
    lies above or below 0, and beyond the noise floor. UNCLEAR: everything else. So each of the
    first three is wrong as rarely as the interval leaves out the truth.

    Args:
        margin: the largest logarithm of a speedup that does not matter.
        floor: how far identical code may be from 0.
        of_ties: the interval that ties are judged by, where that has an error rate of its own.
    """
    low, high = of_ties or interval
    if -margin < low and high < margin:
        return TIED
    low, high = interval
    if low > floor:
        return AHEAD
    return BEHIND if high < -floor else UNCLEAR


def judge_speedup(low: float, high: float) -> str:
    """Judge a speedup by the ends of its interval."""
    return judge_interval((math.log(low), math.log(high)))


def bonferroni_alpha(num_comparisons: int) -> float:
    """Return the error rate of each comparison, so that any is wrong at most with ALPHA.

    This is Bonferroni's correction. Among k variants there are k - 1 comparisons with a baseline,
    and k (k - 1) / 2 with whichever variant turns out to be the fastest.
    """
    return ALPHA / max(1, num_comparisons)

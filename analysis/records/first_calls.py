"""What a case's first call costs, where measure.mode=cold made it the first."""

from typing import Any

from benchkit.record.case import CaseRecord
from benchkit.record.settings import FIRST_CALLS
from benchkit.statistics.intervals import Array
from benchkit.statistics.quantiles import median

FEWEST = 4
"""Samples from which on the later half tells what a warm call takes."""
NEAR = 1.1
"""A call within this multiple of the warm calls counts as warm."""
FIGURES = ("first_call_s", "first_call_ratio", "warm_from_call")


def figures(case: CaseRecord, mode: str, iterations: Array) -> dict[str, Any]:
    """Compute the FIGURES of a case.

    All are None with too few samples, and in other modes: without a warm-up, too, verification has
    called before them.

    Args:
        case: of the record.
        mode: that of `measure`.
        iterations: [iteration], the time of each iteration in seconds, in order.

    Returns:
        first_call_s: the time of the first call, in seconds.
        first_call_ratio: the same over the median of the later half of all calls.
        warm_from_call: the number of the first call, from 1, that takes at most NEAR times that
            median.
    """
    if mode != FIRST_CALLS or case.warmup_s or len(iterations) < FEWEST:
        return dict.fromkeys(FIGURES)
    warm_s = median(iterations[len(iterations) // 2 :])
    is_warm = iterations <= NEAR * warm_s
    return {
        "first_call_s": float(iterations[0]),
        "first_call_ratio": float(iterations[0] / warm_s),
        "warm_from_call": int(is_warm.argmax()) + 1,
    }

"""Compares what a case takes in turns with others with what it takes alone in fresh ranks."""

from collections.abc import Sequence

import numpy as np

from benchkit.record.case import CaseRecord
from benchkit.statistics.summary import iteration_times

RATIO = ("turns_ratio", "turns_ratio_low", "turns_ratio_high")


def figures(
    case: CaseRecord, alone: Sequence[CaseRecord], median_s: float | None
) -> dict[str, float | None]:
    """Compute how much turns changed a case.

    Within one record there is no interval: both medians are of one run of ranks each, and runs
    differ by more than the samples within them. `analysis.repetitions` takes it over runs.

    Args:
        case: that took turns.
        alone: what the record has of cases that were timed alone.
        median_s: of the case.

    Returns:
        alone_s: median time alone; None where it was not timed alone.
        turns_ratio: the median in turns as a multiple of that; above 1 where turns cost time.
        turns_ratio_low, turns_ratio_high: None.
    """
    found: dict[str, float | None] = dict.fromkeys(("alone_s", *RATIO))
    for other in alone:
        if other.labels == case.labels and other.samples_s:
            samples, starts = other.samples_taking_part, other.starts_taking_part
            found["alone_s"] = float(np.median(iteration_times(samples, starts, case.estimator)))
            if median_s and found["alone_s"]:
                found["turns_ratio"] = median_s / found["alone_s"]
    return found

"""Compares what a case takes in turns with others with what it takes alone in fresh ranks."""

import numpy as np

from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.summary import iteration_times

SPEEDUPS = ("alone_speedup", "speedup_in_turns")
RATIO = ("turns_ratio", "turns_ratio_low", "turns_ratio_high")


def figures(case: CaseRecord, record: Record, median_s: float | None) -> dict[str, float | None]:
    """Compute how much turns changed a case.

    Within one record there is no interval: both medians are of one run of ranks each, and runs
    differ by more than the samples within them. `analysis.repetitions` takes it over runs.

    Args:
        case: that took turns.
        record: of the case.
        median_s: of the case.

    Returns:
        alone_s: median time alone; None where it was not timed alone.
        turns_ratio: the median in turns as a multiple of that; above 1 where turns cost time.
        turns_ratio_low, turns_ratio_high: None.
        alone_speedup: the ratio of the rates of useful work of the case and of its baseline, each
            alone; None where one of them was not timed alone.
        speedup_in_turns: None; see `analysis.fresh_speedup`.
    """
    found: dict[str, float | None] = dict.fromkeys(("alone_s", *RATIO, *SPEEDUPS))
    found["alone_s"] = alone_s = time_alone(case, record)
    if median_s and alone_s:
        found["turns_ratio"] = median_s / alone_s
    if case.baseline is not None and alone_s:
        baseline = record.cases[case.baseline]
        more_work = (case.useful_flops or 1.0) / (baseline.useful_flops or 1.0)
        baseline_s = time_alone(baseline, record)
        found["alone_speedup"] = baseline_s and more_work * baseline_s / alone_s
    return found


def time_alone(case: CaseRecord, record: Record) -> float | None:
    """Return the median time of a case alone in fresh ranks, in seconds; None where it has none."""
    for other in record.alone:
        if other.labels == case.labels and other.samples_s:
            samples, starts = other.samples_taking_part, other.starts_taking_part
            return float(np.median(iteration_times(samples, starts, case.estimator)))
    return None

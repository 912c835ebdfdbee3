"""Compares what a case takes in turns with others with what it takes alone in fresh ranks."""

from collections.abc import Sequence

from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.quantiles import median
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
    found["alone_s"] = alone_s = median_within(record.alone, case)
    if median_s and alone_s:
        found["turns_ratio"] = median_s / alone_s
    if case.baseline is not None and alone_s:
        baseline = record.cases[case.baseline]
        more_work = (case.useful_flops or 1.0) / (baseline.useful_flops or 1.0)
        baseline_s = median_within(record.alone, baseline)
        found["alone_speedup"] = baseline_s and more_work * baseline_s / alone_s
    return found


def median_within(cases: Sequence[CaseRecord], case: CaseRecord) -> float | None:
    """Return the median time in seconds of the case with the same labels; None where it has none.

    Args:
        cases: measured in other ranks than the case.
        case: of the point.
    """
    for other in cases:
        if other.labels == case.labels and other.samples_s:
            samples, starts = other.samples_taking_part, other.starts_taking_part
            return median(iteration_times(samples, starts, case.estimator))
    return None

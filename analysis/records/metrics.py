"""Formulas of the metrics of a case, from the case, its samples and other cases of its job.

A formula reads what a case of any suite may have (benchkit.api.case.Case), and knows no suite.
"""

from collections.abc import Callable, Mapping, Sequence

from benchkit.api.case import IDEAL_S, PEAK_TFLOP_PER_S
from benchkit.api.regions import BACKWARD, FORWARD, QUEUEING
from benchkit.record.record import CaseRecord
from benchkit.statistics.intervals import median
from benchkit.statistics.samples import slowest_rank
from benchkit.statistics.summary import Estimate, computing_rate, paired_overlap, paired_speedup

ComparisonGroup = tuple[str, int]
"""The labels that are the problem of its cases, as text, and their number of ranks."""
BACKEND = "comm_backend"
"""Label of cases of one problem with different backends."""


def comparison_metrics(
    case: CaseRecord, cases: Sequence[CaseRecord], group_medians_s: Sequence[float]
) -> dict[str, float | None]:
    """Compute the metrics of a measured case that need other cases of its job.

    Args:
        cases: all cases of its job.
        group_medians_s: of the measured cases of its comparison group, itself included.
    """
    cells: dict[str, float | None] = {}
    baseline = measured_case_at(case.baseline, cases)
    if baseline is not None:
        work_ratio = (case.useful_flops or 1.0) / (baseline.useful_flops or 1.0)
        quotient = median_of(baseline) / median_of(case)  # that of the times beside it
        speedup = (
            paired_speedup(baseline.samples, case.samples).with_value(quotient).scaled(work_ratio)
        )
        cells |= estimate_cells("paired_speedup", speedup)
        if case.ranks != baseline.ranks:
            cells["scaling_efficiency"] = speedup.value * baseline.num_ranks / case.num_ranks
    computation = measured_case_at(case.components.computation, cases)
    communication = measured_case_at(case.components.communication, cases)
    if communication is not None:
        cells["comm_share"] = median_of(communication) / median_of(case)
    if communication is not None and computation is not None:
        parts = computation.samples, communication.samples
        cells |= estimate_cells("overlap", paired_overlap(*parts, case.samples))
        cells["limit_share"] = max(median_of(computation), median_of(communication)) / median_of(
            case
        )
    if len(group_medians_s) > 1:
        cells["regret"] = median_of(case) / min(group_medians_s) - 1
    return cells


def measured_case_at(position: int | None, cases: Sequence[CaseRecord]) -> CaseRecord | None:
    case = None if position is None else cases[position]
    return case if case is not None and case.status == "ok" else None


def comparison_groups(cases: Sequence[CaseRecord]) -> list[ComparisonGroup | None]:
    """Return the comparison group of each case; None where it competes with no other.

    Cases of one group share a baseline, or their baselines differ only in the backend.
    """
    baselines = {case.baseline for case in cases}
    groups: list[ComparisonGroup | None] = []
    for position, case in enumerate(cases):
        baseline_position = position if case.baseline is None else case.baseline
        is_excluded = case.is_component or case.unslowed or not case.samples_s
        if baseline_position not in baselines or is_excluded:
            groups.append(None)
            continue
        problem = {
            name: value
            for name, value in cases[baseline_position].labels.items()
            if name != BACKEND
        }
        groups.append((str(problem), case.num_ranks))
    return groups


def estimate_cells(name: str, estimate: Estimate) -> dict[str, float | None]:
    suffixes = ("", "_low", "_high", "_range_low", "_range_high")
    cells: dict[str, float | None] = {
        name + suffix: x for suffix, x in zip(suffixes, estimate, strict=False)
    }
    return cells | {"num_turns": estimate.num_rounds}


def median_of(case: CaseRecord) -> float:
    return median(case.samples.times)


CaseMetrics = Mapping[str, float | int | None]
"""The metrics of a case that are computed so far, by name."""
Formula = Callable[[CaseRecord, CaseMetrics], float | int | None]
"""Computes a metric from a case and its summary; None where it does not apply."""


def case_formula(name: str) -> Formula:
    return lambda case, summary: getattr(case, name)


def detail_formula(name: str) -> Formula:
    return lambda case, summary: case.details.get(name)


def osu_mean(case: CaseRecord, summary: CaseMetrics) -> float | None:
    """Return the mean over iterations and ranks of calls after a barrier, as OSU reports it."""
    return summary["osu_mean_s"] if case.calls_per_sample == 1 else None


def efficiency(case: CaseRecord, summary: CaseMetrics) -> float | None:
    """Return the ideal time, with all work spread over all speed, as a share of the median."""
    ideal_s = case.details.get(IDEAL_S)
    median_s = summary["median_s"]
    return ideal_s / median_s if ideal_s and median_s else None


def rate_formula(name: str) -> Formula:
    """Make the formula of a rate: a count per call in `details`, over the median."""

    def formula(case: CaseRecord, summary: CaseMetrics) -> float | None:
        count = detail_formula(name)(case, summary)
        median_s = summary["median_s"]
        return count / median_s if count and median_s else None

    return formula


def flop_rate_formula(flops: str) -> Formula:
    """Make the formula of floating-point operations per second; `flops` names their number."""
    return lambda case, summary: computing_rate(getattr(case, flops), summary["median_s"])


def bandwidth_formula(formula: Callable[..., float | None]) -> Formula:
    return lambda case, summary: formula(case.payload_bytes, case.bus_factor, summary["median_s"])


def utilisation_formula(flops: Formula) -> Formula:
    """Make the formula of operations per second over the peak rate that the case reports."""

    def formula(case: CaseRecord, summary: CaseMetrics) -> float | None:
        count = flops(case, summary)
        peak = detail_formula(PEAK_TFLOP_PER_S)(case, summary)
        median_s = summary["median_s"]
        return count / median_s / (peak * 1e12) if count and peak and median_s else None

    return formula


def backward_over_forward(case: CaseRecord, summary: CaseMetrics) -> float | None:
    spent = region_medians(case)
    forward_s, backward_s = spent.get(f"{FORWARD}_s"), spent.get(f"{BACKWARD}_s")
    return backward_s / forward_s if forward_s and backward_s is not None else None


HOST_SETS = 0.9
"""Share of a call's time from which on queueing on the host limits a loop.

A full queue makes the host queue many calls no faster than the GPU runs them. Where launches limit
n calls, queueing takes at least n / (n + 1) of their time: only the last kernel follows.
"""


def host_bound(case: CaseRecord, summary: CaseMetrics) -> float | None:
    """Return the time of queueing over that of the call, where queueing limits it; else None."""
    queueing_s = region_medians(case).get(f"{QUEUEING}_s")
    median_s = summary["median_s"]
    least = max(HOST_SETS, case.calls_per_sample / (case.calls_per_sample + 1))
    if not queueing_s or not median_s or queueing_s < least * median_s:
        return None
    return float(queueing_s / median_s)


def region_medians(case: CaseRecord) -> dict[str, float]:
    """Return each region's median in seconds, over iterations, of the rank longest in it."""
    spent_in = case.regions_s.items()
    return {f"{name}_s": median(slowest_rank(spent)) for name, spent in spent_in}

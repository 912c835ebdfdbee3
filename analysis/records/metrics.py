"""Formulas of the metrics of a case, from the case, its samples and other cases of its job.

A formula reads what a case of any suite may have (benchkit.api.case.Case), and knows no suite.
"""

from collections.abc import Callable, Mapping, Sequence

from benchkit.api.case import IDEAL_S, PEAK_TFLOP_PER_S
from benchkit.api.regions import (
    BACKWARD,
    FORWARD,
    QUEUEING,
)
from benchkit.record.record import CaseRecord
from benchkit.statistics.intervals import median
from benchkit.statistics.samples import slowest_rank
from benchkit.statistics.summary import (
    Estimate,
    computing_rate,
    paired_overlap,
    paired_speedup,
)

Contest = tuple[str, int]
"""The work that cases do, and the number of ranks that do it."""
BACKEND = "comm_backend"
"""Label of cases that do the same work over backends of their own."""


def comparison_metrics(
    case: CaseRecord, cases: Sequence[CaseRecord], rivals_s: Sequence[float]
) -> dict[str, float | None]:
    """Compute the metrics of a measured case that need other cases of its job.

    Args:
        cases: all cases of its job.
        rivals_s: medians in seconds of the measured cases of its contest, itself included.
    """
    found: dict[str, float | None] = {}
    baseline = measured_case_at(case.baseline, cases)
    if baseline is not None:
        more_work = (case.useful_flops or 1.0) / (baseline.useful_flops or 1.0)
        quotient = median_of(baseline) / median_of(case)  # that of the times beside it
        speedup = (
            paired_speedup(baseline.samples, case.samples).with_value(quotient).scaled(more_work)
        )
        found |= estimate_cells("paired_speedup", speedup)
        if case.ranks != baseline.ranks:
            found["scaling_efficiency"] = speedup.value * baseline.num_ranks / case.num_ranks
    computation = measured_case_at(case.components.computation, cases)
    communication = measured_case_at(case.components.communication, cases)
    if communication is not None:
        found["comm_share"] = median_of(communication) / median_of(case)
    if communication is not None and computation is not None:
        parts = computation.samples, communication.samples
        found |= estimate_cells("overlap", paired_overlap(*parts, case.samples))
        found["limit_share"] = max(median_of(computation), median_of(communication)) / median_of(
            case
        )
    if len(rivals_s) > 1:
        found["regret"] = median_of(case) / min(rivals_s) - 1
    return found


def measured_case_at(position: int | None, cases: Sequence[CaseRecord]) -> CaseRecord | None:
    case = None if position is None else cases[position]
    return case if case is not None and case.status == "ok" else None


def comparison_groups(cases: Sequence[CaseRecord]) -> list[Contest | None]:
    """Return per case the work and the number of ranks that it competes in; None without rivals.

    Rivals are compared with the same case, or with that case on their own backend.
    """
    baselines = {case.baseline for case in cases}
    found: list[Contest | None] = []
    for position, case in enumerate(cases):
        baseline_position = position if case.baseline is None else case.baseline
        no_rival = case.is_component or case.unslowed or not case.samples_s
        if baseline_position not in baselines or no_rival:
            found.append(None)
            continue
        work = {
            name: value
            for name, value in cases[baseline_position].labels.items()
            if name != BACKEND
        }
        found.append((str(work), case.num_ranks))
    return found


def estimate_cells(name: str, found: Estimate) -> dict[str, float | None]:
    ends = ("", "_low", "_high", "_range_low", "_range_high")
    cells: dict[str, float | None] = {name + end: x for end, x in zip(ends, found, strict=False)}
    return cells | {"num_turns": found.num_rounds}


def median_of(case: CaseRecord) -> float:
    return median(case.samples.times)


CaseMetrics = Mapping[str, float | int | None]
"""The summary of a case, and what is computed of it so far, by name."""
Formula = Callable[[CaseRecord, CaseMetrics], float | int | None]
"""Computes a figure from a case and its summary; None where it does not apply."""


def from_case(name: str) -> Formula:
    return lambda case, summary: getattr(case, name)


def from_details(name: str) -> Formula:
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
    """Make the formula of a rate: what `details` counts per call, over the median."""

    def formula(case: CaseRecord, summary: CaseMetrics) -> float | None:
        count = from_details(name)(case, summary)
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
        peak = from_details(PEAK_TFLOP_PER_S)(case, summary)
        median_s = summary["median_s"]
        return count / median_s / (peak * 1e12) if count and peak and median_s else None

    return formula


def backward_over_forward(case: CaseRecord, summary: CaseMetrics) -> float | None:
    spent = region_medians(case)
    forward_s, backward_s = spent.get(f"{FORWARD}_s"), spent.get(f"{BACKWARD}_s")
    return backward_s / forward_s if forward_s and backward_s is not None else None


HOST_SETS = 0.9
"""Share of a call's time from which on the host that queues it sets the pace of a loop.

The host queues many calls no faster than the GPU makes them, since the queue fills up. Of n calls
whose launches set the pace, it queues for n / (n + 1) of their time at least: the last kernel alone
comes after.
"""


def host_bound(case: CaseRecord, summary: CaseMetrics) -> float | None:
    """Return the time of queueing on the host, over that of the call, where the host sets it."""
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

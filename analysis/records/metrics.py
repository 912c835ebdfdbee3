"""Derives the figures of a case that need other cases of its job.

They are speedup over another case, scaling, overlap, and the distance to the limit and to the best.
The metrics of a case: the columns derived from it and its samples, with units and formulae.

A formula reads what a case of any suite may have (benchkit.api.case.Case), and knows no suite."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.records import doubts
from benchkit.api.details import (
    BACKWARD,
    CAUSAL_FLOPS,
    FORWARD,
    IDEAL_S,
    PEAK_TFLOP_PER_S,
    PREDICTED_S,
    QUEUEING,
    TOKENS_PER_CALL,
)
from benchkit.record.record import CaseRecord
from benchkit.statistics.intervals import median
from benchkit.statistics.summary import (
    Estimate,
    algorithm_bandwidth,
    bus_bandwidth,
    computing_rate,
    paired_overlap,
    paired_speedup,
    slowest_rank,
)

COMPARISON_METRICS = (
    "paired_speedup", "paired_speedup_low", "paired_speedup_high",
    "overlap", "overlap_low", "overlap_high",
    "scaling_efficiency", "comm_share", "limit_share", "regret",
)  # fmt: skip
"""
- paired_speedup: the ratio of the rates of useful work.
- scaling_efficiency: paired_speedup per rank.
- comm_share: the time of communication alone, as a share of the time of the case.
- limit_share: the longer of computation alone and communication alone, as a share of the time of
  the case, which does both.
- regret: how much slower a case is than the fastest case compared with the same case, over any
  backend, as a share of the fastest time. Components in isolation and unslowed cases do not count.
"""

Contest = tuple[str, int]
"""The work that cases do, and the number of ranks that do it."""
BACKEND = "comm_backend"
"""Label of cases that do the same work over backends of their own."""


def comparison_metrics(
    case: CaseRecord, cases: Sequence[CaseRecord], rivals_s: Sequence[float]
) -> dict[str, float | None]:
    """Compute all FIGURES of a measured case.

    Args:
        case: a measured case.
        cases: all cases of its job.
        rivals_s: medians in seconds of those in the same contest that were measured, itself
            included.

    Returns:
        The figures by name, None where they do not apply.
    """
    found: dict[str, float | None] = dict.fromkeys(COMPARISON_METRICS)
    baseline = measured_at(case.baseline, cases)
    if baseline is not None:
        more_work = (case.useful_flops or 1.0) / (baseline.useful_flops or 1.0)
        speedup = scaled(paired_speedup(baseline, case), more_work)
        found |= with_interval("paired_speedup", speedup)
        if case.ranks != baseline.ranks:
            found["scaling_efficiency"] = speedup[0] * baseline.num_ranks / case.num_ranks
    computation = measured_at(case.components.computation, cases)
    communication = measured_at(case.components.communication, cases)
    if communication is not None:
        found["comm_share"] = median_of(communication) / median_of(case)
    if communication is not None and computation is not None:
        found |= with_interval("overlap", paired_overlap(computation, communication, case))
        found["limit_share"] = max(median_of(computation), median_of(communication)) / median_of(
            case
        )
    if len(rivals_s) > 1:
        found["regret"] = median_of(case) / min(rivals_s) - 1
    return found


def measured_at(position: int | None, cases: Sequence[CaseRecord]) -> CaseRecord | None:
    """Return the case at a position where it was measured."""
    case = None if position is None else cases[position]
    return case if case is not None and case.status == "ok" else None


def contests(cases: Sequence[CaseRecord]) -> list[Contest | None]:
    """Return per case what is common to all cases that do the same work on the same ranks.

    These cases are compared with the same case, or with that case on their own backend.

    Returns:
        The work and the number of ranks; None for a case that nothing is compared with.
    """
    baselines = {case.baseline for case in cases}
    found: list[Contest | None] = []
    for position, case in enumerate(cases):
        aim = position if case.baseline is None else case.baseline
        no_rival = case.is_component or case.unslowed or not case.samples_s
        if aim not in baselines or no_rival:
            found.append(None)
            continue
        work = {name: value for name, value in cases[aim].labels.items() if name != BACKEND}
        found.append((str(work), case.num_ranks))
    return found


def with_interval(name: str, values: Estimate) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def scaled(values: Estimate, factor: float) -> Estimate:
    value, low, high = values
    return value * factor, low and low * factor, high and high * factor


def median_of(case: CaseRecord) -> float:
    return median(slowest_rank(case.samples))


Summary = Mapping[str, Any]
Formula = Callable[[CaseRecord, Summary], float | int | None]
"""Computes a figure from a case and its summary; None where it does not apply."""


@dataclass(frozen=True)
class Metric:
    """A column derived from a case and its summary.

    Attributes:
        name: of the column.
        unit: in which it is printed.
        formula: returns the figure in seconds, shares of 1, or in the unit that the name ends with.
        scale: from the figure to the printed unit; it is for printing only.
    """

    name: str
    unit: str
    formula: Formula
    scale: float = 1.0


def from_summary(name: str) -> Formula:
    return lambda case, summary: summary[name]


def from_details(name: str) -> Formula:
    return lambda case, summary: case.details.get(name)


def osu_mean(case: CaseRecord, summary: Summary) -> float | None:
    """Return the mean over iterations and ranks of calls that each follow a barrier.

    This is the mean that the OSU micro-benchmarks report.
    """
    return summary["osu_mean_s"] if case.calls_per_sample == 1 else None


def efficiency(case: CaseRecord, summary: Summary) -> float | None:
    """Return the ideal time, with all work spread over all speed, as a share of the median."""
    ideal_s = case.details.get(IDEAL_S)
    median_s = summary["median_s"]
    return ideal_s / median_s if ideal_s and median_s else None


def per_second(name: str) -> Formula:
    """Make the formula of a rate: what `details` counts per call, over the median."""

    def formula(case: CaseRecord, summary: Summary) -> float | None:
        count = from_details(name)(case, summary)
        median_s = summary["median_s"]
        return count / median_s if count and median_s else None

    return formula


def rate_of(flops: str) -> Formula:
    """Make the formula of floating-point operations per second; `flops` names their number."""
    return lambda case, summary: computing_rate(getattr(case, flops), summary["median_s"])


def bandwidth(formula: Callable[..., float | None]) -> Formula:
    """Make a metric of algorithm_bandwidth or bus_bandwidth."""
    return lambda case, summary: formula(case.payload_bytes, case.bus_factor, summary["median_s"])


def utilisation(flops: Formula) -> Formula:
    """Make the formula of operations per second over the peak rate that the case reports."""

    def formula(case: CaseRecord, summary: Summary) -> float | None:
        count = flops(case, summary)
        peak = from_details(PEAK_TFLOP_PER_S)(case, summary)
        median_s = summary["median_s"]
        return count / median_s / (peak * 1e12) if count and peak and median_s else None

    return formula


def backward_over_forward(case: CaseRecord, summary: Summary) -> float | None:
    """Return the time of backward as a multiple of that of forward, where both are regions."""
    spent = region_medians(case)
    forward_s, backward_s = spent.get(f"{FORWARD}_s"), spent.get(f"{BACKWARD}_s")
    return backward_s / forward_s if forward_s and backward_s is not None else None


def host_bound(case: CaseRecord, summary: Summary) -> float | None:
    """Return the time of queueing on the host as a multiple of the GPU's, where it is longer."""
    queueing_s = region_medians(case).get(f"{QUEUEING}_s")
    median_s = summary["median_s"]
    if not queueing_s or not median_s or queueing_s <= median_s:
        return None
    return float(queueing_s / median_s)


def region_medians(case: CaseRecord) -> dict[str, float]:
    """Return each region's median in seconds, over iterations, of the rank longest in it."""
    spent_in = case.regions_s.items()
    return {f"{name}_s": median(slowest_rank(spent)) for name, spent in spent_in}


METRICS = (
    *(Metric(name, "ms", from_summary(name), 1e3) for name in (
        "median_s", "ci_low_s", "ci_high_s", "min_s", "max_s", "mean_s", "std_s",
        "p25_s", "p95_s", "p99_s", "start_skew_s", "makespan_s",
    )),
    Metric("osu_mean_s", "ms", osu_mean, 1e3),
    Metric("rel_ci", "%", from_summary("rel_ci"), 100),
    *(Metric(name, "", from_summary(name), 1) if "speedup" in name
      else Metric(name, "%", from_summary(name), 100) for name in COMPARISON_METRICS),
    Metric("alone_s", "ms", from_summary("alone_s"), 1e3),
    *(Metric(name, "", from_summary(name)) for name in (*doubts.RATIO, *doubts.SPEEDUPS)),
    Metric("fresh_s", "ms", from_summary("fresh_s"), 1e3),
    Metric("reuse_ratio", "", from_summary("reuse_ratio")),
    Metric("predicted_s", "ms", from_details(PREDICTED_S), 1e3),
    Metric("ideal_s", "ms", from_details(IDEAL_S), 1e3),
    Metric("efficiency", "%", efficiency, 100),
    Metric("useful_tflop_per_s", "TFLOP/s", rate_of("useful_flops")),
    Metric("executed_tflop_per_s", "TFLOP/s", rate_of("executed_flops")),
    Metric("tokens_per_second", "", per_second(TOKENS_PER_CALL)),
    Metric("mfu_full", "%", utilisation(lambda case, _: case.useful_flops), 100),
    Metric("mfu_causal", "%", utilisation(from_details(CAUSAL_FLOPS)), 100),
    Metric("hfu_full", "%", utilisation(lambda case, _: case.executed_flops), 100),
    Metric("backward_over_forward", "", backward_over_forward),
    Metric("host_bound", "", host_bound),
    Metric("wire_bytes", "", lambda case, _: case.wire_bytes),
    Metric("payload_bytes", "", lambda case, _: case.payload_bytes),
    Metric("algbw_gb_per_s", "GB/s", bandwidth(algorithm_bandwidth)),
    Metric("busbw_gb_per_s", "GB/s", bandwidth(bus_bandwidth)),
    Metric("straggler_rank", "", from_summary("straggler_rank")),
    Metric("straggler_share", "%", from_summary("straggler_share"), 100),
    *(Metric(name, "", from_summary(name), 1) if "ratio" in name
      else Metric(name, "%", from_summary(name), 100) for name in doubts.NOISE_METRICS),
    Metric("first_call_s", "ms", from_summary("first_call_s"), 1e3),
    Metric("first_call_ratio", "", from_summary("first_call_ratio")),
    Metric("warm_from_call", "", from_summary("warm_from_call")),
    Metric("num_samples", "", from_summary("num_samples")),
    Metric("independent_samples", "", from_summary("independent_samples")),
)  # fmt: skip

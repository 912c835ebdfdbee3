"""The metrics of a case: the columns derived from it and its samples, with units and formulae.

A formula reads what a case of any suite may have (benchkit.api.case.Case), and knows no suite.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.records import comparisons, noise, turns
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
from benchkit.record.case import CaseRecord
from benchkit.statistics.quantiles import median
from benchkit.statistics.summary import (
    algorithm_bandwidth,
    bus_bandwidth,
    computing_rate,
    slowest_rank,
)

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
      else Metric(name, "%", from_summary(name), 100) for name in comparisons.FIGURES),
    Metric("alone_s", "ms", from_summary("alone_s"), 1e3),
    *(Metric(name, "", from_summary(name)) for name in (*turns.RATIO, *turns.SPEEDUPS)),
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
      else Metric(name, "%", from_summary(name), 100) for name in noise.FIGURES),
    Metric("first_call_s", "ms", from_summary("first_call_s"), 1e3),
    Metric("first_call_ratio", "", from_summary("first_call_ratio")),
    Metric("warm_from_call", "", from_summary("warm_from_call")),
    Metric("num_samples", "", from_summary("num_samples")),
    Metric("independent_samples", "", from_summary("independent_samples")),
)  # fmt: skip

"""Summaries of samples, and paired metrics of interleaved cases; times in seconds."""

from typing import NamedTuple

import numpy as np

from benchkit.statistics.intervals import (
    FEWEST_OF_ROUNDS,
    FEWEST_ROUNDS,
    FEWEST_SAMPLES,
    Array,
    correlation_length,
    median,
    ordered_interval,
    quantile,
    quartiles_or_range,
    rounds_interval,
    series_interval,
)
from benchkit.statistics.samples import Arrivals, Samples


class Summary(Arrivals):
    """The times of one case; None for a metric that does not exist."""

    median_s: float
    ci_low_s: float | None
    ci_high_s: float | None
    rel_ci: float | None
    range_low_s: float | None
    range_high_s: float | None
    min_s: float
    max_s: float
    mean_s: float
    std_s: float | None
    osu_mean_s: float
    p25_s: float
    p75_s: float
    p95_s: float
    p99_s: float
    num_samples: int
    independent_samples: int


def relative_half_width(interval: tuple[float, float] | None, centre: float) -> float | None:
    if interval is None or centre == 0:
        return None
    low, high = interval
    return (high - low) / 2 / centre


def summarize(samples: Samples) -> Summary:
    """Summarize one case.

    `median_s` and its interval are of the same times. Without an interval there is their range,
    see `quartiles_or_range`. `osu_mean_s` is the mean of all samples of all ranks, as the OSU
    micro-benchmarks print it. `independent_samples` is the effective sample size.
    """
    times = samples.times
    ordered, length = np.sort(times), correlation_length(times)
    interval = ordered_interval(ordered, length) if len(times) >= FEWEST_SAMPLES else None
    low, high = interval or (None, None)
    range_low, range_high = (None, None) if interval else quartiles_or_range(ordered)
    median_s = quantile(ordered, 0.5)
    return {
        "median_s": median_s,
        "ci_low_s": low,
        "ci_high_s": high,
        "rel_ci": relative_half_width(interval, median_s),
        "range_low_s": range_low,
        "range_high_s": range_high,
        "min_s": float(ordered[0]),
        "max_s": float(ordered[-1]),
        "mean_s": float(times.mean()),
        "std_s": float(times.std(ddof=1)) if len(times) > 1 else None,
        "osu_mean_s": float(samples.calls_s.mean()),
        "p25_s": quantile(ordered, 0.25),
        "p75_s": quantile(ordered, 0.75),
        "p95_s": quantile(ordered, 0.95),
        "p99_s": quantile(ordered, 0.99),
        "num_samples": len(times),
        "independent_samples": max(1, int(len(times) / length)),
        **samples.arrivals,
    }


def algorithm_bandwidth(
    payload_bytes: int | None, bus_factor: float | None, median_s: float | None
) -> float | None:
    """Return the payload over the median time in GB/s (10^9 bytes), not a mean of rates.

    `bus_factor` is None on one rank, which has no bandwidth.
    """
    if not payload_bytes or bus_factor is None or not median_s:
        return None
    return payload_bytes / median_s / 1e9


def bus_bandwidth(
    payload_bytes: int | None, bus_factor: float | None, median_s: float | None
) -> float | None:
    """Return the algorithm bandwidth times the collective's factor (nccl-tests) in GB/s."""
    algbw = algorithm_bandwidth(payload_bytes, bus_factor, median_s)
    return None if algbw is None or bus_factor is None else algbw * bus_factor


def computing_rate(flops: float | None, median_s: float | None) -> float | None:
    """Return operations over the median time in TFLOP/s (10^12)."""
    return flops / median_s / 1e12 if flops and median_s else None


class Estimate(NamedTuple):
    """A median over the rounds of interleaved cases.

    Attributes:
        low, high: 95 % interval in this run, or None.
        range_low, range_high: without an interval, `quartiles_or_range` of the rounds, else None.
        num_rounds: number of rounds with a block of each case.
    """

    value: float
    low: float | None
    high: float | None
    range_low: float | None
    range_high: float | None
    num_rounds: int

    def with_value(self, value: float) -> "Estimate":
        """Return another value with these bounds, extended to include it."""
        low, high, range_low, range_high = (
            bound and extreme(bound, value)
            for bound, extreme in zip(self[1:5], (min, max, min, max), strict=True)
        )
        return Estimate(value, low, high, range_low, range_high, self.num_rounds)

    def scaled(self, factor: float) -> "Estimate":
        low, high, range_low, range_high = (bound and bound * factor for bound in self[1:5])
        return Estimate(self.value * factor, low, high, range_low, range_high, self.num_rounds)


def paired_speedup(baseline: Samples, case: Samples) -> Estimate:
    """Return the speedup of a case over the baseline, another case of its job.

    It is the median over rounds of the ratio of both block medians, so a slow disturbance cancels.
    """
    reference, own_medians = align_rounds(baseline, case)
    ratios = reference / own_medians
    return summarize_rounds(ratios, rounds_interval(ratios))


def paired_overlap(compute: Samples, communicate: Samples, case: Samples) -> Estimate:
    """Return the share of the shorter component that is hidden behind the other.

    It is the median over rounds of (T_comp + T_comm - T) / min(T_comp, T_comm): 1 if the shorter
    component is hidden, below 0 if the components hinder each other. The shorter component is the
    one with the smaller median over all rounds; the minimum within each round would be biased low,
    and the overlap high. Few rounds have no interval: the sign test of equal cases does not apply.
    """
    computing, communicating, overlapped = align_rounds(compute, communicate, case)
    shorter = min(computing, communicating, key=median)
    hidden = (computing + communicating - overlapped) / shorter
    return summarize_rounds(hidden, series_interval(hidden, FEWEST_ROUNDS, FEWEST_OF_ROUNDS))


def align_rounds(*cases: Samples) -> list[Array]:
    """Return the block medians of each case, in the rounds of all cases: [round]."""
    medians_by_case = [case.block_medians for case in cases]
    num_rounds = min(map(len, medians_by_case))
    return [medians[:num_rounds] for medians in medians_by_case]


def summarize_rounds(round_values: Array, interval: tuple[float, float] | None) -> Estimate:
    """Return the median of values per round, [round], with its interval or its range."""
    low, high = interval or (None, None)
    range_low, range_high = (None, None) if interval else quartiles_or_range(np.sort(round_values))
    return Estimate(median(round_values), low, high, range_low, range_high, len(round_values))

"""From raw samples to the figures that are reported. Pure functions of arrays; all times in seconds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchkit.statistics.estimators import LAST_ARRIVAL, SLOWEST_RANK
from benchkit.statistics.intervals import FEWEST_ROUNDS, Array, correlation_length, series_interval


def slowest_rank(samples: Any) -> Array:
    """Max over ranks of each iteration: [rank][iteration] -> [iteration]. A collective is as slow as its slowest."""
    slowest: Array = np.asarray(samples, dtype=np.float64).max(axis=0)
    return slowest


def iteration_times(samples: Any, starts: Any, estimator: str = SLOWEST_RANK) -> Array:
    """One time per iteration, from samples and starts [rank][iteration] on one clock (None: not known).

    SLOWEST_RANK: the longest call of all ranks. LAST_ARRIVAL: from the last rank's start to the last
    rank's end, so that no rank's waiting for another to begin is counted; the slowest rank's call
    where starts are not known.
    """
    if estimator != LAST_ARRIVAL or starts is None:
        return slowest_rank(samples)
    began = np.asarray(starts, dtype=np.float64)
    return np.asarray((began + np.asarray(samples)).max(axis=0) - began.max(axis=0))


def round_medians(case: Mapping[str, Any]) -> Array:
    """The median of each block of samples, in which the cases of a job take turns."""
    times = slowest_rank(case["samples_s"])
    lengths = case.get("blocks") or [case["block_iterations"]] * (len(times) // case["block_iterations"])
    ends = np.cumsum(lengths, dtype=int)
    return np.array([np.median(block) for block in np.split(times[: ends[-1]], ends[:-1])] if len(ends) else [])


def relative_half_width(interval: tuple[float, float] | None, centre: float) -> float | None:
    """Half the width of an interval as a share of its centre; None where there is no interval."""
    return None if interval is None or centre == 0 else (interval[1] - interval[0]) / 2 / centre


Estimate = tuple[float, float | None, float | None]
"""A value and its 95 % interval, None where there are too few independent rounds."""


def paired_speedup(baseline: Mapping[str, Any], case: Mapping[str, Any]) -> Estimate:
    """How many times faster a case is than another of its job.

    The median of the ratios of their block medians, round by round: cases are timed in turns, so that
    what disturbs the machine for a while meets both.
    """
    reference, own = aligned(baseline, case)
    return estimated(reference / own)


def paired_overlap(compute: Mapping[str, Any], communicate: Mapping[str, Any], case: Mapping[str, Any]) -> Estimate:
    """(T_comp + T_comm - T) / min(T_comp, T_comm), 1 where the shorter is hidden, round by round.

    The shorter part is the one with the smaller median, in all rounds: the smaller of two noisy times
    would be too small, and the overlap too large. Below 0 the parts hinder each other.
    """
    computing, communicating, both = aligned(compute, communicate, case)
    shorter = min(computing, communicating, key=lambda medians: float(np.median(medians)))
    return estimated((computing + communicating - both) / shorter)


def aligned(*cases: Mapping[str, Any]) -> list[Array]:
    """The block medians of cases, in the rounds that all of them took part in."""
    medians = [round_medians(case) for case in cases]
    rounds = min(map(len, medians))
    return [each[:rounds] for each in medians]


def estimated(rounds: Array) -> Estimate:
    low, high = series_interval(rounds, FEWEST_ROUNDS) or (None, None)
    return float(np.median(rounds)), low, high


def summarize(
    samples: Any, start_offsets: Any, estimator: str = SLOWEST_RANK
) -> dict[str, float | int | None]:  # fmt: skip
    """Every figure of one case from samples and start offsets [rank][iteration] (None: not known).

    median_s and its interval are of the same times. osu_mean_s: the mean of all samples of all ranks,
    which is what the OSU micro-benchmarks print. independent_samples: how many independent samples
    the times are worth.
    """
    samples = np.asarray(samples, dtype=np.float64)
    times = iteration_times(samples, start_offsets, estimator)
    low, high = series_interval(times) or (None, None)
    quartile, median, p95, p99 = (float(q) for q in np.percentile(times, [25, 50, 95, 99]))
    interval = None if low is None or high is None else (low, high)
    summary: dict[str, float | int | None] = {
        "median_s": median,
        "ci_low_s": low,
        "ci_high_s": high,
        "rel_ci": relative_half_width(interval, median),
        "min_s": float(times.min()),
        "max_s": float(times.max()),
        "mean_s": float(times.mean()),
        "std_s": float(times.std(ddof=1)) if len(times) > 1 else None,
        "osu_mean_s": float(samples.mean()),
        "p25_s": quartile,
        "p95_s": p95,
        "p99_s": p99,
        "num_samples": len(times),
        "independent_samples": max(1, int(len(times) / correlation_length(times))),
        "start_skew_s": None,
        "makespan_s": None,
        "straggler_rank": None,
        "straggler_share": None,
    }
    return summary if start_offsets is None else summary | arrival_summary(samples, start_offsets)


def algorithm_bandwidth(case: Mapping[str, Any], summary: Mapping[str, Any]) -> float | None:
    """GB/s (10^9 bytes): payload over the median time, never a mean of rates; None on one rank."""
    if not case.get("payload_bytes") or case.get("bus_factor") is None or not summary["median_s"]:
        return None
    return float(case["payload_bytes"] / summary["median_s"] / 1e9)


def computing_rate(case: Mapping[str, Any], summary: Mapping[str, Any], what: str = "useful_flops") -> float | None:
    """TFLOP/s (10^12 operations) of the useful, or executed, work at the median time; None where nothing is counted."""
    if not case.get(what) or not summary["median_s"]:
        return None
    return float(case[what] / summary["median_s"] / 1e12)


def bus_bandwidth(case: Mapping[str, Any], summary: Mapping[str, Any]) -> float | None:
    """GB/s of nccl-tests' convention: algorithm bandwidth times the collective's factor; None on one rank."""
    algbw = algorithm_bandwidth(case, summary)
    return None if algbw is None else algbw * float(case["bus_factor"])


def arrival_summary(samples: Array, start_offsets: Any) -> dict[str, float | int | None]:
    """Figures that need the ranks' starts on one clock.

    start_skew_s: median of last minus first start. makespan_s: median of last end minus last start. straggler_rank:
    the rank that ended last most often, and straggler_share how often (1 / ranks where none stands out); an
    iteration in which several ended together has no straggler.
    """
    starts = np.asarray(start_offsets, dtype=np.float64)
    ends, last = starts + samples, last_shares(samples, starts)
    straggler = int(last.argmax()) if len(samples) > 1 and last.any() else None
    return {
        "start_skew_s": float(np.median(starts.max(axis=0) - starts.min(axis=0))),
        "makespan_s": float(np.median(ends.max(axis=0) - starts.max(axis=0))),
        "straggler_rank": straggler,
        "straggler_share": None if straggler is None else float(last[straggler]),
    }


def last_shares(samples: Array, starts: Array) -> Array:
    """Per rank the share of iterations in which it alone ended last; of samples and starts [rank][iteration]."""
    ends = starts + samples
    alone = (ends == ends.max(axis=0)).sum(axis=0) == 1
    counts = np.bincount(ends.argmax(axis=0)[alone], minlength=len(samples))
    return np.asarray(counts / samples.shape[1])

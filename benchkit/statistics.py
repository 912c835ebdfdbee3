"""From raw samples to the figures that are reported. Pure functions of arrays; all times in seconds.

The unit of inference is the median of a block of samples, not the sample: neighbouring samples are correlated, and
tests on raw samples call identical code different in most runs.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CONFIDENCE = 0.95


def slowest_rank(samples: Any) -> Array:
    """Max over ranks of each iteration: [rank][iteration] -> [iteration]. A collective is as slow as its slowest."""
    slowest: Array = np.asarray(samples, dtype=np.float64).max(axis=0)
    return slowest


def block_medians(times: Array, block: int) -> Array:
    """The median of each whole block of `block` consecutive times; a shorter rest is left out."""
    whole = len(times) // block * block
    return np.asarray(np.median(times[:whole].reshape(-1, block), axis=1))


def median_interval(values: Array) -> tuple[float, float] | None:
    """Order-statistic confidence interval of the median at CONFIDENCE, or None with fewer than 6 values.

    The k-th smallest and k-th largest, with the largest k for which the binomial tail P(X < k), X ~ B(n, 1/2),
    is at most (1 - CONFIDENCE) / 2 (Conover, Practical Nonparametric Statistics, section 3.2). Assumes no distribution.
    """
    n = len(values)
    tail, k = 0.0, 0
    while (tail := tail + math.exp(log_binomial(n, k) - n * math.log(2))) <= (1 - CONFIDENCE) / 2:
        k += 1
    if k == 0:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


def log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def relative_half_width(medians: Array) -> float | None:
    """Half-width of the interval of the median of block medians, as a share of it; None where there is no interval."""
    interval, centre = median_interval(medians), float(np.median(medians)) if len(medians) else 0.0
    return None if interval is None or centre == 0 else (interval[1] - interval[0]) / 2 / centre


def paired_speedup(baseline: Mapping[str, Any], case: Mapping[str, Any]) -> tuple[float, float | None, float | None]:
    """How many times faster a case is than another of its job, and the 95 % interval (None with too few blocks).

    The median of the ratios of their block medians, block by block: cases are timed in turns, so that what disturbs
    the machine for a while meets both.
    """
    medians = [block_medians(slowest_rank(each["samples_s"]), each["block_iterations"]) for each in (baseline, case)]
    rounds = min(map(len, medians))
    ratios = medians[0][:rounds] / medians[1][:rounds]
    low, high = median_interval(ratios) or (None, None)
    return float(np.median(ratios)), low, high


def paired_overlap(
    compute: Mapping[str, Any], communicate: Mapping[str, Any], case: Mapping[str, Any]
) -> tuple[float, float | None, float | None]:
    """(T_comp + T_comm - T) / min(T_comp, T_comm), 1 where the shorter is hidden, with its 95 % interval, by block.

    Below 0 the parts hinder each other.
    """
    medians = [
        block_medians(slowest_rank(each["samples_s"]), each["block_iterations"])
        for each in (compute, communicate, case)
    ]
    rounds = min(map(len, medians))
    computing, communicating, both = (each[:rounds] for each in medians)
    shares = (computing + communicating - both) / np.minimum(computing, communicating)
    low, high = median_interval(shares) or (None, None)
    return float(np.median(shares)), low, high


def summarize(samples: Any, start_offsets: Any, block: int) -> dict[str, float | int | None]:
    """Every figure of one case from samples[rank][iteration] and start_offsets[rank][iteration] (or None)."""
    samples = np.asarray(samples, dtype=np.float64)
    times = samples.max(axis=0)
    medians = block_medians(times, block)
    interval = median_interval(medians)
    low, median, p95, p99, mean = (
        float(times.min()), *(float(q) for q in np.percentile(times, [50, 95, 99])), float(times.mean())
    )  # fmt: skip
    summary: dict[str, float | int | None] = {
        "median_s": median,
        "ci_low_s": interval[0] if interval else None,
        "ci_high_s": interval[1] if interval else None,
        "rel_ci": relative_half_width(medians),
        "min_s": low,
        "max_s": float(times.max()),
        "mean_s": mean,
        "std_s": float(times.std(ddof=1)) if len(times) > 1 else None,
        "p95_s": p95,
        "p99_s": p99,
        "num_samples": len(times),
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

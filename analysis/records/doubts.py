"""What makes a figure doubtful: impossible values, noise, disturbances, turns and reused ranks.

No other module judges whether a figure is possible.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from math import inf

import numpy as np

from analysis.records.metrics import CaseMetrics
from benchkit.api.case import MEASURED_PEAK, PEAK_FROM
from benchkit.record.record import CLOCK_REASONS, FIRST_CALLS, THROTTLE_REASONS, CaseRecord, Record
from benchkit.statistics.intervals import find_modes, median, medians, quartiles_or_range
from benchkit.statistics.samples import Samples

UTILISATIONS = ("mfu_full", "mfu_causal", "hfu_full")
WIDEST = 1.0
"""Half-width of an interval, as a share of the median. Beyond it the median is hardly known."""
ROUNDING = 1e-9
"""Tolerance of shares, which are quotients: exactly 100 % is possible."""


def doubt_of(figures: CaseMetrics, case: CaseRecord, record: Record) -> str | None:
    """Describe the impossible figures of a case and their likely causes.

    Args:
        figures: metrics by name; shares are fractions of 1, and None where they do not apply.
    """
    found = [*clock_doubts(case), *wall_clock(record), *impossible_metrics(figures, case.details)]
    return "; ".join(found) or None


COARSE_FROM = 5
"""So many samples of a clock that tells nanoseconds are never all alike. GPUs' events tick in
microseconds."""
DISAGREE = 1.1
"""Calls that take longer than this multiple of the time in which they were made are impossible.
That they take less of it is no sign: resets and barriers may take most of it."""


def clock_doubts(case: CaseRecord) -> Iterator[str]:
    """Yield why the samples of a case cannot be times of calls."""
    samples = case.samples
    calls_s, number = samples.calls_s, len(samples.times)
    spent_s = float(calls_s.sum(axis=1).max()) * samples.calls_per_sample
    if not median(calls_s.max(axis=0)):
        yield "median 0 s: the clock stood still"
    elif (
        case.start_offsets_s is not None and number >= COARSE_FROM and not np.ptp(calls_s, 1).any()
    ):
        yield f"all {number} samples alike: the clock is too coarse"
    if case.elapsed_s and spent_s > DISAGREE * case.elapsed_s:
        yield f"calls of {spent_s:.3g} s in {case.elapsed_s:.3g} s: two clocks disagree"


def wall_clock(record: Record) -> Iterator[str]:
    with contextlib.suppress(ValueError, TypeError):  # no time, or one with a zone and one without
        began, ended = map(datetime.fromisoformat, (record.started_at, record.finished_at or ""))
        if ended < began:
            yield "finished before it started: the host's clock was set back"


def impossible_metrics(figures: CaseMetrics, details: Mapping[str, object]) -> Iterator[str]:
    if above := shares_above_one(figures, UTILISATIONS):
        why = "the peak is too low"
        if details.get(PEAK_FROM) == MEASURED_PEAK:
            why = "the peak was measured beside it, on a busy machine"
        yield f"{above}: {why}"
    if above := shares_above_one(figures, ("efficiency",)):
        why = "the ideal is of a busy machine, or the cost model is wrong"
        yield f"{above}: {why}"
    scaling, low = figures.get("scaling_efficiency"), figures.get("paired_speedup_low")
    if (
        scaling
        and low
        and low * scaling > metric_or(figures, "paired_speedup", inf) * (1 + ROUNDING)
    ):
        why = "the base was disturbed, or caches hold the parts"
        yield f"scaling_efficiency {percent(scaling)}: {why}"
    if above := shares_above_one(figures, ("limit_share", "comm_share")):
        why = "a part alone took longer: disturbed, or faster within"
        yield f"{above}: {why}"
    overlap = figures.get("overlap")
    if overlap is not None:
        low, high = (metric_or(figures, f"overlap_{end}", overlap) for end in ("low", "high"))
        if low > 1 + ROUNDING:
            why = "more than the shorter part hidden: the parts were disturbed"
            yield f"overlap {percent(overlap)}: {why}"
        if high < -1 - ROUNDING:
            why = "slower than both parts in turn: disturbed, or they collide"
            yield f"overlap {percent(overlap)}: {why}"
    if metric_or(figures, "rel_ci", 0.0) > WIDEST:
        why = "the median is hardly known; take more samples, or a quieter machine"
        yield f"rel_ci ±{percent(metric_or(figures, 'rel_ci', 0.0))}: {why}"


def shares_above_one(figures: CaseMetrics, names: tuple[str, ...]) -> str:
    """List the shares above 1: "mfu_full 100.1 %"; "" where there is none."""
    above = [name for name in names if metric_or(figures, name, 0.0) > 1 + ROUNDING]
    return ", ".join(f"{name} {percent(metric_or(figures, name, 0.0))}" for name in above)


def metric_or(figures: CaseMetrics, name: str, otherwise: float) -> float:
    found = figures.get(name)
    return otherwise if found is None else float(found)


def percent(share: float) -> str:
    return f"{100 * share:.4g} %"


SPIKE = 5.0
"""A spike is a sample of a rank beyond this multiple of the rank's median."""


def noise_metrics(samples: Samples) -> dict[str, float | None]:
    """Compute what a case's samples say of noise.

    Returns:
        spikes_all_share: share of iterations in which every rank had a spike: the machine was busy.
        spikes_some_share: share of iterations in which some ranks had a spike, but not all.
        slow_mode_ratio: slower mode over faster one; None where the times have one mode.
        slow_mode_share: share of the slower iterations; None as above.
    """
    spikes = samples.calls_s > SPIKE * medians(samples.calls_s)[:, None]
    everywhere, anywhere, count = spikes.all(axis=0), spikes.any(axis=0), spikes.shape[1]
    modes = find_modes(samples.times)
    return {
        "spikes_all_share": int(everywhere.sum()) / count,
        "spikes_some_share": int((anywhere & ~everywhere).sum()) / count,
        "slow_mode_ratio": modes.slow_s / modes.fast_s if modes else None,
        "slow_mode_share": modes.slow_share if modes else None,
    }


LIMITS = {
    "steal_s": (0.01, "other machines of the host took {:.1%} of a core"),
    "throttled_s": (0.01, "held back by a CPU quota for {:.1%} of the time"),
    "others_s": (0.1, "other processes used {:.0%} of a core"),
}
"""By counter: the share of the measuring time beyond which it is reported, and the words for it.
The time that tasks wait for a core is recorded (`pressure_s`) but not reported, because the ranks'
own threads wait too."""
BY_OTHERS = tuple(LIMITS[name][1].partition("{")[0] for name in ("steal_s", "others_s"))
"""Begin the words for what something else took than the ranks or their quota."""
MOST_FALLEN = 0.9
"""A lowest frequency below this share of the highest is reported."""
LEAST_S = 0.05
"""Less than this is never reported, because the kernel counts in ticks of a hundredth of a second.
"""


def describe_disturbance(case: CaseRecord, slowed_by: str = "", num_hosts: int = 1) -> str:
    """Describe what disturbed the most disturbed rank; "" for nothing, or if nothing was counted.

    Args:
        slowed_by: the mechanism that slows ranks down; its quota is no disturbance.
        num_hosts: of the job. What other processes did is known only where ranks share one host.
    """
    elapsed_s, counted = case.elapsed_s, case.disturbance
    if not elapsed_s or not counted:
        return ""
    taken = {name: max(counted.get(name, [0.0])) for name in ("steal_s", "throttled_s")}
    if "cgroup" in slowed_by:
        del taken["throttled_s"]
    if num_hosts == 1 and "host_busy_s" in counted:
        taken["others_s"] = max(counted["host_busy_s"]) - sum(counted.get("own_busy_s", ()))
    found = [
        words.format(taken[name] / elapsed_s)
        for name, (limit, words) in LIMITS.items()
        if taken.get(name, 0.0) > max(LEAST_S, limit * elapsed_s)
    ]
    # An edited record may lack one of both.
    ranges = zip(counted.get("lowest_ghz", ()), counted.get("highest_ghz", ()), strict=False)
    lowest, highest = min(
        ranges,
        key=lambda ghz: ghz[0] - MOST_FALLEN * ghz[1],
        default=(0.0, 0.0),
    )
    if lowest < MOST_FALLEN * highest:
        found.append(f"a core's frequency was between {lowest:.2f} and {highest:.2f} GHz")
    return "; ".join([*found, *describe_throttling(case)])


def is_by_others(disturbed: str | None) -> bool:
    """Return whether what `describe` returned tells of other processes or machines."""
    return bool(disturbed) and any(words in str(disturbed) for words in BY_OTHERS)


def describe_throttling(case: CaseRecord) -> list[str]:
    """Return what held the clocks of any rank's GPU back."""
    reasons = [int(bits) for bits in case.disturbance.get(CLOCK_REASONS, ())]
    found = [name for bit, name in THROTTLE_REASONS.items() if any(bits & bit for bits in reasons)]
    return [f"a GPU's clocks were held back: {', '.join(found)}"] if found else []


FEWEST = 4
"""Samples from which on the later half tells what a warm call takes."""
NEAR = 1.1
"""A call within this multiple of the warm calls counts as warm."""


def first_call_metrics(case: CaseRecord, mode: str) -> dict[str, float | int]:
    """Compute what the first call of a case costs.

    Empty with too few samples, and in other modes, where verification has called before.

    Returns:
        first_call_s: the time of the first call, in seconds.
        warm_s: the median of the later half of all calls, in seconds.
        warm_range_low_s, warm_range_high_s: how much these differ, see `spread`.
        first_call_ratio: the time of the first call over that.
        warm_from_call: the first call, from 1, that takes at most NEAR times that median.
    """
    iterations = case.samples.times
    if mode != FIRST_CALLS or case.warmup_s or len(iterations) < FEWEST:
        return {}
    later = np.sort(iterations[len(iterations) // 2 :])
    warm_s, (low_s, high_s) = median(later), quartiles_or_range(later)
    is_warm = iterations <= NEAR * warm_s
    return {
        "first_call_s": float(iterations[0]),
        "warm_s": warm_s,
        "warm_range_low_s": low_s,
        "warm_range_high_s": high_s,
        "first_call_ratio": float(iterations[0] / warm_s),
        "warm_from_call": int(is_warm.argmax()) + 1,
    }


def log_halves(runs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the logarithms of the medians of the first and of the second half, in order of time.

    Args:
        runs: [run][iteration], in seconds. Of several runs the halves are whole runs.
    """
    if len(runs) > 1:
        middle = len(runs) // 2
        halves = [list(chain(*part)) for part in (runs[:middle], runs[middle:])]
    else:
        middle = max(1, len(runs[0]) // 2)
        halves = [list(runs[0][:middle]), list(runs[0][middle:]) or list(runs[0])]
    first, second = (math.log(max(float(np.median(half)), 1e-9)) for half in halves)
    return first, second


def interleaving_metrics(
    case: CaseRecord, record: Record, median_s: float | None
) -> dict[str, float | None]:
    """Compute how much turns changed a case.

    Within one record there is no interval: each median is of one run of ranks, and runs differ by
    more than the samples within them. `analysis.table.repetitions` takes it over runs.

    Returns:
        alone_s: median time alone; None where it was not timed alone.
        turns_ratio: median of interleaved samples over `alone_s`; above 1 where interleaving
            costs time.
        alone_speedup: rate of useful work over the baseline's, each alone; None where one was not
            timed alone.
    """
    alone_s = median_of_same_case(record.alone, case)
    found = {"alone_s": alone_s}
    if median_s and alone_s:
        found["turns_ratio"] = median_s / alone_s
    if case.baseline is not None and alone_s:
        baseline = record.cases[case.baseline]
        more_work = (case.useful_flops or 1.0) / (baseline.useful_flops or 1.0)
        baseline_s = median_of_same_case(record.alone, baseline)
        found["alone_speedup"] = baseline_s and more_work * baseline_s / alone_s
    return found


def median_of_same_case(cases: Sequence[CaseRecord], case: CaseRecord) -> float | None:
    """Return the median time in seconds of the case of equal labels among cases of other ranks.

    None where it is judged by another estimator, for a clock that was known better or worse.
    """
    for other in cases:
        if other.labels == case.labels and other.samples_s:
            if other.samples.estimator != case.samples.estimator:
                return None
            return median(other.samples.times)
    return None


def reuse_metrics(
    case: CaseRecord, record: Record, median_s: float | None
) -> dict[str, float | None]:
    """Compute how much the earlier points of its ranks changed a case.

    Returns:
        fresh_s: median time in fresh ranks; None where it was not measured in fresh ones, too.
        reuse_ratio: the median over `fresh_s`.
    """
    fresh_s = median_of_same_case(record.fresh, case)
    return {"fresh_s": fresh_s, "reuse_ratio": median_s and fresh_s and median_s / fresh_s}


def held_bytes(record: Record) -> int | None:
    """Return the memory that all ranks held when the point began, on hosts and GPUs together."""
    use = record.rank_use
    return sum(use.host_bytes) + sum(use.device_bytes) if use else None

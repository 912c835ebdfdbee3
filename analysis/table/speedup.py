"""How many times as fast one variant of a problem is as another, and what is judged of that.

The speedup is the quotient of the two medians, so that it can be checked by the times beside it.
What is claimed of it follows from how both were measured: interleaved in the rounds of one job, in
several runs, or apart, where nothing is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.records.results import Row
from benchkit.statistics.intervals import (
    ALPHA,
    Array,
    fewest_values,
    median,
    median_interval,
    quartiles_or_range,
    rounds_interval,
)
from benchkit.statistics.judgement import (
    AHEAD,
    BEHIND,
    NOT_JUDGED,
    TIED,
    UNCLEAR,
    bonferroni_alpha,
    judge_speedup,
)


@dataclass(frozen=True)
class CaseTimes:
    """A case in one job: its time in seconds, and the medians of its rounds: [round]."""

    seconds: float
    rounds: Array


Jobs = Mapping[str, Mapping[str, CaseTimes]]
"""By run and, within it, by job, which is the path of its record."""


@dataclass(frozen=True)
class Speedup:
    """How many times as fast a variant is as another one.

    Attributes:
        reference: the other one.
        value: the quotient of their medians, times that of their useful work.
        times_s: these medians: of the variant and of the other one, in the runs that have both.
        low, high: the ends of its interval, or of its range; None where neither is known.
        basis: what it is of: "11 rounds", "6 runs", or "".
        why_not_judged: why nothing is judged by it; "" where low and high are those of an interval.
    """

    reference: "Variant"
    value: float
    times_s: tuple[float, float]
    low: float | None = None
    high: float | None = None
    basis: str = ""
    why_not_judged: str = ""

    @property
    def interval_or_range(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def is_interval(self) -> bool:
        return not self.why_not_judged

    @property
    def is_within_run(self) -> bool:
        return not self.basis.endswith("runs")

    @property
    def judgement(self) -> str:
        return (
            NOT_JUDGED
            if self.why_not_judged or not self.interval_or_range
            else judge_speedup(*self.interval_or_range)
        )


@dataclass(frozen=True)
class Variant:
    """A variant of one problem.

    Attributes:
        row: its cells in the combined table, pooled over its runs.
        problem_number: number of its problem; equal problems have equal numbers.
        name: what tells it apart from the other variants, in words.
        is_baseline: whether the others of its problem are compared with it.
        is_focus: whether the answer is about it, where the question says so.
        is_bound: whether it shows what can be reached, and does not compete, also as a baseline.
        is_oversubscribed: whether its ranks have more threads than cores.
        times_by_run: its times.
        speedup: over the baseline; None for the baseline, and where there is none.
    """

    row: Row
    problem_number: int
    name: str
    is_baseline: bool = False
    is_focus: bool = False
    is_bound: bool = False
    is_oversubscribed: bool = False
    times_by_run: Jobs = field(default_factory=dict)
    speedup: Speedup | None = None

    @property
    def is_candidate(self) -> bool:
        return not self.is_bound and (self.is_baseline or self.speedup is not None)

    @property
    def relative_time(self) -> float:
        """What variants of a problem are ranked by: the time per useful work."""
        return 1 / self.speedup.value if self.speedup else 1.0


NO_ROUNDS, NO_SHARED_RUN = "measured apart, not in rounds", "no run has both"


def speedup_over(variant: Variant, other: Variant, alpha: float = ALPHA) -> Speedup | None:
    """Return how many times as fast a variant is as another one, by the runs that have both.

    Args:
        alpha: error rate of the interval.

    Returns:
        None where a time is missing, and where the runs of one sweep have one or the other.
    """
    work = [each.row["useful_tflop_per_s"] * each.row["median_s"] for each in (variant, other)]
    work_ratio = work[0] / work[1] if all(each > 0 for each in work) else 1.0
    runs = [run for run in variant.times_by_run if run in other.times_by_run]
    if not runs and has_common_sweep(variant, other):
        return None  # what kept the other one from being measured may have changed this one
    pairs = [run_medians(variant.times_by_run[run], other.times_by_run[run]) for run in runs] or [
        (median_over_runs(variant.times_by_run), median_over_runs(other.times_by_run))
    ]
    own_s, other_s = np.array(pairs).T
    times_s = median(own_s), median(other_s)
    if not min(times_s) > 0:
        return None
    value = work_ratio * times_s[1] / times_s[0]
    found = Speedup(other, value, times_s)
    if not runs:
        return replace(found, why_not_judged=NO_SHARED_RUN)
    if len(runs) > 1:
        return add_interval(found, work_ratio * other_s / own_s, "runs", alpha)
    variant_jobs, other_jobs = variant.times_by_run[runs[0]], other.times_by_run[runs[0]]
    jobs = [job for job in variant_jobs if job in other_jobs]
    if len(jobs) > 1:
        ratios = np.array([other_jobs[job].seconds / variant_jobs[job].seconds for job in jobs])
        return add_interval(found, work_ratio * ratios, "jobs of one run", alpha)
    num_rounds = (
        min(len(variant_jobs[jobs[0]].rounds), len(other_jobs[jobs[0]].rounds)) if jobs else 0
    )
    if not num_rounds:
        return replace(found, why_not_judged=NO_ROUNDS)
    ratios = other_jobs[jobs[0]].rounds[:num_rounds] / variant_jobs[jobs[0]].rounds[:num_rounds]
    return add_interval(found, work_ratio * ratios, "rounds", alpha)


def add_interval(found: Speedup, ratios: Array, unit: str, alpha: float) -> Speedup:
    """Return a speedup with the interval of some ratios or, where nothing is judged, their range.

    The ends are extended to the value, if need be.
    """
    n, fewest = len(ratios), fewest_values(alpha)
    in_runs = unit == "runs"
    if not (np.isfinite(ratios).all() and (ratios > 0).all()):
        return replace(found, why_not_judged="a time is zero")
    basis = f"{n} {unit.removesuffix('s') if n == 1 else unit}"
    interval, reason = None, ""
    if unit in ("runs", "rounds"):
        interval = median_interval(ratios, alpha) if in_runs else rounds_interval(ratios, alpha)
        if interval is None:
            reason = f"{n} of the {fewest} {unit} that a claim needs"
    else:
        reason = f"{basis}: no rounds"
    ordered = np.sort(ratios)
    low, high = interval or ((ordered[0], ordered[-1]) if in_runs else quartiles_or_range(ordered))
    low, high = min(float(low), found.value), max(float(high), found.value)
    return replace(found, low=low, high=high, basis=basis, why_not_judged=reason)


def run_medians(
    own: Mapping[str, CaseTimes], other: Mapping[str, CaseTimes]
) -> tuple[float, float]:
    """Return the times of two variants in one run: of the jobs that have both, if any.

    What several jobs do to a baseline, such as other ranks beside it, is no part of a speedup.
    """
    jobs = [job for job in own if job in other]
    found = (
        median([timed.seconds for job, timed in each.items() if not jobs or job in jobs])
        for each in (own, other)
    )
    first, second = found
    return first, second


def median_over_runs(jobs: Jobs) -> float:
    return median([median([timed.seconds for timed in run.values()]) for run in jobs.values()])


def has_common_sweep(variant: Variant, other: Variant) -> bool:
    own, base = ({run.partition("#")[0] for run in each.times_by_run} for each in (variant, other))
    return not own.isdisjoint(base)


def add_speedups(variants: Sequence[Variant]) -> Iterator[Variant]:
    """Yield the variants of a problem with their speedups over its baseline, if it has one.

    A component has none: it does a part of the work, so that its time says more.
    """
    base = next((variant for variant in variants if variant.is_baseline), None)
    alpha = bonferroni_alpha(sum(not variant.is_bound for variant in variants) - 1)
    for variant in variants:
        is_compared = variant is not base and variant.row.get("is_component") is not True
        found = speedup_over(variant, base, alpha) if base and is_compared else None
        yield replace(variant, speedup=found) if found else variant


@dataclass(frozen=True)
class Standing:
    """The fastest variant of a problem, and what is judged of it against the others.

    Attributes:
        judgements: of the first variant over each of the others, in the order of these.
        reason: why none of them is judged; "" where some are.
    """

    fastest: Variant
    judgements: Sequence[tuple[Variant, str]]
    reason: str = ""

    @property
    def is_ahead_of_all(self) -> bool:
        return bool(self.judgements) and all(word == AHEAD for _, word in self.judgements)

    def names_judged(self, judgement: str) -> list[str]:
        return [variant.name for variant, word in self.judgements if word == judgement]

    @property
    def leaders(self) -> set[str]:
        """The first variant, and those that it is tied or unclear with, if it is ahead of some."""
        if len(self.judgements) < 2 or not self.names_judged(AHEAD):
            return set()
        return {self.fastest.name, *self.names_judged(TIED), *self.names_judged(UNCLEAR)}


OPPOSITE = {AHEAD: BEHIND, BEHIND: AHEAD}


def judge_fastest(variants: Sequence[Variant]) -> Standing | None:
    """Judge the fastest of the variants that compete against the others; None without any.

    The baseline is judged as its speedups are. Any other pair might have been that of the fastest
    variant and another one.
    """
    competing = [variant for variant in variants if variant.is_candidate]
    if not competing:
        return None
    first = min(competing, key=lambda variant: variant.relative_time)
    alpha = bonferroni_alpha(len(competing) * (len(competing) - 1) // 2)
    judgements, reasons = [], []
    for other in competing:
        if other is first:
            continue
        if first.is_baseline:
            found = other.speedup
        else:
            found = first.speedup if other.is_baseline else speedup_over(first, other, alpha)
        word = found.judgement if found else NOT_JUDGED
        judgements.append((other, OPPOSITE.get(word, word) if first.is_baseline else word))
        reasons.append(found.why_not_judged if found else NO_SHARED_RUN)
    return Standing(first, judgements, reasons[0] if all(reasons) and reasons else "")

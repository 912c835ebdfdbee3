"""Speedup of one variant of a problem over another, and its judgement.

The speedup is the ratio of the two medians, so that it can be checked by the times beside it. Its
interval comes from the rounds of one job, or from several runs. Without either there is no
judgement.
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
        reference: the variant compared with.
        value: the ratio of their medians, times that of their useful work.
        times_s: medians of the variant and of the reference, in the runs that have both.
        low, high: bounds of its interval, or of its range; None without either.
        basis: sample of the interval, such as "11 rounds" or "6 runs"; "" without one.
        why_not_judged: why it has no judgement; "" where low and high are an interval.
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
        name: its factors, in words.
        is_baseline: whether the others of its problem are compared with it.
        is_focus: whether the answer is about it, where the question says so.
        is_bound: whether it cannot be beaten, and does not compete, also as a baseline.
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
        """Time per useful work, over that of the baseline; variants are ranked by it."""
        return 1 / self.speedup.value if self.speedup else 1.0


NO_ROUNDS, NO_SHARED_RUN = "measured apart, not in rounds", "no run has both"


def speedup_over(variant: Variant, other: Variant, alpha: float = ALPHA) -> Speedup | None:
    """Return how many times as fast a variant is as another one, by the runs that have both.

    Args:
        alpha: error rate of the interval.

    Returns:
        None where a time is missing, or where no run of their common sweep has both.
    """
    rows = variant.row, other.row
    work = [row["useful_tflop_per_s"] * row["median_s"] for row in rows]
    work_ratio = work[0] / work[1] if all(amount > 0 for amount in work) else 1.0
    runs = [run for run in variant.times_by_run if run in other.times_by_run]
    if not runs and has_common_sweep(variant, other):
        return None  # the cause of the missing run may have affected this variant, too
    pairs = [run_medians(variant.times_by_run[run], other.times_by_run[run]) for run in runs] or [
        (median_over_runs(variant.times_by_run), median_over_runs(other.times_by_run))
    ]
    variant_s, other_s = np.array(pairs).T
    times_s = median(variant_s), median(other_s)
    if not min(times_s) > 0:
        return None
    value = work_ratio * times_s[1] / times_s[0]
    speedup = Speedup(other, value, times_s)
    if not runs:
        return replace(speedup, why_not_judged=NO_SHARED_RUN)
    if len(runs) > 1:
        return add_interval(speedup, work_ratio * other_s / variant_s, "runs", alpha)
    variant_jobs, other_jobs = variant.times_by_run[runs[0]], other.times_by_run[runs[0]]
    jobs = [job for job in variant_jobs if job in other_jobs]
    if len(jobs) > 1:
        ratios = np.array([other_jobs[job].seconds / variant_jobs[job].seconds for job in jobs])
        return add_interval(speedup, work_ratio * ratios, "jobs of one run", alpha)
    num_rounds = (
        min(len(variant_jobs[jobs[0]].rounds), len(other_jobs[jobs[0]].rounds)) if jobs else 0
    )
    if not num_rounds:
        return replace(speedup, why_not_judged=NO_ROUNDS)
    ratios = other_jobs[jobs[0]].rounds[:num_rounds] / variant_jobs[jobs[0]].rounds[:num_rounds]
    return add_interval(speedup, work_ratio * ratios, "rounds", alpha)


def add_interval(speedup: Speedup, ratios: Array, unit: str, alpha: float) -> Speedup:
    """Add the interval of some ratios to a speedup or, without a judgement, their range.

    The bounds are extended to include the value.
    """
    n, fewest = len(ratios), fewest_values(alpha)
    in_runs = unit == "runs"
    if not (np.isfinite(ratios).all() and (ratios > 0).all()):
        return replace(speedup, why_not_judged="a time is zero")
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
    low, high = min(float(low), speedup.value), max(float(high), speedup.value)
    return replace(speedup, low=low, high=high, basis=basis, why_not_judged=reason)


def run_medians(
    first_jobs: Mapping[str, CaseTimes], second_jobs: Mapping[str, CaseTimes]
) -> tuple[float, float]:
    """Return the median times of two variants in one run.

    If any job of the run has both variants, the others are ignored, so that differences between
    jobs do not enter the speedup.
    """
    jobs = [job for job in first_jobs if job in second_jobs]
    first_s, second_s = (
        median([case.seconds for job, case in jobs_of_variant.items() if not jobs or job in jobs])
        for jobs_of_variant in (first_jobs, second_jobs)
    )
    return first_s, second_s


def median_over_runs(jobs: Jobs) -> float:
    return median([median([timed.seconds for timed in run.values()]) for run in jobs.values()])


def has_common_sweep(variant: Variant, other: Variant) -> bool:
    sweeps, other_sweeps = (
        {run.partition("#")[0] for run in times_by_run}
        for times_by_run in (variant.times_by_run, other.times_by_run)
    )
    return not sweeps.isdisjoint(other_sweeps)


def add_speedups(variants: Sequence[Variant]) -> Iterator[Variant]:
    """Yield the variants of a problem with their speedups over its baseline, if it has one.

    Components get no speedup: they do only part of the work.
    """
    baseline = next((variant for variant in variants if variant.is_baseline), None)
    alpha = bonferroni_alpha(sum(not variant.is_bound for variant in variants) - 1)
    for variant in variants:
        is_compared = variant is not baseline and variant.row.get("is_component") is not True
        speedup = speedup_over(variant, baseline, alpha) if baseline and is_compared else None
        yield replace(variant, speedup=speedup) if speedup else variant


@dataclass(frozen=True)
class Standing:
    """The fastest variant of a problem, and its judgements against the others.

    Attributes:
        judgements: of the fastest variant over each of the others.
        reason: why none of them is judged; "" where some are.
    """

    fastest: Variant
    judgements: Sequence[tuple[Variant, str]]
    reason: str = ""

    @property
    def is_ahead_of_all(self) -> bool:
        return bool(self.judgements) and all(judgement == AHEAD for _, judgement in self.judgements)

    def names_judged(self, judgement: str) -> list[str]:
        return [variant.name for variant, word in self.judgements if word == judgement]

    @property
    def leaders(self) -> set[str]:
        """The fastest variant and those tied or unclear with it, if it is ahead of some."""
        if len(self.judgements) < 2 or not self.names_judged(AHEAD):
            return set()
        return {self.fastest.name, *self.names_judged(TIED), *self.names_judged(UNCLEAR)}


OPPOSITE = {AHEAD: BEHIND, BEHIND: AHEAD}


def judge_fastest(variants: Sequence[Variant]) -> Standing | None:
    """Judge the fastest of the variants that compete against the others; None without any.

    Comparisons with the baseline use the alpha of its speedups. All others are corrected for all
    pairs, because the fastest variant is selected after measuring.
    """
    competing = [variant for variant in variants if variant.is_candidate]
    if not competing:
        return None
    fastest = min(competing, key=lambda variant: variant.relative_time)
    alpha = bonferroni_alpha(len(competing) * (len(competing) - 1) // 2)
    judgements, reasons = [], []
    for other in competing:
        if other is fastest:
            continue
        if fastest.is_baseline:
            speedup = other.speedup
        else:
            speedup = fastest.speedup if other.is_baseline else speedup_over(fastest, other, alpha)
        judgement = speedup.judgement if speedup else NOT_JUDGED
        judgements.append(
            (other, OPPOSITE.get(judgement, judgement) if fastest.is_baseline else judgement)
        )
        reasons.append(speedup.why_not_judged if speedup else NO_SHARED_RUN)
    return Standing(fastest, judgements, reasons[0] if all(reasons) and reasons else "")

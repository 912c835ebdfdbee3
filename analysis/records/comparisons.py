"""Derives the figures of a case that need other cases of its job.

They are speedup over another case, scaling, overlap, and the distance to the limit and to the best.
"""

from collections.abc import Sequence

from benchkit.record.case import CaseRecord
from benchkit.statistics.paired import Estimate, paired_overlap, paired_speedup
from benchkit.statistics.quantiles import median
from benchkit.statistics.summary import slowest_rank

FIGURES = (
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


def figures(
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
    found: dict[str, float | None] = dict.fromkeys(FIGURES)
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

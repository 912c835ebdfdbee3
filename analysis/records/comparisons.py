"""Derives the figures of a case that need other cases of its job.

They are speedup over another case, scaling, overlap, and the distance to the limit and to the best.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.statistics.paired import Estimate, paired_overlap, paired_speedup
from benchkit.statistics.summary import slowest_rank

Case = Mapping[str, Any]
FIGURES = (
    "paired_speedup", "paired_speedup_low", "paired_speedup_high",
    "overlap", "overlap_low", "overlap_high",
    "scaling_efficiency", "comm_share", "limit_share", "behind_best",
)  # fmt: skip
"""
- paired_speedup: the ratio of the rates of useful work.
- scaling_efficiency: paired_speedup per rank.
- comm_share: the time of communication alone, as a share of the time of the case.
- limit_share: the longer of computation alone and communication alone, as a share of the time of
  the case, which does both.
- behind_best: how much slower a case is than the fastest case compared with the same case, over any
  backend, as a share of the fastest time. Bounds and unslowed cases do not count.
"""

BACKEND = "comm_backend"
"""Label of cases that do the same work over backends of their own."""


def figures(case: Case, cases: Sequence[Case]) -> dict[str, float | None]:
    """Compute all FIGURES of a measured case.

    Args:
        case: a measured case.
        cases: all cases of its job.

    Returns:
        The figures by name, None where they do not apply.
    """
    found: dict[str, float | None] = dict.fromkeys(FIGURES)
    measured = [other for other in cases if other["status"] == "ok"]
    named = {other["name"]: other for other in measured if other.get("name")}
    baseline = named.get(case.get("against", ""))
    if baseline is not None:
        more_work = (case.get("useful_flops") or 1.0) / (baseline.get("useful_flops") or 1.0)
        speedup = scaled(paired_speedup(baseline, case), more_work)
        found |= with_interval("paired_speedup", speedup)
        if case.get("ranks") != baseline.get("ranks"):
            found["scaling_efficiency"] = speedup[0] * num_ranks(baseline) / num_ranks(case)
    computation, communication = (named.get(name) for name in parts_of(case))
    if communication is not None:
        found["comm_share"] = median(communication) / median(case)
    if communication is not None and computation is not None:
        found |= with_interval("overlap", paired_overlap(computation, communication, case))
        found["limit_share"] = max(median(computation), median(communication)) / median(case)
    labels = labels_by_name(cases)
    own = contest(case, labels)
    rivals = [median(other) for other in measured if own and contest(other, labels) == own]
    if len(rivals) > 1:
        found["behind_best"] = median(case) / min(rivals) - 1
    return found


def parts_of(case: Case) -> tuple[str, str]:
    """Return the names of the cases that time its computation and its communication alone.

    A name is "" where there is no such case. Old records have a list instead: of both in this
    order, or of the communication alone.
    """
    parts = case.get("parts") or {}
    if isinstance(parts, Mapping):
        return parts.get("computation", ""), parts.get("communication", "")
    *computation, communication = parts
    return (computation[0] if computation else ""), communication


def labels_by_name(cases: Sequence[Case]) -> dict[str, Mapping[str, Any]]:
    """Return the labels of a job's cases, by the names that other cases refer to."""
    return {other["name"]: other["labels"] for other in cases if other.get("name")}


def contest(case: Case, labels: Mapping[str, Mapping[str, Any]]) -> tuple[str, int] | None:
    """Return what is common to the cases that do the same work on the same ranks.

    These cases are compared with the same case, or with that case on their own backend.

    Args:
        case: a case of a job.
        labels: of the job's cases, by name.

    Returns:
        The work and the number of ranks; None for a case that is no way to do any work.
    """
    aim = case.get("against") or case.get("name")
    if not aim or case.get("bound") or case.get("unslowed"):
        return None
    aim_labels = labels.get(aim, {"name": aim})
    work = {name: value for name, value in aim_labels.items() if name != BACKEND}
    return str(work), num_ranks(case)


def contest_name(case: Case, cases: Sequence[Case]) -> str | None:
    """Return the contest of a case as text for a column: "even, 2 ranks".

    It is None for a case that nothing is compared with.
    """
    found = contest(case, labels_by_name(cases)) if case.get("samples_s") else None
    return found and f"{found[0]}, {found[1]} ranks"


def with_interval(name: str, values: Estimate) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def num_ranks(case: Case) -> int:
    """Return how many ranks take part in a case."""
    return int(case.get("ranks") or len(case["samples_s"]))


def scaled(values: Estimate, factor: float) -> Estimate:
    value, low, high = values
    return value * factor, low and low * factor, high and high * factor


def median(case: Case) -> float:
    return float(np.median(slowest_rank(case["samples_s"])))

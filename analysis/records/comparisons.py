"""What only a job's cases together tell: speedup over another, scaling, overlap, how near the limit and the best."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.statistics.paired import paired_overlap, paired_speedup
from benchkit.statistics.summary import slowest_rank

Case = Mapping[str, Any]
FIGURES = (
    "paired_speedup", "paired_speedup_low", "paired_speedup_high", "overlap", "overlap_low", "overlap_high",
    "scaling_efficiency", "comm_share", "limit_share", "behind_best",
)  # fmt: skip
"""paired_speedup: of the rate of useful work. scaling_efficiency: that, per rank. comm_share: the time of communication
alone over the time of a case. limit_share: the longer of computation and communication alone over the time of both.
behind_best: how much slower than the fastest that is compared with the same case, over whichever backend, as a share of
its time; bounds and unslowed cases do not count."""

BACKEND = "comm_backend"
"""Label of cases that do the same work over backends of their own."""


def figures(case: Case, cases: Sequence[Case]) -> dict[str, float | None]:
    """All FIGURES of a measured case among those of its job, None where they do not apply."""
    found: dict[str, float | None] = dict.fromkeys(FIGURES)
    measured = [other for other in cases if other["status"] == "ok"]
    named = {other["name"]: other for other in measured if other.get("name")}
    other = named.get(case.get("against", ""))
    if other is not None:
        more_work = (case.get("useful_flops") or 1.0) / (other.get("useful_flops") or 1.0)
        speedup = scaled(paired_speedup(other, case), more_work)
        found |= with_interval("paired_speedup", speedup)
        if case.get("ranks") != other.get("ranks"):
            found["scaling_efficiency"] = speedup[0] * num_ranks(other) / num_ranks(case)
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
    """The names of the cases that are its computation and its communication alone, "" for none.

    Records once had a list instead: of both in this order, or of the communication alone.
    """
    parts = case.get("parts") or {}
    if isinstance(parts, Mapping):
        return parts.get("computation", ""), parts.get("communication", "")
    *computation, communication = parts
    return (computation[0] if computation else ""), communication


def labels_by_name(cases: Sequence[Case]) -> dict[str, Mapping[str, Any]]:
    """The labels of a job's cases, by the names that others refer to them by."""
    return {other["name"]: other["labels"] for other in cases if other.get("name")}


def contest(case: Case, labels: Mapping[str, Mapping[str, Any]]) -> tuple[str, int] | None:
    """What the cases that do the same work on the same ranks share; None for one that is no way to do any.

    They are compared with the same case, or with that case on their own backend. labels: those of the job's cases.
    """
    aim = case.get("against") or case.get("name")
    if not aim or case.get("bound") or case.get("unslowed"):
        return None
    work = {name: value for name, value in labels.get(aim, {"name": aim}).items() if name != BACKEND}
    return str(work), num_ranks(case)


def contest_name(case: Case, cases: Sequence[Case]) -> str | None:
    """The same as text, for a column: "even, 2 ranks"; None for a case that nothing is compared with."""
    found = contest(case, labels_by_name(cases)) if case.get("samples_s") else None
    return found and f"{found[0]}, {found[1]} ranks"


def with_interval(name: str, values: tuple[float, float | None, float | None]) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def num_ranks(case: Case) -> int:
    """How many ranks take part in a case."""
    return int(case.get("ranks") or len(case["samples_s"]))


def scaled(
    values: tuple[float, float | None, float | None], factor: float
) -> tuple[float, float | None, float | None]:  # fmt: skip
    value, low, high = values
    return value * factor, low and low * factor, high and high * factor


def median(case: Case) -> float:
    return float(np.median(slowest_rank(case["samples_s"])))

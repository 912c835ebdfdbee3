"""What only a job's cases together tell: speedup over its baseline, overlap, how near the limit and the best."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchkit.statistics import paired_overlap, paired_speedup, slowest_rank

Case = Mapping[str, Any]
FIGURES = (
    "paired_speedup", "paired_speedup_low", "paired_speedup_high", "overlap", "overlap_low", "overlap_high",
    "limit_share", "behind_best",
)  # fmt: skip
"""limit_share: the longer of computation and communication alone over the time of both. behind_best: how much slower
than the fastest case of the job, as a share of its time; bounds and unslowed cases do not count."""


def figures(case: Case, cases: Sequence[Case]) -> dict[str, float | None]:
    """All FIGURES of a measured case among those of its job, None where they do not apply."""
    found: dict[str, float | None] = dict.fromkeys(FIGURES)
    measured = [other for other in cases if other["status"] == "ok"]
    baseline = next((other for other in measured if other.get("baseline")), None)
    if baseline is not None and baseline is not case and not case.get("bound"):
        found |= with_interval("paired_speedup", paired_speedup(baseline, case))
    named = {other.get("name"): other for other in measured}
    parts = [named[name] for name in case.get("parts", ()) if name in named]
    if len(parts) == 2:
        found |= with_interval("overlap", paired_overlap(parts[0], parts[1], case))
        found["limit_share"] = max(map(median, parts)) / median(case)
    rivals = [median(other) for other in measured if is_rival(other)]
    if is_rival(case) and len(rivals) > 1:
        found["behind_best"] = median(case) / min(rivals) - 1
    return found


def is_rival(case: Case) -> bool:
    """Whether a case is one way of several to do the job's work."""
    return not (case.get("bound") or case.get("unslowed"))


def with_interval(name: str, values: tuple[float, float | None, float | None]) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def median(case: Case) -> float:
    return float(np.median(slowest_rank(case["samples_s"])))

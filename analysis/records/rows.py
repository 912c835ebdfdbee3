"""Turns one record into rows of the combined table: settings, labels and metrics of its cases."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.records import comparisons, disturbances, noise
from analysis.records.conditions import conditions, provenance
from analysis.records.doubts import doubt_of
from analysis.records.metrics import METRICS, region_medians
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.summary import iteration_times, summarize

DETAILS = "details"
"""Key of a row for what the suite reports of the case, by name. Each detail becomes a column of its
own, which does not say what was measured."""
MAX_START_UNCERTAINTY = 0.1
"""As a share of the median. Where the clocks of several hosts are known less precisely, there is no
makespan, skew or straggler."""
SHARED_KEYS = frozenset((
    "suite", "seed", "world_size", "threads_per_rank", "start_method", "timeout_s",
    "join_timeout_s", "host_wait_s", "max_failures", "on_end", "private_network", "backend",
    "hardware", "measure", "model", "profile", "explain",
))  # fmt: skip
"""Keys that every suite has. A suite's own lists and dictionaries are no columns either: they
choose cases, which are told apart by their labels."""
OUTCOMES = ("status", "reason", "failed_rank", "stopped_by", "converged", DETAILS)
"""Columns that say how a case went."""


def rows_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make one row per case of a record, or one row for a record without cases.

    All times are in seconds.

    Raises:
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError: for an incomplete
            record.
    """
    failed = failure(record)
    shared = settings(record) | conditions(record) | provenance(record)
    cases = record["cases"]
    uncertainty_s = (record.get("start_clock") or {}).get("uncertainty_s") or 0.0
    slowed_by = (record.get("slowdown") or {}).get("mechanism") or ""
    num_hosts = len(shared["host"].split("+"))
    rows = []
    for case in cases:
        disturbed = disturbances.describe(case, slowed_by, num_hosts) or None
        row = labels(record, case) | case_row(case, uncertainty_s, cases)
        rows.append(plain_row(shared | row | {"disturbed": disturbed}))
    return rows or [plain_row(shared | failed)]


def failure(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a record without cases: how it ended."""
    error = record["error"] or {}
    return {
        "status": record["status"],
        "reason": error.get("message"),
        "failed_rank": error.get("rank"),
    }


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Make all cells of a row comparable, its details included."""
    details = {name: plain(value) for name, value in row.get(DETAILS, {}).items()}
    cells = {name: plain(value) for name, value in row.items() if name != DETAILS}
    return cells | {DETAILS: details}


def plain(value: Any) -> Any:
    """Return a cell that can be compared and grouped: lists and dictionaries become text."""
    return value if isinstance(value, str | int | float | None) else str(value)


def settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured: the suite, where it ran, and the suite's own keys."""
    own = {
        name: value
        for name, value in record["config"].items()
        if name not in SHARED_KEYS and not isinstance(value, list | dict)
    }
    return shared_settings(record) | renamed(record, own)


def shared_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that every suite has."""
    config = record["config"]
    return {
        "suite": record["suite"],
        "backend": config["backend"]["name"],
        "device": config["hardware"]["device"],
        "world_size": int(record["world_size"]),
        "model": (config["model"] or {}).get("name"),
    }


def labels(record: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """Return what sets a case apart within its job."""
    return renamed(record, case["labels"])


def renamed(record: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a suite's keys or labels as columns.

    One with the name of a column that every table has gets the suite's name as prefix.
    """
    described = {**shared_settings(record), **conditions(record), **provenance(record)}
    taken = {*described, *OUTCOMES, *(metric.name for metric in METRICS)}
    suite = record["suite"]
    return {f"{suite}.{name}" if name in taken else name: value for name, value in own.items()}


def taking_part(case: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return samples and start offsets (or None) of the ranks that take part in a case.

    These are the first ranks; the others are idle.
    """
    count, starts = case.get("ranks"), case["start_offsets_s"]
    return case["samples_s"][:count], starts[:count] if starts is not None else None


def case_row(
    case: Mapping[str, Any], start_uncertainty_s: float, cases: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the cells of a row that belong to the case alone.

    Args:
        case: a case of a record.
        start_uncertainty_s: how precisely the hosts' clocks are known. Where this is too imprecise
            (MAX_START_UNCERTAINTY), there are no figures of starts.
        cases: all cases of the record.
    """
    row: dict[str, Any] = {
        "bound": bool(case.get("bound")),
        "unslowed": bool(case.get("unslowed")),
        "contest": comparisons.contest_name(case, cases),
        "status": case["status"],
        "reason": case["reason"] or None,
        "failed_rank": case["rank"],
    }
    if not case.get("samples_s"):
        return row
    row |= {name: case[name] for name in ("stopped_by", "converged")}
    row |= {"calls": case["calls_per_sample"], "steady": case.get("steady")}
    if case["status"] != "ok":
        return row
    samples, starts = taking_part(case)
    estimator = case.get("estimator", SLOWEST_RANK)
    summary = summarize(samples, starts, estimator)
    if start_uncertainty_s > MAX_START_UNCERTAINTY * float(summary["median_s"] or 0):
        starts = None
        summary = summarize(samples, None, estimator)
    times = iteration_times(samples, starts, estimator)
    row["estimator"] = estimator if starts is not None else SLOWEST_RANK
    summary |= comparisons.figures(case, cases) | noise.figures(samples, times)
    metrics = {metric.name: metric.formula(case, summary) for metric in METRICS}
    details = case.get("details", {})
    row |= {DETAILS: details | region_medians(case), "doubt": doubt_of(metrics, details)}
    return row | metrics

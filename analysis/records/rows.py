"""Turns one record into rows of the combined table: settings, labels and metrics of its cases."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.records import comparisons, disturbances, noise, reuse, turns
from analysis.records.conditions import conditions, provenance
from analysis.records.doubts import doubt_of
from analysis.records.metrics import METRICS, region_medians
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.summary import iteration_times, slowest_rank, summarize

DETAILS = "details"
"""Key of a row for what the suite reports of the case, by name. Each detail becomes a column of its
own, which does not say what was measured."""
MAX_START_UNCERTAINTY = 0.1
"""As a share of the median. Where the clocks of several hosts are known less precisely, there is no
makespan, skew or straggler."""
SHARED_KEYS = frozenset((
    "suite", "seed", "world_size", "threads_per_rank", "start_method", "timeout_s",
    "join_timeout_s", "host_wait_s", "repeat", "max_failures", "on_end", "private_network",
    "ranks", "backend", "hardware", "measure", "model", "profile", "explain", "report",
))  # fmt: skip
"""Keys that every suite has. A suite's own lists and dictionaries are no columns either: they
choose cases, which are told apart by their labels."""
OUTCOMES = ("status", "reason", "failed_rank", "stopped_by", "converged", DETAILS)
"""Columns that say how a case went."""
OF_FILE = ("path", "run")


def rows_of(
    record: Record, path: str | None = None, run: str | None = None
) -> list[dict[str, Any]]:
    """Make one row per case of a record, or one row for a record without cases.

    All times are in seconds.

    Args:
        record: of a point.
        path: of its file.
        run: of its sweep.
    """
    shared = settings(record) | conditions(record) | provenance(record)
    shared |= {"path": path, "run": run}
    if not record.cases:
        return [plain_row(shared | failure(record))]
    slowed_by, num_hosts = record.slowdown.mechanism or "", len(shared["host"].split("+"))
    contests = comparisons.contests(record.cases)
    rows = []
    for case, contest in zip(record.cases, contests, strict=True):
        row = outcome(case) | {"contest": contest and f"{contest[0]}, {contest[1]} ranks"}
        if case.status == "ok":
            rivals = [
                other
                for other, its in zip(record.cases, contests, strict=True)
                if contest and its == contest
            ]
            row |= measured_cells(case, record, rivals)
        disturbed = disturbances.describe(case, slowed_by, num_hosts) or None
        labels = renamed(record, case.labels)
        rows.append(plain_row(shared | labels | row | {"disturbed": disturbed}))
    return rows


def failure(record: Record) -> dict[str, Any]:
    """Return the cells of a record without cases: how it ended."""
    error = record.error
    return {
        "status": record.status,
        "reason": error.message if error else None,
        "failed_rank": error.rank if error else None,
    }


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Make all cells of a row comparable, its details included."""
    details = {name: plain(value) for name, value in row.get(DETAILS, {}).items()}
    cells = {name: plain(value) for name, value in row.items() if name != DETAILS}
    return cells | {DETAILS: details}


def plain(value: Any) -> Any:
    """Return a cell that can be compared and grouped: lists and dictionaries become text."""
    return value if isinstance(value, str | int | float | None) else str(value)


def settings(record: Record) -> dict[str, Any]:
    """Return what was measured: the suite, where it ran, and the suite's own keys."""
    own = {
        name: value
        for name, value in record.config.items()
        if name not in SHARED_KEYS and not isinstance(value, list | dict)
    }
    return shared_settings(record) | renamed(record, own)


def shared_settings(record: Record) -> dict[str, Any]:
    """Return the settings that every suite has."""
    shared = record.settings
    return {
        "suite": record.suite,
        "backend": shared.backend.name,
        "device": shared.hardware.device,
        "world_size": record.world_size,
        "model": shared.model.name if shared.model else None,
    }


def renamed(record: Record, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a suite's keys, or a case's labels, as columns.

    One with the name of a column that every table has gets the suite's name as prefix.
    """
    described = {**shared_settings(record), **conditions(record), **provenance(record)}
    taken = {*described, *OF_FILE, *OUTCOMES, *(metric.name for metric in METRICS)}
    return {f"{record.suite}.{name}" if name in taken else name: own[name] for name in own}


def outcome(case: CaseRecord) -> dict[str, Any]:
    """Return the cells that say what a case is, how it ended and how it was timed."""
    row: dict[str, Any] = {
        "is_component": case.is_component,
        "unslowed": case.unslowed,
        "status": case.status,
        "reason": case.reason or None,
        "failed_rank": case.rank,
    }
    if case.samples_s:
        row |= {
            "stopped_by": case.stopped_by,
            "converged": case.converged,
            "calls": case.calls_per_sample,
            "steady": case.steady,
        }
    return row


def starts_of(case: CaseRecord, record: Record) -> list[list[float]] | None:
    """Return the start offsets [rank][iteration] of a measured case where they are precise enough.

    They are None where the clocks of several hosts are known less precisely than
    MAX_START_UNCERTAINTY.
    """
    uncertainty_s = record.start_clock.uncertainty_s if record.start_clock else 0.0
    median_s = float(np.median(slowest_rank(case.samples_taking_part)))
    return case.starts_taking_part if uncertainty_s <= MAX_START_UNCERTAINTY * median_s else None


def measured_cells(
    case: CaseRecord, record: Record, rivals: Sequence[CaseRecord]
) -> dict[str, Any]:
    """Return the figures of a measured case.

    Args:
        case: of the record.
        record: of the point.
        rivals: cases of the same contest.
    """
    samples, starts = case.samples_taking_part, starts_of(case, record)
    summary = summarize(samples, starts, case.estimator)
    times = iteration_times(samples, starts, case.estimator)
    summary |= comparisons.figures(case, record.cases, rivals) | noise.figures(samples, times)
    summary |= turns.figures(case, record, summary["median_s"])
    summary |= reuse.figures(case, record, summary["median_s"])
    metrics = {metric.name: metric.formula(case, summary) for metric in METRICS}
    return {
        "estimator": case.estimator if starts is not None else SLOWEST_RANK,
        DETAILS: case.details | region_medians(case),
        "doubt": doubt_of(metrics, case.details),
        **metrics,
    }

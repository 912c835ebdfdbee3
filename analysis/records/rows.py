"""Turns one record into rows of the combined table: settings, labels and metrics of its cases."""

from collections.abc import Sequence
from typing import Any

from analysis.records import comparisons, disturbances, first_calls, noise, reuse, turns
from analysis.records.columns import Columns
from analysis.records.doubts import doubt_of
from analysis.records.figures import CaseFigures, plain_cells
from analysis.records.metrics import METRICS, region_medians
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.intervals import Array
from benchkit.statistics.quantiles import median
from benchkit.statistics.summary import iteration_times, slowest_rank, summarize

NOT_ENDED = "measured at this moment, or killed before it could say so"
MAX_START_UNCERTAINTY = 0.1
"""As a share of the median. Where the clocks of several hosts are known less precisely, there is no
makespan, skew or straggler."""


def cases_of(record: Record, own: Columns) -> list[CaseFigures]:
    """Derive the figures of each case; without cases, how the record ended."""
    if not record.cases:
        return [CaseFigures(plain_cells(failure(record)), {}, None)]
    slowed_by, num_hosts = record.slowdown.mechanism or "", len(own.settings["host"].split("+"))
    contests = comparisons.contests(record.cases)
    rivals_s: dict[comparisons.Contest | None, list[float]] = {None: []}
    for case, contest in zip(record.cases, contests, strict=True):
        if contest and record.status_of(case) == "ok":
            rivals_s.setdefault(contest, []).append(comparisons.median_of(case))
    found = []
    for case, contest in zip(record.cases, contests, strict=True):
        cells = own.renamed(case.labels) | outcome(case, record)
        cells["contest"] = contest and f"{contest[0]}, {contest[1]} ranks"
        cells["disturbed"] = disturbances.describe(case, slowed_by, num_hosts) or None
        if cells["status"] == "ok":
            found.append(measured(case, record, rivals_s[contest], cells))
        else:
            found.append(CaseFigures(plain_cells(cells), {}, None))
    return found


def failure(record: Record) -> dict[str, Any]:
    """Return the cells of a record without cases: how it ended."""
    error = record.error
    return {
        "status": record.status,
        "reason": error.message if error else NOT_ENDED if record.status == "running" else None,
        "failed_rank": error.rank if error else None,
    }


def outcome(case: CaseRecord, record: Record) -> dict[str, Any]:
    """Return the cells that say what a case is, how it ended and how it was timed."""
    status = record.status_of(case)
    ended = case.reason if status == case.status else failure(record)["reason"]
    row: dict[str, Any] = {
        "is_component": case.is_component,
        "unslowed": case.unslowed,
        "status": status,
        "reason": ended or None,
        "failed_rank": case.rank,
    }
    if case.samples_s:
        row |= {
            "stopped_by": case.stopped_by,
            "converged": case.converged,
            "calls": case.calls_per_sample,
            "steady": case.steady,
            "unchecked": case.unchecked or None,
        }
    return row


def starts_of(case: CaseRecord, record: Record) -> Array | None:
    """Return the start offsets [rank][iteration] of a measured case where they are precise enough.

    They are None where the clocks of several hosts are known less precisely than
    MAX_START_UNCERTAINTY.
    """
    uncertainty_s = record.start_clock.uncertainty_s if record.start_clock else 0.0
    if uncertainty_s:
        median_s = median(slowest_rank(case.samples_taking_part))
        if uncertainty_s > MAX_START_UNCERTAINTY * median_s:
            return None
    return case.starts_taking_part


def measured(
    case: CaseRecord, record: Record, rivals_s: Sequence[float], cells: dict[str, Any]
) -> CaseFigures:
    """Derive the figures of a measured case.

    Args:
        case: of the record.
        record: of the point.
        rivals_s: medians in seconds of all measured cases of the same contest.
        cells: that say what the case is and how it went.
    """
    samples, starts = case.samples_taking_part, starts_of(case, record)
    summary = summarize(samples, starts, case.estimator)
    times = iteration_times(samples, starts, case.estimator)
    summary |= comparisons.figures(case, record.cases, rivals_s) | noise.figures(samples, times)
    summary |= turns.figures(case, record, summary["median_s"])
    summary |= first_calls.figures(case, record.settings.measure.mode, times)
    summary |= reuse.figures(case, record, summary["median_s"])
    metrics = {metric.name: metric.formula(case, summary) for metric in METRICS}
    judged = {
        "estimator": case.estimator if starts is not None else SLOWEST_RANK,
        "doubt": doubt_of(metrics, case.details),
    }
    details = plain_cells(case.details | region_medians(case))
    return CaseFigures(plain_cells(cells | judged), details, list(metrics.values()))

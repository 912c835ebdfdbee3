"""Rows per rank: busy and waiting time, and what a suite reports of each rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.records import rank_devices
from analysis.records.conditions import conditions
from analysis.records.noise import SPIKE
from analysis.records.rows import plain, renamed, settings, starts_of
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.summary import last_shares

WAITING = "_wait"
"""Ends the names of regions in which a rank waits. In the rest of a call the rank is busy. Without
such a region neither time is known."""


def rank_rows(record: Record, run: str | None = None) -> list[dict[str, Any]]:
    """Make one row per rank and measured case; times are medians in seconds.

    Cases of a single rank have a row only where they mark regions or report details of the rank.
    The columns of a row, beside settings, conditions, labels, regions and such details, are:

    - busy_s, wait_s: None where the case marks no waiting.
    - last_share: the share of iterations in which this rank alone ended last.
    - late_s: how long after the first rank it began.
    - spike_share: the share of its samples beyond SPIKE times its median.
    - PLACE and STATE of rank_devices, as far as they are known.
    """
    described = settings(record) | conditions(record) | {"run": run}
    rows = []
    for case in record.cases:
        if case.status == "ok":
            labels = renamed(record, case.labels)
            for row in rows_of_case(case, record):
                cells = described | labels | row
                rows.append({name: plain(value) for name, value in cells.items()})
    return rows


def rows_of_case(case: CaseRecord, record: Record) -> list[dict[str, Any]]:
    samples = np.asarray(case.samples_s)
    regions = marked_regions(case)
    details = {
        name: value
        for name, value in case.details.items()
        if isinstance(value, list) and len(value) == record.world_size
    }
    if record.world_size == 1 and not (regions or details):
        return []
    waits = [spent for name, spent in regions.items() if name.endswith(WAITING)]
    waited = np.sum(waits, axis=0) if waits else None
    columns = {
        **arrivals(case, record),
        "spike_share": (samples > SPIKE * np.median(samples, axis=1, keepdims=True)).mean(axis=1),
        "busy_s": None if waited is None else np.median(samples - waited, axis=1),
        "wait_s": None if waited is None else np.median(waited, axis=1),
        **{f"{name}_s": np.median(spent, axis=1) for name, spent in regions.items()},
    }
    rows = []
    for rank in range(len(case.samples_taking_part)):
        row: dict[str, Any] = {"rank": rank, **rank_devices.cells(record, case, rank)}
        for name, values in columns.items():
            row[name] = None if values is None else float(values[rank])
        rows.append(row | {name: values[rank] for name, values in details.items()})
    return rows


def marked_regions(case: CaseRecord) -> dict[str, Any]:
    """Return the regions [rank][iteration] in which any time was spent."""
    regions = {name: np.asarray(spent) for name, spent in case.regions_s.items()}
    return {name: spent for name, spent in regions.items() if spent.any()}


def arrivals(case: CaseRecord, record: Record) -> dict[str, Any]:
    """Return who began and ended when, where the ranks' clocks are known well enough."""
    starts = starts_of(case, record)
    if starts is None:
        return {}
    return {
        "last_share": last_shares(np.asarray(case.samples_taking_part), np.asarray(starts)),
        "late_s": np.median(starts, axis=1),
    }


def for_print(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows with times in ms, without the columns that are the same throughout.

    Columns that say where ranks ran have a page of their own (analysis/report/rank_devices.py).
    """
    devices = (*rank_devices.PLACE, *rank_devices.STATE)
    table = pd.DataFrame(rows).drop(columns=list(devices), errors="ignore")
    differing = [name for name in table if table[name].nunique(dropna=False) > 1 or name == "rank"]
    shown = table[differing]
    in_ms = {name: f"{name.removesuffix('_s')} [ms]" for name in shown if str(name).endswith("_s")}
    return shown.assign(**{name: shown[name] * 1e3 for name in in_ms}).rename(columns=in_ms)

"""Rows per rank: busy and waiting time, and what a suite reports of each rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.conditions import conditions
from analysis.records.noise import SPIKE
from analysis.records.rows import MAX_START_UNCERTAINTY, labels, plain, settings, taking_part
from benchkit.statistics.summary import last_shares

WAITING = "_wait"
"""Ends the names of regions in which a rank waits. In the rest of a call the rank is busy. Without
such a region neither time is known."""


def rank_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make one row per rank and measured case; times are medians in seconds.

    Cases of a single rank have a row only where they mark regions or report details of the rank.
    The columns of a row, beside settings, conditions, labels, regions and such details, are:

    - busy_s, wait_s: None where the case marks no waiting.
    - last_share: the share of iterations in which this rank alone ended last.
    - late_s: how long after the first rank it began.
    - spike_share: the share of its samples beyond SPIKE times its median.
    """
    uncertainty_s = (record.get("start_clock") or {}).get("uncertainty_s") or 0.0
    described = settings(record) | conditions(record) | {"run": record.get("run")}
    world_size = int(record["world_size"])
    rows = []
    for case in record["cases"]:
        if case["status"] == "ok":
            case_labels = labels(record, case)
            for row in rows_of_case(case, world_size, uncertainty_s):
                cells = described | case_labels | row
                rows.append({name: plain(value) for name, value in cells.items()})
    return rows


def rows_of_case(
    case: Mapping[str, Any], world_size: int, uncertainty_s: float
) -> list[dict[str, Any]]:
    samples = np.asarray(case["samples_s"])
    regions = marked_regions(case)
    details = {
        name: value
        for name, value in case.get("details", {}).items()
        if isinstance(value, list) and len(value) == world_size
    }
    if world_size == 1 and not (regions or details):
        return []
    waits = [spent for name, spent in regions.items() if name.endswith(WAITING)]
    waited = np.sum(waits, axis=0) if waits else None
    columns = {
        **arrivals(case, samples, uncertainty_s),
        "spike_share": (samples > SPIKE * np.median(samples, axis=1, keepdims=True)).mean(axis=1),
        "busy_s": None if waited is None else np.median(samples - waited, axis=1),
        "wait_s": None if waited is None else np.median(waited, axis=1),
        **{f"{name}_s": np.median(spent, axis=1) for name, spent in regions.items()},
    }
    rows = []
    for rank in range(len(taking_part(case)[0])):
        row: dict[str, Any] = {"rank": rank}
        for name, values in columns.items():
            row[name] = None if values is None else float(values[rank])
        rows.append(row | {name: values[rank] for name, values in details.items()})
    return rows


def marked_regions(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the regions [rank][iteration] in which any time was spent."""
    regions = {name: np.asarray(spent) for name, spent in (case.get("regions_s") or {}).items()}
    return {name: spent for name, spent in regions.items() if spent.any()}


def arrivals(case: Mapping[str, Any], samples: Any, uncertainty_s: float) -> dict[str, Any]:
    """Return who began and ended when, where the ranks' clocks are known well enough."""
    taking, starts = taking_part(case)
    limit_s = MAX_START_UNCERTAINTY * float(np.median(samples.max(axis=0)))
    if starts is None or uncertainty_s > limit_s:
        return {}
    return {
        "last_share": last_shares(np.asarray(taking), np.asarray(starts)),
        "late_s": np.median(starts, axis=1),
    }


def for_print(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows with times in ms, without the columns that are the same throughout."""
    table = pd.DataFrame(rows)
    differing = [name for name in table if table[name].nunique(dropna=False) > 1 or name == "rank"]
    shown = table[differing]
    in_ms = {name: f"{name.removesuffix('_s')} [ms]" for name in shown if str(name).endswith("_s")}
    return shown.assign(**{name: shown[name] * 1e3 for name in in_ms}).rename(columns=in_ms)

"""What each rank did: busy and waiting time, and whatever a suite tells of each rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.noise import SPIKE
from analysis.records.rows import MAX_START_UNCERTAINTY, conditions, labels, plain, settings, taking_part
from benchkit.statistics.summary import last_shares

WAITING = "_wait"
"""Regions so named are waiting, all else of a call is being busy; without any, nobody can tell."""


def rank_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per rank and measured case, where there are several ranks or the case tells of one; medians in seconds.

    busy_s, wait_s: None where the case marks no waiting. last_share: of the iterations, in which it alone ended last.
    late_s: how long after the first rank it began. spike_share: of its samples, beyond SPIKE times its median.
    """
    uncertainty_s = (record.get("start_clock") or {}).get("uncertainty_s") or 0.0
    described = settings(record) | conditions(record) | {"run": record.get("run")}
    return [
        {name: plain(value) for name, value in (described | labels(record, case) | row).items()}
        for case in record["cases"]
        if case["status"] == "ok"
        for row in rows_of_case(case, int(record["world_size"]), uncertainty_s)
    ]


def rows_of_case(case: Mapping[str, Any], world_size: int, uncertainty_s: float) -> list[dict[str, Any]]:
    samples = np.asarray(case["samples_s"])
    named = {name: np.asarray(spent) for name, spent in (case.get("regions_s") or {}).items()}
    regions = {name: spent for name, spent in named.items() if spent.any()}  # what no step ever marked tells nothing
    taking = len(taking_part(case)[0])
    told = {
        name: value
        for name, value in case.get("details", {}).items()
        if isinstance(value, list) and len(value) == world_size
    }
    if world_size == 1 and not (regions or told):
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
    return [
        {"rank": rank}
        | {name: None if values is None else float(values[rank]) for name, values in columns.items()}
        | {name: values[rank] for name, values in told.items()}
        for rank in range(taking)
    ]


def arrivals(case: Mapping[str, Any], samples: Any, uncertainty_s: float) -> dict[str, Any]:
    """Who began and ended when, where the ranks' clocks tell."""
    taking, starts = taking_part(case)
    if starts is None or uncertainty_s > MAX_START_UNCERTAINTY * float(np.median(samples.max(axis=0))):
        return {}
    return {"last_share": last_shares(np.asarray(taking), np.asarray(starts)), "late_s": np.median(starts, axis=1)}


def for_print(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows with times in ms, less the columns that are the same throughout."""
    table = pd.DataFrame(rows)
    shown = table[[name for name in table if name == "rank" or table[name].nunique(dropna=False) > 1]]
    in_ms = {name: f"{name.removesuffix('_s')} [ms]" for name in shown if str(name).endswith("_s")}
    return shown.assign(**{name: shown[name] * 1e3 for name in in_ms}).rename(columns=in_ms)

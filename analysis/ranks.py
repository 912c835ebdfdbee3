"""What each rank did: busy and waiting time, and whatever a suite tells of each rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.rows import conditions, plain, settings

WAITING = "_wait"
"""Regions so named are waiting, all else of a call is being busy."""


def rank_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per rank and measured case, where the case has regions or details of ranks; medians, in seconds."""
    return [
        {name: plain(value) for name, value in (settings(record) | conditions(record) | case["labels"] | row).items()}
        for case in record["cases"]
        if case["status"] == "ok"
        for row in rows_of_case(case, int(record["world_size"]))
    ]


def rows_of_case(case: Mapping[str, Any], world_size: int) -> list[dict[str, Any]]:
    regions = case.get("regions_s") or {}
    told = {
        name: value
        for name, value in case.get("details", {}).items()
        if isinstance(value, list) and len(value) == world_size
    }
    if not (regions or told):
        return []
    samples = np.asarray(case["samples_s"])
    waited = sum(
        (np.asarray(spent) for name, spent in regions.items() if name.endswith(WAITING)), np.zeros_like(samples)
    )
    busy_s = np.median(samples - waited, axis=1)
    wait_s = np.median(waited, axis=1)
    return [
        {"rank": rank, "busy_s": float(busy_s[rank]), "wait_s": float(wait_s[rank])}
        | {f"{name}_s": float(np.median(spent[rank])) for name, spent in regions.items()}
        | {name: value[rank] for name, value in told.items()}
        for rank in range(world_size)
    ]


def for_print(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows with times in ms, less the columns that are the same throughout."""
    table = pd.DataFrame(rows)
    shown = table[[name for name in table if name == "rank" or table[name].nunique(dropna=False) > 1]]
    in_ms = {name: f"{name.removesuffix('_s')} [ms]" for name in shown if str(name).endswith("_s")}
    return shown.assign(**{name: shown[name] * 1e3 for name in in_ms}).rename(columns=in_ms)

"""per_rank.md: the rows per rank and case, as a reader needs them."""

import pandas as pd

from analysis.records import rank_devices


def for_print(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with times in ms, without the columns that are the same throughout.

    Columns that say where ranks ran have a page of their own (analysis/report/rank_devices.py).
    """
    devices = (*rank_devices.PLACE, *rank_devices.STATE)
    table = rows.drop(columns=list(devices), errors="ignore")
    differing = [name for name in table if table[name].nunique(dropna=False) > 1 or name == "rank"]
    shown = table[differing]
    in_ms = {name: f"{name.removesuffix('_s')} [ms]" for name in shown if str(name).endswith("_s")}
    return shown.assign(**{name: shown[name] * 1e3 for name in in_ms}).rename(columns=in_ms)

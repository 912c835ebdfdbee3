"""Formats cells of the combined table that take several columns of a row."""

import math
from typing import Any

import pandas as pd

from benchkit.record.naming import named

NO_INTERVAL = "[?]"
"""Stands for an interval for which there were too few samples."""
OF_INTERVAL = (
    "median_s", "ci_low_s", "ci_high_s", "num_runs", "range_low_s", "range_high_s",
)  # fmt: skip
"""The columns that an interval is formatted from."""


def intervals(table: pd.DataFrame) -> pd.Series:
    """Format the interval of each median in ms.

    Of few runs it is their range; with too few samples it is "too few".
    """
    unknown = [math.nan] * len(table)
    columns = [table[name].tolist() if name in table else unknown for name in OF_INTERVAL]
    texts = [interval_text(*cells) for cells in zip(*columns, strict=True)]
    return pd.Series(texts, index=table.index, dtype=object)


def interval_text(
    median_s: float, low_s: float, high_s: float, runs: float, least_s: float, most_s: float
) -> str | None:
    """Format one interval.

    The arguments are a row's cells of OF_INTERVAL, NaN where they are not known. The result is None
    where there is no median.
    """
    if math.isnan(median_s):
        return None
    if not math.isnan(low_s):
        return f"[{1e3 * low_s:.4g}, {1e3 * high_s:.4g}]"
    if runs > 1:
        return f"{runs:g} runs: {1e3 * least_s:.4g} to {1e3 * most_s:.4g}"
    return "too few"


def joined_settings(table: pd.DataFrame, columns: list[str]) -> pd.Series:
    """Join those of the columns that tell the rows of a suite apart: "m 1024, order AG_before"."""
    varies = table[columns].groupby(table["suite"]).transform("nunique") > 1
    is_shown = varies & table[columns].notna()
    texts: list[list[str]] = [[] for _ in range(len(table))]
    for name in columns:
        for held, value, shown in zip(texts, table[name], is_shown[name], strict=True):
            if shown:
                held.append(f"{name} {named(name, value)}")
    joined = [", ".join(held) or None for held in texts]
    return pd.Series(joined, index=table.index, dtype=object)


def times(table: pd.DataFrame) -> list[str]:
    """Format medians in ms with their intervals, with the digits that these leave: 2.2 [1.9, 2.8].

    Of few runs the interval is their range.
    """
    columns = [table[name] if name in table else [math.nan] * len(table) for name in OF_INTERVAL]
    return [time_text(*cells) for cells in zip(*columns, strict=True)]


def time_text(
    median_s: float, low_s: float, high_s: float, runs: float, least_s: float, most_s: float
) -> str:
    """Format one median; the arguments are in seconds, NaN where they are not known."""
    if math.isnan(median_s):
        return ""
    if math.isnan(low_s) and not runs > 1:
        return f"{figure(1e3 * median_s, 100 * median_s)} {NO_INTERVAL}"  # two digits
    low, high = (least_s, most_s) if math.isnan(low_s) else (low_s, high_s)
    half = 1e3 * min((high - low) / 2, low)  # the lower end has a digit, too
    ends = f"[{figure(1e3 * low, half)}, {figure(1e3 * high, half)}]"
    few = f" of {runs:g} runs" if math.isnan(low_s) else ""
    return f"{figure(1e3 * median_s, half)} {ends}{few}"


def figure(value: Any, half_width: float = math.nan) -> str:
    """Format a number with the digits that its interval leaves, or with four; "" for none."""
    if pd.isna(value):
        return ""
    if not half_width > 0 or math.isinf(half_width):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    places = -math.floor(math.log10(half_width))
    return f"{round(value, places):.{max(0, places)}f}"

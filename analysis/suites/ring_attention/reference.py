"""Compares strategies with the same layer on ranks that are all at full speed."""

from typing import Any

import pandas as pd

from benchkit.suites.ring_attention.names import EVEN, REFERENCE, STRATEGY, TOKENS

SPEEDUP = ("paired_speedup", "paired_speedup_low", "paired_speedup_high")
RATIO = ("reference_ratio", "reference_ratio_low", "reference_ratio_high")
"""T_ref/T and the ends of its interval, which are those of T."""
EFFICIENCY = ("efficiency", "efficiency_low", "efficiency_high")
"""Ideal time over T, alike."""
REFERENCE_S = "reference_s"


def with_efficiencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Add REFERENCE_S, RATIO and the ends of EFFICIENCY to the rows of cells."""
    found = rows.assign(**{REFERENCE_S: reference_times(rows)})
    for ideal, (value, low, high) in ((REFERENCE_S, RATIO), ("ideal_s", EFFICIENCY)):
        ends = {value: "median_s", low: "ci_high_s", high: "ci_low_s"}
        found = found.assign(**{name: found[ideal] / found[time] for name, time in ends.items()})
    return found


def reference_times(rows: pd.DataFrame) -> list[float]:
    """Return T_ref of each row in seconds, NaN where it was not measured.

    It is the time of the even split with all ranks at full speed: of the strategy REFERENCE in the
    same job, else of EVEN at the same length in a point without slowdown. Shares of a GPU cannot be
    lifted within a job, so that there the point without slowdown is the reference.
    """
    found: dict[tuple[Any, Any], float] = {}
    alone: dict[Any, float] = {}
    for _, row in rows.iterrows():
        if row[STRATEGY] == REFERENCE:
            found[row["seq_len"], row["slowdown"]] = float(row["median_s"])
        if row[STRATEGY] == EVEN and row["slowdown"].lost_speed == 0:
            alone[row["seq_len"]] = float(row["median_s"])
    cells = zip(rows["seq_len"], rows["slowdown"], strict=True)
    return [found.get(cell, alone.get(cell[0], float("nan"))) for cell in cells]


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Make a row per cell and strategy: tokens per rank, T, T_ref, T_ref/T and T/T_ref."""
    rows = with_efficiencies(rows)
    rows = rows[rows[REFERENCE_S].notna() & (rows[STRATEGY] != REFERENCE)]
    return pd.DataFrame({
        "tokens": rows["seq_len"].astype(int),
        "slowdown": rows["slowdown"].map(str),
        "strategy": rows[STRATEGY],
        "tokens per rank": rows[TOKENS].astype(str) if TOKENS in rows else "",
        "T [ms]": rows["median_s"] * 1e3,
        "T_ref [ms]": rows[REFERENCE_S] * 1e3,
        "efficiency T_ref/T [%]": 100 * rows[RATIO[0]],
        "slowdown T/T_ref": 1 / rows[RATIO[0]],
    })  # fmt: skip

"""Writes the look-up table of matmul_lut, where strategies of splitting look up speeds."""

import pandas as pd

from analysis.records.slowdowns import slowdowns
from analysis.repetitions import by_mechanism, counted, over_runs
from analysis.text import as_csv, comment
from benchkit.api import lut

SUITE = "matmul_lut"
SOURCE = {
    "host": "host",
    "device_name": "device name",
    "slowed_by": "slowed by",
    "threads_per_rank": lut.THREADS,
}
"""Columns that say where figures are from, and how a comment calls them."""
DOUBT = "doubt"
"""Why a row of the table cannot be right; empty else."""
FASTER = "faster than a larger share"
COLUMNS = [lut.SHARE, lut.SIZE, lut.DTYPE, lut.STREAMS, "avg_ms", lut.RATE]
"""Columns as in the tables of hpml_testing (Columbia, 2025).

The first is the share asked for, by any mechanism.
"""


def write(table: pd.DataFrame) -> dict[str, str]:
    """Write a table per machine and way to run.

    Comments say what was measured, how and when. avg_ms is the mean; the rate is computed from it.
    """
    rows = of_single_ranks(table)
    if rows.empty:
        return {}
    groups = by_mechanism(rows, lut.SIZE, "slowdown", lut.DTYPE, lut.STREAMS)
    return {f"{SUITE}{suffix}.csv": text_of(group) for suffix, group in groups}


def of_single_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Select the measured rows of single ranks, each with its one factor as `slowdown`."""
    ok = (table["suite"] == SUITE) & (table["status"] == "ok")
    rows = table[ok & (table["world_size"] == 1)]
    return rows.assign(slowdown=[slowdown.factors[-1] for slowdown in slowdowns(rows)])


def shares(rows: pd.DataFrame) -> pd.Series:
    """Compute the percentage of the device that each row had."""
    sharers = rows["ranks_per_device"].where(rows["device"] == "cuda", 1)
    return (100 / sharers / rows["slowdown"]).round(3)


def shaped(rows: pd.DataFrame) -> pd.DataFrame:
    """Add COLUMNS and DOUBT and sort; a repeated point has medians over the runs."""
    rows = over_runs(rows.assign(**{lut.SHARE: shares(rows)}), *COLUMNS[:4])
    rate = rows["useful_tflop_per_s"] * rows["median_s"] / rows["mean_s"]
    found = rows.assign(**{"avg_ms": rows["mean_s"] * 1e3, lut.RATE: rate})
    order = [lut.DTYPE, lut.STREAMS, lut.SIZE, lut.SHARE]
    found = found.sort_values(order, ascending=[True, True, True, False])
    return found.assign(**{DOUBT: is_faster(found).map({True: FASTER, False: ""})})


def is_faster(points: pd.DataFrame) -> pd.Series:
    """Find rows that are faster than one with a larger share, beyond the intervals of both.

    Args:
        points: each type, streams and size with its shares in descending order.
    """
    low = points["ci_low_s"].fillna(points["median_s"])
    high = points["ci_high_s"].fillna(points["median_s"])
    keys = [points[name] for name in (lut.DTYPE, lut.STREAMS, lut.SIZE)]
    larger = low.groupby(keys).transform(lambda times: times.cummax().shift())
    return high < larger


def text_of(rows: pd.DataFrame) -> str:
    """Format the rows as a file: comments that say where these rows are from, then the columns."""
    points = shaped(rows)
    comments = provenance(rows)
    if points["num_points"].max() > 1:
        comments += comment(f"runs: {counted(points['num_runs'])}, figures are medians over them")
    return comments + as_csv(points[[*COLUMNS, DOUBT]], "%.6g")


def provenance(rows: pd.DataFrame) -> str:
    """Format where the figures are from, as comments."""
    lines = []
    for name, words in SOURCE.items():
        values = ", ".join(map(str, rows[name].dropna().unique()))
        lines.append(f"{words}: {values or 'none'}")
    lines.append(f"measured: {rows['started_at'].min()} to {rows['started_at'].max()}")
    lines += [f"warning: {text}" for text in rows["warning"].dropna().unique()]
    return "".join(map(comment, lines))

"""The look-up table of matmul_lut as a file: what strategies of splitting look speeds up in."""

import pandas as pd

from analysis.groups import by_mechanism
from analysis.records.slowdowns import slowdowns
from analysis.repetitions import over_runs
from analysis.run_spread import counted

SUITE = "matmul_lut"
SOURCE = ["host", "device_name", "slowed_by", "threads_per_rank"]
COLUMNS = ["mps_pct", "size", "dtype", "bg_streams", "avg_ms", "tflops"]
"""As the tables of hpml_testing have them (Columbia, 2025); mps_pct is the share asked for, by whatever mechanism."""


def write(table: pd.DataFrame) -> dict[str, str]:
    """A table per machine and way to run: comments say of what, how and when; avg_ms is the mean, and tflops by it."""
    rows = measured(table)
    if rows.empty:
        return {}
    return {
        f"{SUITE}{suffix}.csv": as_csv(group)
        for suffix, group in by_mechanism(rows, "size", "slowdown", "dtype", "bg_streams")
    }


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of single ranks, each with its one factor as `slowdown`."""
    rows = table[(table["suite"] == SUITE) & (table["status"] == "ok") & (table["world_size"] == 1)]
    return rows.assign(slowdown=[each.factors[-1] for each in slowdowns(rows)])


def shares(rows: pd.DataFrame) -> pd.Series:
    """Percent of the device that was left of it."""
    sharers = rows["ranks_per_device"].where(rows["device"] == "cuda", 1)
    return (100 / sharers / rows["slowdown"]).round(3)


def shaped(rows: pd.DataFrame) -> pd.DataFrame:
    """With the table's own columns, in its order; of a repeated point medians over the runs."""
    rows = over_runs(rows.assign(mps_pct=shares(rows)), *COLUMNS[:4])
    rate = rows["useful_tflop_per_s"] * rows["median_s"] / rows["mean_s"]
    found = rows.assign(avg_ms=rows["mean_s"] * 1e3, tflops=rate)
    return found.sort_values(["dtype", "bg_streams", "size", "mps_pct"], ascending=[True, True, True, False])


def as_csv(rows: pd.DataFrame) -> str:
    """The rows as a file: comments that say where these very rows are from, then the columns."""
    points = shaped(rows)
    runs = f"# runs: {counted(points['num_runs'])}, figures are medians over them\n"
    told = provenance(rows) + (runs if points["num_points"].max() > 1 else "")
    return f"{told}{points[COLUMNS].to_csv(index=False, float_format='%.6g')}"


def provenance(rows: pd.DataFrame) -> str:
    """Where the figures are from, as comments."""
    lines = [
        f"{name.replace('_', ' ')}: {', '.join(map(str, rows[name].dropna().unique())) or 'none'}" for name in SOURCE
    ]
    lines.append(f"measured: {rows['started_at'].min()} to {rows['started_at'].max()}")
    lines += [f"warning: {text}" for text in rows["warning"].dropna().unique()]
    return "".join(f"# {line}\n" for line in lines)

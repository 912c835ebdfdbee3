"""The look-up table of matmul_lut as a file: what strategies of splitting look speeds up in."""

import pandas as pd

SUITE = "matmul_lut"
SOURCE = ["host", "device_name", "slowed_by", "threads_per_rank"]
COLUMNS = ["mps_pct", "size", "dtype", "bg_streams", "avg_ms", "tflops"]
"""As the tables of hpml_testing have them (Columbia, 2025); mps_pct is the share asked for, by whatever mechanism."""


def write(table: pd.DataFrame) -> dict[str, str]:
    """A table per machine: comments say of what, how and when; avg_ms is the mean, and tflops by it."""
    rows = table[(table["suite"] == SUITE) & (table["status"] == "ok")]
    machines = list(rows.groupby(SOURCE[:2], dropna=False))
    return {
        f"{SUITE}.csv" if len(machines) == 1 else f"{SUITE}_{host}_{device}.csv".replace(" ", "_"): (
            provenance(measured) + shaped(measured).to_csv(index=False, float_format="%.6g")
        )
        for (host, device), measured in machines
    }


def shares(rows: pd.DataFrame) -> pd.Series:
    """Percent of the device that was left of it."""
    return (100 / pd.to_numeric(rows["slowdown"])).round(3)


def shaped(rows: pd.DataFrame) -> pd.DataFrame:
    """The table's own columns, of a repeated point the last run."""
    rate = rows["useful_tflop_per_s"] * rows["median_s"] / rows["mean_s"]
    found = rows.assign(mps_pct=shares(rows), avg_ms=rows["mean_s"] * 1e3, tflops=rate).sort_values("started_at")
    found = found.drop_duplicates(COLUMNS[:4], keep="last")
    return found.sort_values(["dtype", "bg_streams", "size", "mps_pct"], ascending=[True, True, True, False])[COLUMNS]


def provenance(rows: pd.DataFrame) -> str:
    """Where the figures are from, as comments."""
    lines = [
        f"{name.replace('_', ' ')}: {', '.join(map(str, rows[name].dropna().unique())) or 'none'}" for name in SOURCE
    ]
    lines.append(f"measured: {rows['started_at'].min()} to {rows['started_at'].max()}")
    lines += [f"warning: {text}" for text in rows["warning"].dropna().unique()]
    return "".join(f"# {line}\n" for line in lines)

"""Writes tensor-parallel products in the columns of DDLB, for tools that read those."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.suites.tensor_parallel.rows import OPTIONS, SUITES
from benchkit.suites.tensor_parallel.names import DEFAULT, IMPLEMENTATION


def write(table: pd.DataFrame) -> dict[str, str]:
    """Write one CSV for both primitives, as DDLB does: times in ms, throughput by the mean time."""
    rows = table[table["suite"].isin(SUITES) & table["status"].isin(["ok", "invalid"])]
    if rows.empty:
        return {}
    options = [name for name in OPTIONS if name in rows]
    settings = zip(rows[options].to_dict("records"), rows["backend"], strict=True)
    found = pd.DataFrame(
        {
            "primitive": rows["suite"],
            "implementation": rows[IMPLEMENTATION],
            "option": [format_options(row, backend) for row, backend in settings],
            **{f"{name}_time": rows[f"{name}_s"] * 1e3 for name in ("mean", "std", "min", "max")},
            **{name: rows[name] for name in ("m", "n", "k", "dtype")},
            "Throughput (TFLOPS)": rows["useful_tflop_per_s"] * rows["median_s"] / rows["mean_s"],
            "world_size": rows["world_size"],
            "hostname": rows["host"],
            "valid": rows["status"] == "ok",
        }
    )
    return {"ddlb.csv": found.to_csv(index=False, float_format="%.6g")}


def format_options(row: Mapping[str, Any], backend: str) -> str:
    """Format "order=AG_before;chunks=4"."""
    known = {name: value for name, value in row.items() if pd.notna(value)}
    return ";".join(f"{name}={in_full(value, backend)}" for name, value in known.items())


def in_full(value: Any, backend: str) -> str:
    """Format a value; "default" is the job's backend.

    A column with gaps turns 4 into 4.0, which is formatted as "4" again.
    """
    if isinstance(value, float):
        return f"{value:g}"
    return backend if value == DEFAULT else str(value)

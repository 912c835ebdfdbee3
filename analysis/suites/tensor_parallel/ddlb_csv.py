"""Tensor-parallel products in the columns of DDLB, for whoever has tools for those."""

from typing import Any

import pandas as pd

from analysis.suites.tensor_parallel.rows import OPTIONS, SUITES


def write(table: pd.DataFrame) -> dict[str, str]:
    """One CSV for both primitives; times in ms, throughput by the mean time, as there."""
    rows = table[table["suite"].isin(SUITES) & table["status"].isin(["ok", "invalid"])]
    if rows.empty:
        return {}
    options = [name for name in OPTIONS if name in rows]
    told = [
        ";".join(f"{name}={in_full(value, backend)}" for name, value in row.items() if pd.notna(value))
        for row, backend in zip(rows[options].to_dict("records"), rows["backend"], strict=True)
    ]
    found = pd.DataFrame(
        {
            "primitive": rows["suite"],
            "implementation": rows["implementation"],
            "option": told,
            **{f"{name}_time": rows[f"{name}_s"] * 1e3 for name in ("mean", "std", "min", "max")},
            **{name: rows[name] for name in ("m", "n", "k", "dtype")},
            "Throughput (TFLOPS)": rows["useful_tflop_per_s"] * rows["median_s"] / rows["mean_s"],
            "world_size": rows["world_size"],
            "hostname": rows["host"],
            "valid": rows["status"] == "ok",
        }
    )
    return {"ddlb.csv": found.to_csv(index=False, float_format="%.6g")}


def in_full(value: Any, backend: str) -> str:
    """4, not 4.0, which a column with gaps makes of it; the job's backend where that was meant."""
    return f"{value:g}" if isinstance(value, float) else backend if value == "default" else str(value)

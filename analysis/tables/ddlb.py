"""Tensor-parallel products in the columns of DDLB, for whoever has tools for those."""

import pandas as pd

SUITES = ("tp_columnwise", "tp_rowwise")
OPTIONS = ("size", "order", "collective", "chunks", "comm_backend")


def write(table: pd.DataFrame) -> dict[str, str]:
    """One CSV for both primitives; times in ms, throughput by the mean time, as there."""
    rows = table[table["suite"].isin(SUITES) & table["status"].isin(["ok", "invalid"])]
    if rows.empty:
        return {}
    options = [name for name in OPTIONS if name in rows]
    told = [
        ";".join(f"{name}={value}" for name, value in row.items() if pd.notna(value))
        for row in rows[options].to_dict("records")
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

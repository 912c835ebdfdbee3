"""Write tensor-parallel products in the columns of DDLB; `analysis.foreign.ddlb` reads them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.results import Row
from analysis.records.suite_rows import rows_with_cases
from analysis.shared.text import as_csv
from analysis.suites.tensor_parallel.summary import OPTIONS, SHAPE, SUITES
from benchkit.record.record import CaseRecord
from benchkit.statistics.samples import slowest_rank
from benchkit.suites.tensor_parallel.config import COMM_BACKEND, DEFAULT, IMPLEMENTATION

TIME, TIMER, BARRIER, OPTION = (
    "mean_time (ms)", "time_measurement_backend", "barrier_at_each_iteration", "option",
)  # fmt: skip
CLOCKS = {"perf_counter": "cpu_clock", "cuda_event": "cuda_event"}


def ddlb_csv(table: pd.DataFrame, suites: Sequence[str] = SUITES) -> dict[str, str]:
    """Return a file per primitive, as DDLB writes: times in ms, rates per iteration.

    Only measured products, because its scripts know no others.
    """
    rows = table[table["suite"].isin(suites) & table["status"].isin(["ok", "invalid"])]
    rows = rows[rows["mean_s"].notna()]
    lines_of_suite: dict[str, list[Row]] = {}
    for row, case in rows_with_cases(rows):
        lines_of_suite.setdefault(row["suite"], []).append(line_of(row, case))
    return {
        f"ddlb_{suite}.csv": as_csv(pd.DataFrame(lines), "%.6g")
        for suite, lines in sorted(lines_of_suite.items())
    }


def line_of(row: Row, case: CaseRecord) -> Row:
    """Return the line of a case, with population standard deviations.

    Rates are of the case's own operations. DDLB always counts the whole product, by which a part of
    it would be too fast by the number of ranks. Communication has no rate.
    """
    times_ms = slowest_rank(case.samples.calls_s) * 1e3
    with np.errstate(divide="ignore"):
        rates = (case.useful_flops or np.nan) / (times_ms * 1e9)
    options = options_of(row)
    return {
        IMPLEMENTATION: label_with_options(row[IMPLEMENTATION], options),
        TIME: times_ms.mean(),
        "std_time": times_ms.std(),
        "min_time": times_ms.min(),
        "max_time": times_ms.max(),
        **{name: int(row[name]) for name in SHAPE},
        "dtype": row["dtype"],
        "Throughput (TFLOPS)": rates.mean(),
        "Throughput std (TFLOPS)": rates.std(),
        "world_size": int(row["world_size"]),
        "hostname": row["node"],
        TIMER: CLOCKS.get(row["clock"], row["clock"]),
        BARRIER: row["mode"] != "loop",
        OPTION: options,
        "valid": row["status"] == "ok",
    }


def label_with_options(implementation: str, options: str) -> str:
    """Format "pytorch (order=AG_before, backend=nccl)"."""
    return f"{implementation} ({options})" if options else implementation


def options_of(row: Row) -> str:
    """Format "order=AG_before, chunks=4, backend=gloo"."""
    values = {name: row.get(name) for name in OPTIONS if pd.notna(row.get(name))}
    named = {"backend" if name == COMM_BACKEND else name: values[name] for name in values}
    return ", ".join(
        f"{name}={format_option(value, row['backend'])}" for name, value in named.items()
    )


def format_option(value: Any, backend: str) -> str:
    """Format the value of an option; "default" is the job's backend."""
    if isinstance(value, float):  # a column with gaps turns 4 into 4.0
        return f"{value:g}"
    return backend if value == DEFAULT else str(value)

"""Reads and writes tensor-parallel products in the columns of DDLB."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from analysis.records.foreign import (
    Cells,
    Reading,
    Timing,
    deviation,
    ours,
    read_csv,
    seconds,
    status_of,
    whole,
)
from analysis.records.of_suite import cases_of
from analysis.suites.tensor_parallel.table import OPTIONS, SHAPE, SUITES
from analysis.text import as_csv
from benchkit.record.record import CaseRecord
from benchkit.statistics.summary import slowest_rank
from benchkit.suites.tensor_parallel.suite import COMM_BACKEND, DEFAULT, IMPLEMENTATION

OLD_TIME, TIME = "mean_time", "mean_time (ms)"
HEADS = frozenset((IMPLEMENTATION, "std_time", *SHAPE, "world_size"))
"""Columns by which a file is recognised."""
TIMER, BARRIER, OPTION = "time_measurement_backend", "barrier_at_each_iteration", "option"
CLOCKS = {"perf_counter": "cpu_clock", "cuda_event": "cuda_event"}
STATUSES = {"True": "ok", "False": "invalid"}
DEFAULT_SUITE, ROWWISE = SUITES


@dataclass(frozen=True, kw_only=True)
class Product(Timing):
    """A matrix product that several ranks compute together.

    Attributes:
        primitive: tp_columnwise or tp_rowwise.
        implementation: with its options, as in "pytorch (order=AG_before, backend=nccl)".
    """

    SUITE: ClassVar[str] = "tensor_parallel"
    ORDER: ClassVar[tuple[str, ...]] = (
        "primitive", "m", "n", "k", "world_size", "implementation", "source", "file",
    )  # fmt: skip

    primitive: str
    implementation: str
    m: int
    n: int
    k: int


def read(file: str, text: str) -> Reading | None:
    """Read a CSV file of DDLB; None where it is none."""
    return read_csv(file, text, HEADS, row_of)


def row_of(file: str, cells: Cells) -> Product:
    """Make a row of a line. The columns do not name the primitive, but files often do."""
    rowwise = "rowwise" in Path(file).name.lower()
    time_s = seconds(cells[TIME] if TIME in cells else cells[OLD_TIME], 1e-3)
    label, options = cells[IMPLEMENTATION], cells.get(OPTION) or ""
    return Product(
        source="ddlb",
        file=file,
        device=None if cells.get(TIMER) == "cpu_clock" else "cuda",
        world_size=whole(cells["world_size"]),
        dtype=cells["dtype"],
        time_s=time_s,
        std_s=deviation(cells["std_time"], 1e-3),
        status=status_of(time_s, STATUSES.get(cells.get("valid") or "")),
        estimator="mean over iterations",
        conversion=f"as printed{protocol(cells)}; the primitive is that of the file's name, or "
        "tp_columnwise",
        primitive=ROWWISE if rowwise else DEFAULT_SUITE,
        implementation=label if "(" in label else labelled(label, options),
        m=whole(cells["m"]),
        n=whole(cells["n"]),
        k=whole(cells["k"]),
    )


def protocol(cells: Cells) -> str:
    """Say how a line was timed, "" where it does not: rows of different protocols are no pair."""
    if not cells.get(TIMER):
        return ""
    barrier = "before each iteration" if cells.get(BARRIER) == "True" else "none"
    return f"; timer: {cells[TIMER]}, barrier: {barrier}"


def recorded(row: Mapping[str, Any]) -> Product:
    """Convert a row of a record."""
    return Product(
        **ours(row),
        primitive=row["suite"],
        implementation=labelled(str(row.get(IMPLEMENTATION)), options_of(row)),
        m=row["m"],
        n=row["n"],
        k=row["k"],
    )


def write(table: pd.DataFrame) -> dict[str, str]:
    """Write a file per primitive, as DDLB does: times in ms, rates per iteration.

    Its scripts know products that were measured, and no others.
    """
    rows = table[table["suite"].isin(SUITES) & table["status"].isin(["ok", "invalid"])]
    rows = rows[rows["mean_s"].notna()]
    found: dict[str, list[dict[str, Any]]] = {}
    for row, case in cases_of(rows):
        found.setdefault(row["suite"], []).append(line_of(row, case))
    return {
        f"ddlb_{suite}.csv": as_csv(pd.DataFrame(lines), "%.6g")
        for suite, lines in sorted(found.items())
    }


def line_of(row: Mapping[str, Any], case: CaseRecord) -> dict[str, Any]:
    """Make the line of a case; its standard deviations are those of the population.

    Rates are of the case's own operations, where DDLB always counts the whole product: a part of
    it alone would be as many times faster as there are ranks. Communication alone has none.
    """
    times_ms = slowest_rank(case.samples_taking_part) * 1e3
    with np.errstate(divide="ignore"):
        rates = (case.useful_flops or np.nan) / (times_ms * 1e9)
    options = options_of(row)
    return {
        IMPLEMENTATION: labelled(row[IMPLEMENTATION], options),
        TIME: times_ms.mean(),
        "std_time": times_ms.std(),
        "min_time": times_ms.min(),
        "max_time": times_ms.max(),
        **{name: int(row[name]) for name in SHAPE},
        "dtype": row["dtype"],
        "Throughput (TFLOPS)": rates.mean(),
        "Throughput std (TFLOPS)": rates.std(),
        "world_size": int(row["world_size"]),
        "hostname": row["host"],
        TIMER: CLOCKS.get(row["clock"], row["clock"]),
        BARRIER: row["mode"] != "loop",
        OPTION: options,
        "valid": row["status"] == "ok",
    }


def labelled(implementation: str, options: str) -> str:
    """Format "pytorch (order=AG_before, backend=nccl)"."""
    return f"{implementation} ({options})" if options else implementation


def options_of(row: Mapping[str, Any]) -> str:
    """Format "order=AG_before, chunks=4, backend=gloo"."""
    known = {name: row.get(name) for name in OPTIONS if pd.notna(row.get(name))}
    named = {"backend" if name == COMM_BACKEND else name: known[name] for name in known}
    return ", ".join(f"{name}={in_full(value, row['backend'])}" for name, value in named.items())


def in_full(value: Any, backend: str) -> str:
    """Format a value; "default" is the job's backend.

    A column with gaps turns 4 into 4.0, which is formatted as "4" again.
    """
    if isinstance(value, float):
        return f"{value:g}"
    return backend if value == DEFAULT else str(value)

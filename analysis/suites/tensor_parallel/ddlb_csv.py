"""Reads and writes tensor-parallel products in the columns of DDLB."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from analysis.records.foreign import Cells, Reading, Timing, ours, read_csv, scaled, whole
from analysis.records.of_suite import cases_of
from analysis.suites.tensor_parallel.rows import OPTIONS, SHAPE, SUITES
from benchkit.record.case import CaseRecord
from benchkit.statistics.summary import slowest_rank
from benchkit.suites.tensor_parallel.names import COMM_BACKEND, DEFAULT, IMPLEMENTATION

OLD_TIME, TIME = "mean_time", "mean_time (ms)"
HEADS = frozenset((IMPLEMENTATION, "std_time", *SHAPE, "world_size"))
"""Columns by which a file is recognised."""
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
    mean_ms = cells[TIME] if TIME in cells else cells[OLD_TIME]
    return Product(
        source="ddlb",
        file=file,
        device="cuda",
        world_size=whole(cells["world_size"]),
        dtype=cells["dtype"],
        time_s=scaled(mean_ms, 1e-3),
        std_s=scaled(cells["std_time"], 1e-3),
        status=STATUSES.get(cells.get("valid") or "", "unchecked"),
        estimator="mean over iterations",
        conversion="as printed; the primitive is that of the file's name, or tp_columnwise",
        primitive=ROWWISE if rowwise else DEFAULT_SUITE,
        implementation=cells[IMPLEMENTATION],
        m=whole(cells["m"]),
        n=whole(cells["n"]),
        k=whole(cells["k"]),
    )


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
        f"ddlb_{suite}.csv": pd.DataFrame(lines).to_csv(index=False, float_format="%.6g")
        for suite, lines in sorted(found.items())
    }


def line_of(row: Mapping[str, Any], case: CaseRecord) -> dict[str, Any]:
    """Make the line of a case; its standard deviations are those of the population."""
    times_ms = slowest_rank(case.samples_taking_part) * 1e3
    with np.errstate(divide="ignore"):
        rates = 2.0 * row["m"] * row["n"] * row["k"] / (times_ms * 1e9)
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
        "time_measurement_backend": CLOCKS.get(row["clock"], row["clock"]),
        "barrier_at_each_iteration": row["mode"] != "loop",
        "option": options,
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

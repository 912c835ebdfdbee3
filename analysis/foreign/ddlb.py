"""Read tensor-parallel products in the columns of DDLB."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from analysis.foreign.timings import (
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
from analysis.suites.tensor_parallel.ddlb_csv import (
    BARRIER,
    OPTION,
    TIME,
    TIMER,
    labelled,
    options_of,
)
from analysis.suites.tensor_parallel.table import SHAPE, SUITES
from benchkit.suites.tensor_parallel.names import IMPLEMENTATION

OLD_TIME = "mean_time"
HEADS = frozenset((IMPLEMENTATION, "std_time", *SHAPE, "world_size"))
"""Columns by which a file is recognised."""
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

"""Read tensor-parallel products of DDLB; `suites.tensor_parallel.ddlb_csv` writes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.foreign.timings import Cells, LinesByHeads, Timing, status_of
from analysis.records.results import Row
from analysis.suites.tensor_parallel.ddlb_csv import (
    BARRIER,
    OPTION,
    TIME,
    TIMER,
    label_with_options,
    options_of,
)
from analysis.suites.tensor_parallel.summary import SHAPE, SUITES
from benchkit.suites.tensor_parallel.config import IMPLEMENTATION

COLUMNWISE, ROWWISE = SUITES
OLD_TIME = "mean_time"
STATUSES = {"True": "ok", "False": "invalid"}


@dataclass(frozen=True, kw_only=True)
class ProductTiming(Timing):
    """A matrix product that is distributed over ranks.

    Attributes:
        primitive: tp_columnwise or tp_rowwise.
        implementation: name with options, as in "pytorch (order=AG_before, backend=nccl)".
    """

    SUITE = "tensor_parallel"
    ORDER = ("primitive", "m", "n", "k", "world_size", "implementation", "source", "file")

    primitive: str
    implementation: str
    m: int
    n: int
    k: int

    @classmethod
    def of_record(cls, row: Row) -> "ProductTiming":
        label = label_with_options(str(row.get(IMPLEMENTATION)), options_of(row))
        return cls.from_row(row, primitive=row["suite"], implementation=label)


def rows_of(file: str, cells: Cells) -> Iterator[ProductTiming]:
    """Yield the row of a line; the primitive is in the name of the file, not in a column."""
    rowwise = "rowwise" in Path(file).name.lower()
    time_s = cells.seconds(TIME if TIME in cells else OLD_TIME, 1e-3)
    label, options = cells.word(IMPLEMENTATION), cells.get(OPTION) or ""
    yield ProductTiming(
        source="ddlb",
        file=file,
        device=None if cells.get(TIMER) == "cpu_clock" else "cuda",
        world_size=cells.whole("world_size"),
        dtype=cells.word("dtype"),
        time_s=time_s,
        # without barriers the only sample is the total of all calls
        std_s=None if cells.get(BARRIER) == "False" else cells.deviation("std_time", 1e-3),
        status=status_of(time_s, STATUSES.get(cells.get("valid") or "")),
        estimator="mean over iterations",
        conversion=f"as printed{protocol(cells)}; the primitive is that of the file's name, or "
        "tp_columnwise",
        primitive=ROWWISE if rowwise else COLUMNWISE,
        implementation=label if "(" in label else label_with_options(label, options),
        m=cells.whole("m"),
        n=cells.whole("n"),
        k=cells.whole("k"),
    )


def protocol(cells: Cells) -> str:
    """Format the timing protocol of a line, if given: other protocols are not comparable."""
    if not cells.get(TIMER):
        return ""
    barrier = "before each iteration" if cells.get(BARRIER) == "True" else "none"
    return f"; timer: {cells[TIMER]}, barrier: {barrier}"


CSV: LinesByHeads = {frozenset((IMPLEMENTATION, "std_time", *SHAPE, "world_size")): rows_of}

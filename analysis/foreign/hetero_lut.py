"""Reads and writes matrix products by compute share in the CSV of hpml_testing (Columbia, 2025)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from analysis.foreign.timings import (
    Cells,
    Reading,
    Timing,
    ours,
    positive,
    read_csv,
    seconds,
    status_of,
    whole,
)
from analysis.records.slowdowns import Slowdown
from analysis.repetitions import by_mechanism
from analysis.suites.matmul_lut.table import COLUMNS, SUITE, of_single_ranks, shaped
from analysis.text import as_csv
from benchkit.api import lut


@dataclass(frozen=True, kw_only=True)
class Matmul(Timing):
    """A product of square matrices.

    Attributes:
        size: their rows.
        bg_streams: streams that compute at the same time.
        slowdown: 1 / the share of the device that the rank had.
    """

    SUITE: ClassVar[str] = SUITE
    ORDER: ClassVar[tuple[str, ...]] = ("size", "slowdown", "bg_streams", "source", "file")

    size: int
    bg_streams: int
    slowdown: str


def read(file: str, text: str) -> Reading | None:
    """Read a table; None where the file is none."""
    return read_csv(file, text, frozenset(COLUMNS), row_of)


def row_of(file: str, cells: Cells) -> Matmul:
    """Make a row of a line of a table."""
    time_s = seconds(cells["avg_ms"], 1e-3)
    return Matmul(
        source="hetero",
        file=file,
        world_size=1,
        dtype=cells[lut.DTYPE],
        time_s=time_s,
        status=status_of(time_s),
        estimator="mean over iterations",
        conversion=f"slowdown = 100 / {lut.SHARE}",
        size=whole(cells[lut.SIZE]),
        bg_streams=whole(cells[lut.STREAMS], least=0),
        slowdown=f"{100 / positive(cells[lut.SHARE]):g}",
    )


def recorded(row: Mapping[str, Any]) -> Matmul:
    """Convert a row of a record."""
    return Matmul(
        **ours(row),
        size=row[lut.SIZE],
        bg_streams=row[lut.STREAMS],
        slowdown=str(Slowdown.of(row["slowdown"], row["world_size"])),
    )


def export(table: pd.DataFrame) -> dict[str, str]:
    """Write a table per machine and way to run, without comments, which other scripts cannot read.

    The report writes the same tables with comments that say where the figures are from.
    """
    rows = of_single_ranks(table)
    if rows.empty:
        return {}
    groups = by_mechanism(rows, lut.SIZE, "slowdown", lut.DTYPE, lut.STREAMS)
    return {
        f"matmul_mps_sweep{suffix}.csv": as_csv(shaped(group)[COLUMNS], "%.6g")
        for suffix, group in groups
    }

"""Reads and writes ring attention in the CSV of hpml_testing (Columbia, 2025)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from analysis.records.foreign import (
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
from analysis.records.of_suite import cases_of
from analysis.records.slowdowns import Slowdown
from analysis.repetitions import by_mechanism
from analysis.suites.ring_attention.table import CELL, SUITE
from analysis.text import as_csv
from benchkit.api import lut
from benchkit.record.record import CaseRecord
from benchkit.suites.ring_attention import suite as names

SPLIT, LENGTH, TIME, SHARE = "split_type", "seq_len", "overall_latency_ms", "slowdown_pct"
HEADS = frozenset((SPLIT, LENGTH, TIME, SHARE))
"""Columns by which a file is recognised."""
REFERENCE = "reference_homogeneous"
"""What the system calls names.REFERENCE."""


@dataclass(frozen=True, kw_only=True)
class Ring(Timing):
    """A layer of ring attention.

    Attributes:
        slowdown: how many times slower the last rank was.
    """

    SUITE: ClassVar[str] = SUITE
    ORDER: ClassVar[tuple[str, ...]] = (
        "seq_len", "slowdown", "strategy", "world_size", "source", "file",
    )  # fmt: skip

    strategy: str
    seq_len: int | None
    slowdown: str


def read(file: str, text: str) -> Reading | None:
    """Read a sweep, or a profile of latencies by compute share; None where it is neither."""
    return read_csv(file, text, HEADS, row_of) or read_csv(
        file, text, frozenset(lut.LATENCIES), row_of_profile
    )


def row_of(file: str, cells: Cells) -> Ring:
    """Make a row of a line of a sweep."""
    strategy = cells[SPLIT]
    ranks = [name for name in cells if name and name.endswith("_tokens")]
    time_s = seconds(cells[TIME], 1e-3)
    return Ring(
        source="hetero",
        file=file,
        world_size=len(ranks) or None,
        time_s=time_s,
        status=status_of(time_s),
        estimator="mean over iterations of the slowest rank",
        conversion=f"slowdown = 100 / {SHARE}",
        strategy=names.REFERENCE if strategy == REFERENCE else strategy,
        seq_len=whole(cells[LENGTH]),
        slowdown=f"{100 / positive(cells[SHARE]):g}",
    )


def row_of_profile(file: str, cells: Cells) -> Ring:
    """Make a row of a line of a profile, which is of the even split and names no length."""
    time_s = seconds(cells[lut.LATENCY], 1e-3)
    return Ring(
        source="hetero",
        file=file,
        time_s=time_s,
        status=status_of(time_s),
        estimator="mean over iterations of the slowest rank",
        conversion=f"slowdown = 100 / {lut.SHARE}",
        strategy=names.EVEN,
        seq_len=None,
        slowdown=f"{100 / positive(cells[lut.SHARE]):g}",
    )


def recorded(row: Mapping[str, Any]) -> Ring:
    """Convert a row of a record."""
    return Ring(
        **ours(row),
        strategy=str(row.get(names.STRATEGY)),
        seq_len=row["seq_len"],
        slowdown=str(Slowdown.of(row["slowdown"], row["world_size"])),
    )


def export(table: pd.DataFrame) -> dict[str, str]:
    """Write a sweep per way to run, and of its even splits a profile per sequence length."""
    rows = table[(table["suite"] == SUITE) & (table["status"] == "ok")]
    if rows.empty:
        return {}
    texts = {}
    for suffix, group in by_mechanism(rows, names.STRATEGY, *CELL):
        lines = pd.DataFrame([line_of(row, case) for row, case in cases_of(group)])
        lines = lines.sort_values([LENGTH, SHARE, SPLIT], ascending=[True, False, True])
        texts[f"sweep_results{suffix}.csv"] = as_csv(lines, "%.6g")
        for length, even in lines[lines[SPLIT] == names.EVEN].groupby(LENGTH):
            columns = {SHARE: lut.SHARE, TIME: lut.LATENCY}
            profile = even.groupby(SHARE, as_index=False, sort=False)[TIME].mean()
            text = as_csv(profile.rename(columns=columns), "%.6g")
            texts[f"ring_attention_profile_{length}{suffix}.csv"] = text
    return texts


def line_of(row: Mapping[str, Any], case: CaseRecord) -> dict[str, Any]:
    """Make the line of a case: the mean of each rank, and that of the slowest rank."""
    means_ms = case.samples_taking_part.mean(axis=1) * 1e3
    strategy = row[names.STRATEGY]
    tokens = case.details.get(names.TOKENS) or [None] * len(means_ms)
    per_rank: dict[str, Any] = {}
    for rank, (own, mean_ms) in enumerate(zip(tokens, means_ms, strict=True)):
        per_rank |= {f"rank{rank}_tokens": own, f"rank{rank}_latency_ms": mean_ms}
    factor = Slowdown.of(row["slowdown"], int(row["world_size"])).factors[-1]
    return {
        SPLIT: REFERENCE if strategy == names.REFERENCE else strategy,
        LENGTH: int(row["seq_len"]),
        TIME: means_ms.max(),
        **per_rank,
        SHARE: round(100 / factor, lut.SHARE_DIGITS),
    }

"""Selects and names the rows that tables and plots of tensor-parallel products show."""

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.groups import alike
from analysis.repetitions import over_runs
from benchkit.suites.tensor_parallel import names

SUITES = ("tp_columnwise", "tp_rowwise")
OPTIONS = (names.SIZE, names.ORDER, names.COLLECTIVE, names.CHUNKS, names.COMM_BACKEND)
SHAPE = ["m", "n", "k"]
FIGURES = (
    "median_s",
    "ci_low_s",
    "ci_high_s",
    "paired_speedup",
    "paired_speedup_low",
    "paired_speedup_high",
    "limit_share",
)


def groups_of(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Group the measured rows that differ in shape and implementation alone.

    Yields:
        The suite, a suffix for names of files, and the rows of each group: one per shape and
        implementation over all runs, with a further column `name`, and FIGURES as numbers.
    """
    for suite in SUITES:
        rows = table[(table["suite"] == suite) & (table["status"] == "ok")]
        if rows.empty:
            continue
        figures = {name: pd.to_numeric(rows[name]) for name in FIGURES}
        rows = rows.assign(name=[name_of(row) for _, row in rows.iterrows()], **figures)
        for suffix, part in alike(rows, *SHAPE, names.IMPLEMENTATION, *OPTIONS):
            yield suite, suffix, over_runs(part, *SHAPE, "name")


def title_of(rows: pd.DataFrame) -> str:
    """Format "tp_rowwise: 4 ranks, float32"."""
    first = rows.iloc[0]
    return f"{first['suite']}: {first['world_size']} ranks, {first['dtype']}"


def baselines_of(rivals: pd.DataFrame) -> str:
    """Name what the speedups compare with: "pytorch AG_before"; each backend may have its own.

    Where others of a shape have a speedup, a row without one is a baseline.
    """
    lacks = rivals["paired_speedup"].isna()
    compared = (~lacks).groupby([rivals[name] for name in SHAPE]).transform("any")
    return " or ".join(rivals.loc[lacks & compared, "name"].unique()) or "the baseline"


def name_of(row: Any) -> str:
    """Format "pipeline AG_before 4 chunks": an implementation with its options."""
    words = [row[names.IMPLEMENTATION]]
    for name in OPTIONS:
        if name in row and pd.notna(row[name]) and row[name] != names.DEFAULT:
            value = row[name]
            words.append(f"{value:g} {name}" if name == names.CHUNKS else str(value))
    return in_singular(" ".join(words))


def in_singular(name: str) -> str:
    """Correct "1 chunks", which records have, too."""
    return re.sub(r"\b1 chunks\b", "1 chunk", name)


def shape_of(values: tuple[Any, ...]) -> str:
    """Format "m 512 × n 1024 × k 512"."""
    return " × ".join(f"{name} {size:.0f}" for name, size in zip(SHAPE, values, strict=True))

"""Tables of tensor-parallel products by shape: the plain orders, the fastest, and `auto`."""

import re
from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

import pandas as pd

from analysis.records.results import Row
from analysis.records.suite_rows import convert_to_numeric, measured_rows
from analysis.report.chart import PAIRED_SPEEDUPS, TIMES
from analysis.report.markdown import bullets, document, format_run_spread
from analysis.shared.text import format_with_interval
from analysis.shared.text_table import as_markdown
from analysis.table.repetitions import add_group_to_title, aggregate_runs, group_equal_except
from benchkit.suites.tensor_parallel import config as names
from benchkit.suites.tensor_parallel.config import AUTO, BOUNDS, CHOSEN, IMPLEMENTATION, PYTORCH

SUITES = ("tp_columnwise", "tp_rowwise")
OPTIONS = (names.SIZE, names.ORDER, names.COLLECTIVE, names.CHUNKS, names.COMM_BACKEND)
SHAPE = ["m", "n", "k"]
NUMBERS = (*TIMES, *PAIRED_SPEEDUPS, "limit_share")
Shapes = dict[tuple[Any, ...], dict[str, Row]]  # rows by shape and by name of the implementation


def groups_of(table: pd.DataFrame, suite: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Group measured rows; rows of a group differ only in shape and implementation.

    Each group has one row per shape and implementation over all runs, with its `name`.
    """
    rows = convert_to_numeric(measured_rows(table, suite), NUMBERS)
    if rows.empty:
        return
    rows = rows.assign(name=[name_of(row) for _, row in rows.iterrows()])
    for suffix, part in group_equal_except(rows, *SHAPE, IMPLEMENTATION, *OPTIONS):
        yield suffix, aggregate_runs(part, *SHAPE, "name")


def title_of(rows: pd.DataFrame) -> str:
    """Format "tp_rowwise: 4 ranks, float32"."""
    first = rows.iloc[0]
    return f"{first['suite']}: {first['world_size']} ranks, {first['dtype']}"


def name_of(row: Any) -> str:
    """Format "pipeline AG_before 4 chunks": an implementation with its options."""
    words = [row[IMPLEMENTATION]]
    for name in OPTIONS:
        if name in row and pd.notna(row[name]) and row[name] != names.DEFAULT:
            value = row[name]
            words.append(f"{value:g} {name}" if name == names.CHUNKS else str(value))
    return correct_plural(" ".join(words))


def correct_plural(name: str) -> str:
    """Correct "1 chunks", which also occurs in records."""
    return re.sub(r"\b1 chunks\b", "1 chunk", name)


def shape_of(values: tuple[Any, ...]) -> str:
    """Format "m 512 × n 1024 × k 512"."""
    return " × ".join(f"{name} {size:.0f}" for name, size in zip(SHAPE, values, strict=True))


def summaries(table: pd.DataFrame, suite: str) -> dict[str, str]:
    return {
        f"{suite}_summary{suffix}.md": add_group_to_title(text_of(rows), suffix)
        for suffix, rows in groups_of(table, suite)
    }


def text_of(rows: pd.DataFrame) -> str:
    rivals = rows[~rows[IMPLEMENTATION].isin(BOUNDS)]
    shapes: Shapes = {}
    for shape, part in rivals.groupby(SHAPE):
        shapes[shape] = {row["name"]: row for row in part.to_dict("records")}
    parts = [f"# {title_of(rows)}", format_run_spread(rows)]
    if lines := [line_of(shape, named) for shape, named in shapes.items()]:
        parts.append(as_markdown(lines))
    remarks: list[str] = []
    for name in rivals.loc[rivals[IMPLEMENTATION] == AUTO, "name"].unique():
        remarks += auto_remarks(shapes, name)
    if remarks:
        parts += ["## All shapes", bullets(remarks)]
    return document(*parts)


def line_of(shape: tuple[Any, ...], named: dict[str, Row]) -> Row:
    """Return the row of a shape: the plain orders, the fastest with its speedup, and `auto`."""
    line: dict[str, object] = {"shape": shape_of(shape)}
    for name, row in named.items():
        if row[IMPLEMENTATION] == PYTORCH:
            line[f"{name} [ms]"] = row["median_s"] * 1e3
    if fixed := fixed_of(named):
        best = fastest(fixed)
        line["fastest"] = best["name"]
        line["fastest [ms]"] = best["median_s"] * 1e3
        line["over the baseline"] = format_with_interval(*(best[name] for name in PAIRED_SPEEDUPS))
        line["of the limit [%]"] = 100 * best["limit_share"]
        if pd.notna(best["doubt"]):
            line["doubt"] = best["doubt"]
    for name, row in named.items():
        if row[IMPLEMENTATION] == AUTO:
            line[f"{name} [ms]"] = row["median_s"] * 1e3
            chosen = row.get(CHOSEN)
            line[f"{name} took"] = correct_plural(chosen) if isinstance(chosen, str) else None
    return line


def fixed_of(named: dict[str, Row]) -> list[Row]:
    return [row for row in named.values() if row[IMPLEMENTATION] != AUTO]


def fastest(rows: list[Row]) -> Row:
    return min(rows, key=lambda row: float(row["median_s"]))


def auto_remarks(shapes: Shapes, auto: str) -> Iterator[str]:
    """Compare `auto` with the fastest of each shape, and with the best choice for all shapes."""
    with_auto = [named for named in shapes.values() if auto in named and fixed_of(named)]
    if not with_auto:
        return
    ratios = [named[auto]["median_s"] / fastest(fixed_of(named))["median_s"] for named in with_auto]
    yield (
        f"{auto} took {geometric_mean(ratios):.3f} times as long as the fastest fixed choice of "
        f"each shape (geometric mean of {len(ratios)}; at most {max(ratios):.3f}). "
        "The fastest of many is a little too fast by chance."
    )
    of_shapes = [{row["name"] for row in fixed_of(named)} for named in with_auto]
    mean_ratio = {}
    for name in sorted(set.intersection(*of_shapes)):
        ratios_to = [named[auto]["median_s"] / named[name]["median_s"] for named in with_auto]
        mean_ratio[name] = geometric_mean(ratios_to)
    if mean_ratio:
        name = max(mean_ratio, key=lambda name: mean_ratio[name])
        yield (
            f"Of the choices made once for all shapes {name} is best; "
            f"{auto} took {mean_ratio[name]:.3f} times as long."
        )

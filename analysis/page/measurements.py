"""The table of a suite's measurements, which the browser sorts and filters."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.page.figures import Packed, sparkline
from analysis.records.columns import FIGURES
from analysis.report.chart import PAGE_ROW
from analysis.report.naming import Namer
from analysis.screen.terminal import column_of as formatted
from analysis.table.combine import heads_of, identity_columns, select_printed
from analysis.table.repetitions import REPETITION, aggregate_repetitions
from benchkit.record.naming import format_label

MOST_CHOICES = 25
"""Values of a filter; a column with more is no filter."""


@dataclass(frozen=True)
class Filter:
    """A setting in which rows differ.

    Attributes:
        column: of the combined table.
        values: as they are shown, in order.
    """

    column: str
    values: list[str]


def filters_of(rows: pd.DataFrame) -> list[Filter]:
    """Return the settings in which the rows differ, and their values in order."""
    found = []
    for column in ("status", *identity_columns(rows)):
        values = rows[column].dropna().unique().tolist()
        if rows[column].nunique(dropna=False) > 1 and len(values) <= MOST_CHOICES:
            numbers = all(isinstance(value, int | float) for value in values)
            ordered = sorted(values) if numbers else list(dict.fromkeys(values))
            missing = [None] if rows[column].isna().any() else []
            choices = map(partial(format_choice, column), [*ordered, *missing])
            found.append(Filter(column, list(dict.fromkeys(choices))))
    return found


def format_choice(column: str, value: Any) -> str:
    """Format a value of a filter; "–" stands for rows without one."""
    return "–" if pd.isna(value) else format_label(column, value)


SENTENCES = ("warning", "doubt", "unchecked", "reason")


@dataclass(frozen=True)
class MeasuredColumn:
    """A column of the table.

    Attributes:
        name: in combined.csv, or of `analysis.table.combine.printed`.
        head: in words, with the unit.
        kind: "number", "long" for sentences, or "".
    """

    name: str
    head: str
    kind: str


@dataclass(frozen=True)
class SortedCell:
    """A value of a row.

    Attributes:
        text: as it is shown.
        value: the number as in combined.csv, which it is sorted by; "" for text.
    """

    text: str
    value: str


@dataclass(frozen=True)
class MeasuredRow:
    """A row of the table.

    Attributes:
        id: of the row on the page.
        name: what sets it apart from the other rows.
        status: of the case.
        cells: one per column.
        spark: outline of the histogram of its samples, "" without any.
    """

    id: str
    name: str
    status: str
    cells: list[SortedCell]
    spark: str


@dataclass(frozen=True)
class Measurements:
    """The table of a suite.

    Attributes:
        shared: settings and values that all rows share, as text by head.
        columns: those in which rows differ.
        rows: one per case; repetitions of a sweep are merged.
        filters: settings in which rows differ.
        chosen: by row and column of the filters, the value as it is shown.
        members: by row, the ids of the rows whose samples it stands for.
    """

    shared: dict[str, str]
    columns: list[MeasuredColumn]
    rows: list[MeasuredRow]
    filters: list[Filter]
    chosen: dict[str, dict[str, str]]
    members: dict[str, list[str]]


def measurements_of(table: pd.DataFrame, samples: Packed) -> Measurements:
    """Make the table of one suite, from rows with PAGE_ROW and samples by it."""
    rows = aggregate_repetitions(table)
    shown, heads = select_printed(rows), heads_of(rows)
    shared = [
        name
        for name in shown
        if len(rows) > 1 and name not in FIGURES and shown[name].nunique(dropna=False) == 1
    ]
    columns = [
        MeasuredColumn(name, heads.get(name, name), kind_of(name, rows))
        for name in map(str, shown)
        if name not in shared
    ]
    filters = filters_of(rows)
    choices = {
        each.column: [format_choice(each.column, value) for value in rows[each.column]]
        for each in filters
    }
    chosen = zip(*choices.values(), strict=True) if choices else ([()] * len(rows))
    return Measurements(
        shared={heads.get(name, name): str(shown[name].iloc[0]) for name in map(str, shared)},
        columns=columns,
        rows=list(rows_of(rows, shown, columns, samples)),
        filters=filters,
        chosen={
            row: dict(zip(choices, values, strict=True))
            for row, values in zip(rows[PAGE_ROW], chosen, strict=True)
        },
        members=members_of(table, rows),
    )


def kind_of(name: str, rows: pd.DataFrame) -> str:
    """Return the kind of a column, which holds numbers if all of its values are numbers."""
    values = rows[name].dropna() if name in rows else pd.Series()
    if not values.empty and all(map(is_numeric, values)):
        return "number"
    return "long" if name in SENTENCES else ""


def is_numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def rows_of(
    rows: pd.DataFrame, shown: pd.DataFrame, columns: list[MeasuredColumn], samples: Packed
) -> Iterator[MeasuredRow]:
    """Yield the rows of the table; `shown` are the same, `printed`, and `samples` by PAGE_ROW."""
    name = Namer(rows)
    cells = [cells_of(column, rows, shown) for column in columns]
    heads = zip(name.rows(rows), rows[PAGE_ROW], rows["status"], strict=True)
    for (row, row_id, status), *own in zip(heads, *cells, strict=True):
        sample = samples.get(row_id)
        yield MeasuredRow(
            id=row_id,
            name=name(row),
            status=str(status),
            cells=own,
            spark=sparkline(sample["counts"]) if sample else "",
        )


def cells_of(column: MeasuredColumn, rows: pd.DataFrame, shown: pd.DataFrame) -> list[SortedCell]:
    """Make the cells of what is printed, and of the rows' own values, which they are sorted by."""
    texts = formatted(rows if column.name in FIGURES else shown, column.name).cells
    if column.kind != "number":
        return [SortedCell(text, "") for text in texts]
    values = rows[column.name].tolist()
    pairs = zip(texts, values, strict=True)
    return [SortedCell(text, repr(float(value)) if text else "") for text, value in pairs]


def members_of(table: pd.DataFrame, rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return, by the ids of merged rows, the ids of all rows that were merged into them."""
    if len(rows) == len(table):
        return {row: [row] for row in table[PAGE_ROW]}
    sweeps = table["run"].astype("string").str.replace(REPETITION, "", regex=True)
    columns = [*identity_columns(table), "sweep"]
    point = table.assign(sweep=sweeps).groupby(columns, dropna=False, sort=False).ngroup()
    ids = table[PAGE_ROW].groupby(point).agg(list)
    return {row: ids[point[index]] for index, row in rows[PAGE_ROW].items()}

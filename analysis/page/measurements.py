"""The table of a suite's measurements; the browser sorts and filters it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.page.figures import Packed, sparkline
from analysis.records.columns import FIGURES
from analysis.report.chart import PAGE_ROW
from analysis.report.naming import Namer
from analysis.screen.terminal import column_of as terminal_column
from analysis.table.combine import heads_of, identity_columns, select_printed
from analysis.table.repetitions import REPETITION, aggregate_repetitions
from benchkit.record.naming import format_label

MOST_CHOICES = 25
"""Most values of a filter."""


@dataclass(frozen=True)
class Filter:
    """A setting in which rows differ.

    Attributes:
        column: column of the combined table.
        values: formatted values, in order.
    """

    column: str
    values: list[str]


def filters_of(rows: pd.DataFrame) -> list[Filter]:
    """Return the settings in which rows differ, with their values in order."""
    filters = []
    for column in ("status", *identity_columns(rows)):
        values = rows[column].dropna().unique().tolist()
        if rows[column].nunique(dropna=False) > 1 and len(values) <= MOST_CHOICES:
            numbers = all(isinstance(value, int | float) for value in values)
            ordered = sorted(values) if numbers else list(dict.fromkeys(values))
            missing = [None] if rows[column].isna().any() else []
            choices = map(partial(format_choice, column), [*ordered, *missing])
            filters.append(Filter(column, list(dict.fromkeys(choices))))
    return filters


def format_choice(column: str, value: Any) -> str:
    """Format a value of a filter; "–" for missing."""
    return "–" if pd.isna(value) else format_label(column, value)


SENTENCES = ("warning", "doubt", "unchecked", "reason")


@dataclass(frozen=True)
class MeasuredColumn:
    """A column of the table.

    Attributes:
        name: name in combined.csv, or of `analysis.table.combine.select_printed`.
        head: header with the unit.
        kind: "number", "long" for sentences, or "".
    """

    name: str
    head: str
    kind: str


@dataclass(frozen=True)
class SortedCell:
    """A value of a row.

    Attributes:
        text: formatted value.
        value: sort key, the number in combined.csv; "" for text.
    """

    text: str
    value: str


@dataclass(frozen=True)
class MeasuredRow:
    """A row of the table.

    Attributes:
        id: id of the row on the page.
        name: settings in which it differs from other rows.
        status: status of the case.
        cells: one per column.
        spark: sparkline of the histogram of its samples; "" without samples.
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
        shared: constant settings and values, as text by header.
        columns: columns in which rows differ.
        rows: one per case; repetitions of a sweep are merged.
        filters: settings in which rows differ.
        chosen: formatted value by row and column of the filters.
        members: ids of the rows that were merged, by row.
    """

    shared: dict[str, str]
    columns: list[MeasuredColumn]
    rows: list[MeasuredRow]
    filters: list[Filter]
    chosen: dict[str, dict[str, str]]
    members: dict[str, list[str]]


def measurements_of(table: pd.DataFrame, samples: Packed) -> Measurements:
    """Make the table of one suite, from rows with PAGE_ROW and samples by PAGE_ROW."""
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
        setting.column: [format_choice(setting.column, value) for value in rows[setting.column]]
        for setting in filters
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
    """Return the kind of a column: "number" if all of its values are numbers."""
    values = rows[name].dropna() if name in rows else pd.Series()
    if not values.empty and all(map(is_numeric, values)):
        return "number"
    return "long" if name in SENTENCES else ""


def is_numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def rows_of(
    rows: pd.DataFrame, shown: pd.DataFrame, columns: list[MeasuredColumn], samples: Packed
) -> Iterator[MeasuredRow]:
    """Yield the rows of the table; `shown` are the same `select_printed`, `samples` by PAGE_ROW."""
    name = Namer(rows)
    cells = [cells_of(column, rows, shown) for column in columns]
    heads = zip(name.rows(rows), rows[PAGE_ROW], rows["status"], strict=True)
    for (row, row_id, status), *row_cells in zip(heads, *cells, strict=True):
        sample = samples.get(row_id)
        yield MeasuredRow(
            id=row_id,
            name=name(row),
            status=str(status),
            cells=row_cells,
            spark=sparkline(sample["counts"]) if sample else "",
        )


def cells_of(column: MeasuredColumn, rows: pd.DataFrame, shown: pd.DataFrame) -> list[SortedCell]:
    """Make the cells of a column: printed texts, with the values of `rows` as sort keys."""
    texts = terminal_column(rows if column.name in FIGURES else shown, column.name).cells
    if column.kind != "number":
        return [SortedCell(text, "") for text in texts]
    values = rows[column.name].tolist()
    pairs = zip(texts, values, strict=True)
    return [SortedCell(text, repr(float(value)) if text else "") for text, value in pairs]


def members_of(table: pd.DataFrame, rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the ids of the rows that were merged, by id of the merged row."""
    if len(rows) == len(table):
        return {row: [row] for row in table[PAGE_ROW]}
    sweeps = table["run"].astype("string").str.replace(REPETITION, "", regex=True)
    columns = [*identity_columns(table), "sweep"]
    point = table.assign(sweep=sweeps).groupby(columns, dropna=False, sort=False).ngroup()
    ids = table[PAGE_ROW].groupby(point).agg(list)
    return {row: ids[point[index]] for index, row in rows[PAGE_ROW].items()}

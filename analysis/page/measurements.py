"""The table of a suite's measurements, which the browser sorts and filters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.page.figures import sparkline
from analysis.records.columns import METRICS
from analysis.repetitions import REPETITION, over_repetitions
from analysis.report.chart import PAGE_ROW
from analysis.report.naming import Namer
from analysis.table import SPREADS, for_print, head_of, identity_columns
from analysis.terminal import BY_NAME
from analysis.terminal import column_of as formatted
from analysis.text import figure
from benchkit.record.naming import named

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
            choices = map(partial(choice, column), [*ordered, *missing])
            found.append(Filter(column, list(dict.fromkeys(choices))))
    return found


def choice(column: str, value: Any) -> str:
    """Format a value of a filter; "–" stands for rows without one."""
    return "–" if pd.isna(value) else named(column, value)


NAMES = {head_of(metric): metric.name for metric in METRICS}
NAMES |= {head: name for name, head in SPREADS.items()}
"""Columns of the table by their heads in print; all other heads are names of columns."""
SENTENCES = ("warning", "doubt", "unchecked", "reason")
Packed = Mapping[str, Mapping[str, Any]]
"""Samples by the ids of rows."""


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        name: in combined.csv.
        head: in words, with the unit.
        kind: "number", "long" for sentences, or "".
    """

    name: str
    head: str
    kind: str


@dataclass(frozen=True)
class Cell:
    """A value of a row.

    Attributes:
        text: as it is shown.
        value: the number as in combined.csv, which it is sorted by; "" for text.
    """

    text: str
    value: str


@dataclass(frozen=True)
class Row:
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
    cells: list[Cell]
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
    columns: list[Column]
    rows: list[Row]
    filters: list[Filter]
    chosen: dict[str, dict[str, str]]
    members: dict[str, list[str]]


def measurements_of(table: pd.DataFrame, samples: Packed) -> Measurements:
    """Make the table of the rows of one suite.

    Args:
        table: rows of the combined table, with PAGE_ROW.
        samples: by PAGE_ROW.
    """
    rows = over_repetitions(table)
    shown = for_print(rows)
    heads = [str(head) for head in shown]
    shared = [
        head
        for head in heads
        if len(rows) > 1 and head not in NAMES and shown[head].nunique(dropna=False) == 1
    ]
    columns = [column_of(head, rows) for head in heads if head not in shared]
    filters = filters_of(rows)
    return Measurements(
        shared={head: str(shown[head].iloc[0]) for head in shared},
        columns=columns,
        rows=list(rows_of(rows, shown, columns, samples)),
        filters=filters,
        chosen={
            row[PAGE_ROW]: {each.column: choice(each.column, row[each.column]) for each in filters}
            for _, row in rows.iterrows()
        },
        members=members_of(table, rows),
    )


def column_of(head: str, rows: pd.DataFrame) -> Column:
    """Return the column of a head, which holds numbers if all of its values are numbers."""
    name = NAMES.get(head, head)
    values = rows[name].dropna() if name in rows else pd.Series()
    is_number = not values.empty and all(map(is_numeric, values))
    return Column(name, head, "number" if is_number else "long" if name in SENTENCES else "")


def is_numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def rows_of(
    rows: pd.DataFrame, shown: pd.DataFrame, columns: list[Column], samples: Packed
) -> Iterator[Row]:
    """Yield the rows of the table.

    Args:
        shown: the same rows as they are printed.
        samples: by PAGE_ROW.
    """
    name = Namer(rows)
    texts = shown.assign(**{
        column.head: formatted(rows, column.name).cells
        for column in columns
        if column.name in BY_NAME or column.name in SPREADS
    })  # fmt: skip
    for (_, row), printed in zip(rows.iterrows(), texts.to_dict("records"), strict=True):
        sample = samples.get(row[PAGE_ROW])
        yield Row(
            id=row[PAGE_ROW],
            name=name(row),
            status=str(row["status"]),
            cells=[cell_of(column, printed[column.head], row) for column in columns],
            spark=sparkline(sample) if sample else "",
        )


def cell_of(column: Column, printed: Any, row: Any) -> Cell:
    """Make a cell of what is printed, and of the row's own value, which it is sorted by."""
    if pd.isna(printed) or printed == "":
        return Cell("", "")
    text = figure(printed) if isinstance(printed, float) else str(printed)
    return Cell(text, repr(float(row[column.name])) if column.kind == "number" else "")


def members_of(table: pd.DataFrame, rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return, by the ids of merged rows, the ids of all rows that were merged into them."""
    if len(rows) == len(table):
        return {row: [row] for row in table[PAGE_ROW]}
    sweeps = table["run"].astype("string").str.replace(REPETITION, "", regex=True)
    columns = [*identity_columns(table), "sweep"]
    point = table.assign(sweep=sweeps).groupby(columns, dropna=False, sort=False).ngroup()
    ids = table[PAGE_ROW].groupby(point).agg(list)
    return {row: ids[point[index]] for index, row in rows[PAGE_ROW].items()}

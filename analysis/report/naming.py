"""Name rows in sentences by the settings in which they differ."""

from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Any

import pandas as pd

from analysis.records.results import Row
from analysis.table.combine import identity_columns, is_repeated
from benchkit.record.naming import format_label


class Namer:
    """Name rows by the settings that vary in their suite: "allreduce (world_size=2)"."""

    def __init__(self, among: pd.DataFrame, *without: str) -> None:
        self.among, self.without = among, without

    @cached_property
    def columns(self) -> dict[Any, list[str]]:
        """Columns that name the rows, by suite."""
        ignored, among = ("suite", *self.without), self.among
        columns = [name for name in identity_columns(among) if name not in ignored]
        repeated = ["run"] if is_repeated(among) else []
        return {
            suite: [name for name in columns if rows[name].nunique(dropna=False) > 1] + repeated
            for suite, rows in among.groupby("suite")
        }

    def rows(self, table: pd.DataFrame, *columns: str) -> list[Row]:
        """Return rows as dictionaries with some columns and those that name them.

        As pandas objects with all columns, thousands of rows would take seconds.
        """
        if table.empty:
            return []
        named = chain.from_iterable(self.columns.values())
        shown = dict.fromkeys(("suite", "title", "world_size", *columns, *named))
        rows: list[Row] = table[list(shown)].to_dict("records")
        return rows

    def __call__(self, row: Any, *without: str) -> str:
        title = operation(row)
        columns = self.columns[row["suite"]]
        names = [name for name in columns if name not in without and row[name] != title]
        described = settings(row, names)
        return f"{title} ({described})" if described else title


def operation(row: Any) -> str:
    """Return the title of a row, such as "all_reduce"; its suite if it has no title."""
    return str(row["suite"] if pd.isna(row["title"]) else row["title"])


def settings(row: Any, columns: Iterable[str]) -> str:
    """Format the known settings of a row: "world_size=2, data_size=100 MiB"."""
    return ", ".join(
        f"{name}={format_label(name, row[name])}" for name in columns if pd.notna(row[name])
    )

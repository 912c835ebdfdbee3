"""Names of rows for sentences."""

from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Any

import pandas as pd

from analysis.records.results import Row
from analysis.table.combine import identity_columns, is_repeated
from benchkit.record.naming import format_label


class Namer:
    """Name rows by what sets them apart from others of their suite: "allreduce (world_size=2)"."""

    def __init__(self, among: pd.DataFrame, *without: str) -> None:
        self.among, self.without = among, without

    @cached_property
    def columns(self) -> dict[Any, list[str]]:
        """The columns that name the rows of each suite."""
        ignored, among = ("suite", *self.without), self.among
        columns = [name for name in identity_columns(among) if name not in ignored]
        repeated = ["run"] if is_repeated(among) else []
        return {
            suite: [name for name in columns if rows[name].nunique(dropna=False) > 1] + repeated
            for suite, rows in among.groupby("suite")
        }

    def rows(self, table: pd.DataFrame, *columns: str) -> list[Row]:
        """Return rows as dictionaries with some columns and with those that name them.

        Thousands of rows of all columns, as objects of pandas, would take seconds.
        """
        if table.empty:
            return []
        named = chain.from_iterable(self.columns.values())
        shown = dict.fromkeys(("suite", "title", "world_size", *columns, *named))
        rows: list[Row] = table[list(shown)].to_dict("records")
        return rows

    def __call__(self, row: Any, *without: str) -> str:
        of = operation(row)
        columns = self.columns[row["suite"]]
        shown = [name for name in columns if name not in without and row[name] != of]
        held = settings(row, shown)
        return f"{of} ({held})" if held else of


def operation(row: Any) -> str:
    """Return what was measured: "all_reduce", or the suite where it has no such name."""
    return str(row["suite"] if pd.isna(row["title"]) else row["title"])


def settings(row: Any, columns: Iterable[str]) -> str:
    """Format the known settings of a row: "world_size=2, data_size=100 MiB"."""
    return ", ".join(
        f"{name}={format_label(name, row[name])}" for name in columns if pd.notna(row[name])
    )

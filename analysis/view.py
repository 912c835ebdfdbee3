"""What a reader asks of the table: some rows, in some order, with some columns, or groups."""

import argparse
import difflib
from dataclasses import dataclass
from tokenize import TokenError
from typing import Any

import numpy as np
import pandas as pd
from pandas.errors import UndefinedVariableError

from analysis.shown import BY_NAME
from analysis.terminal import as_text

DESCENDING = ":desc"
EXAMPLE = 'e.g. "world_size == 2"'


class ViewError(ValueError):
    """A view of columns that the table does not have, or of an expression that is none."""


class NoRowError(Exception):
    """No row of the table is what was asked for."""


@dataclass(frozen=True)
class View:
    """One reader's view.

    Attributes:
        columns: to show, in this order; none for those that tell most.
        sort: columns to sort by, each with DESCENDING or without.
        top: the most rows to show; 0 for all.
        where: an expression of pandas.DataFrame.query; "" for all rows.
        group_by: columns whose values make a row each; none for no groups.
    """

    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    top: int = 0
    where: str = ""
    group_by: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self == View()

    def text_of(self, table: pd.DataFrame) -> str:
        """Render the table as the view shows it.

        Raises:
            ViewError: the message says in one line what is wrong and what is allowed.
            NoRowError: no row is left.
        """
        rows = rows_where(table, self.where) if self.where else table
        if self.group_by:
            rows = grouped(rows, [key_of(rows, name) for name in self.group_by])
        if self.sort:
            names = [known(rows, each.removesuffix(DESCENDING), "--sort") for each in self.sort]
            ascending = [not each.endswith(DESCENDING) for each in self.sort]
            rows = rows.sort_values(names, ascending=ascending, kind="stable")
        rows = rows.iloc[: self.top or None]
        columns = [known(rows, name, "--columns") for name in self.columns]
        return as_text(rows, columns or (list(rows) if self.group_by else ()))


def known(table: pd.DataFrame, name: str, option: str) -> str:
    """Return the name of a column.

    Raises:
        ViewError: the table does not have it.
    """
    if name in table:
        return name
    raise ViewError(f"{option} {name}: {no_column(table, name)}")


def no_column(table: pd.DataFrame, name: str) -> str:
    """Say that a name is no column, and which ones are similar."""
    near = difflib.get_close_matches(name, map(str, table), n=3)
    near = near or [str(column) for column in table if name in str(column)][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else "combined.csv has the names"
    return f"no such column; {hint}"


def key_of(table: pd.DataFrame, name: str) -> str:
    """Return the name of a column whose values make groups.

    Raises:
        ViewError: the table does not have it, or it holds figures.
    """
    if known(table, name, "--group-by") in BY_NAME:
        raise ViewError(f"--group-by {name}: a figure; allowed are settings, such as world_size")
    return name


def rows_where(table: pd.DataFrame, expression: str) -> pd.DataFrame:
    """Return the rows for which an expression such as "world_size == 2" holds.

    Raises:
        ViewError: it cannot be evaluated, or is no condition.
        NoRowError: no row is left.
    """
    what = f"--where {expression!r}"
    try:
        holds = table.eval(expression, engine="python", local_dict={}, global_dict={})
    except Exception as error:  # of the tokenizer, the parser, pandas, or of the operation itself
        raise ViewError(f"{what}: {reason_of(error, table)}") from None
    if not isinstance(holds, pd.Series) or not is_condition(holds):
        raise ViewError(f"{what}: not a condition on rows; {EXAMPLE}")
    rows = table[holds.eq(True)]
    if rows.empty:
        raise NoRowError(f"{what}: no row of {len(table)} matches")
    return rows


def is_condition(values: pd.Series) -> bool:
    """Return whether all values are true, false or missing."""
    return all(isinstance(value, bool | np.bool_) for value in values.dropna())


def reason_of(error: Exception, table: pd.DataFrame) -> str:
    """Say why an expression cannot be evaluated, and what helps."""
    if isinstance(error, UndefinedVariableError):
        name = str(error).split("'")[1]
        if table.isin([name]).any(axis=None):
            return f'{name}: no column, but a value; write it in quotes, as in timing == "{name}"'
        return f"{name}: {no_column(table, name)}"
    if isinstance(error, SyntaxError | TokenError):
        return f"not a valid expression; {EXAMPLE}, with a column named like a keyword as `pass`"
    lines = str(error).splitlines() or [type(error).__name__]
    return f"{lines[0]}; {EXAMPLE}"


def grouped(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a row per group: how many rows, and the median of their medians with its range.

    Where rows of a group were not measured, `measured` says how many were.
    """
    times = table["median_s"].where(table["status"] == "ok")
    groups = table.assign(median_s=times).groupby(names, dropna=False, sort=False)["median_s"]
    found = groups.agg(rows="size", measured="count", median_s="median", min_s="min", max_s="max")
    if found["measured"].equals(found["rows"]):
        found = found.drop(columns="measured")
    return found.reset_index()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a view to a command line."""
    group = parser.add_argument_group(
        "a view", "With one of these only the table is printed, and no file is written."
    )
    names: dict[str, Any] = {"metavar": "NAME[,NAME]", "type": names_in, "default": ()}
    group.add_argument("--columns", help="columns of combined.csv to show", **names)
    order = f"columns to sort by; NAME{DESCENDING} for descending"
    group.add_argument("--sort", help=order, **names)
    group.add_argument("--top", metavar="N", type=positive, default=0, help="the first N rows only")
    some = 'only some rows, e.g. "world_size == 2 and data_size > 1"'
    group.add_argument("--where", metavar="CONDITION", default="", help=some)
    group.add_argument("--group-by", help="a row per value of some columns", **names)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed are whole numbers >= 1")
    return int(text)


def names_in(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def view_of(options: argparse.Namespace) -> View:
    """Return the view that a command line asks for."""
    return View(options.columns, options.sort, options.top, options.where, options.group_by)

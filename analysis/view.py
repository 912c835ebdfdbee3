"""What a reader asks of the table: some rows, in some order, with some columns, or groups."""

import argparse
import difflib
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.terminal import as_text

DESCENDING = ":desc"


class ViewError(ValueError):
    """A view of columns that the table does not have, or of an expression that is none."""


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
        """
        rows = rows_where(table, self.where) if self.where else table
        if self.group_by:
            rows = grouped(rows, [known(rows, name, "--group-by") for name in self.group_by])
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
    near = difflib.get_close_matches(name, map(str, table), n=3)
    near = near or [str(column) for column in table if name in str(column)][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else "combined.csv has the names"
    raise ViewError(f"{option} {name}: no such column; {hint}")


def rows_where(table: pd.DataFrame, expression: str) -> pd.DataFrame:
    """Return the rows for which an expression such as "world_size == 2" holds.

    Raises:
        ViewError: it cannot be evaluated, or is no condition.
    """
    try:
        rows = table.query(expression, engine="python", local_dict={}, global_dict={})
    except (ValueError, KeyError, TypeError, NameError, SyntaxError, AttributeError) as error:
        why = str(error).strip("'\"").splitlines()[0]
        raise ViewError(f'--where {expression!r}: {why}; e.g. "world_size == 2"') from None
    if not isinstance(rows, pd.DataFrame):
        raise ViewError(f'--where {expression!r}: no condition on rows; e.g. "world_size == 2"')
    return rows


def grouped(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a row per group: how many rows, and the median of their medians with its range."""
    groups = table[table["status"] == "ok"].groupby(names, dropna=False, sort=False)["median_s"]
    found = groups.agg(["size", "median", "min", "max"]).reset_index()
    return found.rename(columns={
        "size": "rows", "median": "median_s", "min": "min_s", "max": "max_s",
    })  # fmt: skip


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
    return tuple(name.strip() for name in text.split(",") if name.strip())


def view_of(options: argparse.Namespace) -> View:
    """Return the view that a command line asks for."""
    return View(options.columns, options.sort, options.top, options.where, options.group_by)

"""The table on a terminal: the rows of a view, and the most informative columns.

All columns are in combined.csv; full_results.md has those that a reader may want.
"""

import argparse
import difflib
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from textwrap import fill, shorten
from tokenize import TokenError
from typing import Any

import numpy as np
import pandas as pd
from pandas.errors import UndefinedVariableError

from analysis.records.columns import FIGURES, SPREADS, names_of
from analysis.shared import text_table
from analysis.shared.text import (
    format_measurement,
    format_medians,
    format_number,
    half_width,
    interval_head,
    setting_words,
    shorten_reason,
)
from analysis.shared.text_table import NUMBERS, SENTENCES, WIDE_GAP, WORDS, TextColumn, TextTable
from analysis.table.combine import (
    CONDITIONS,
    SETTINGS,
    is_repeated,
    oversubscribed_ranks,
    oversubscribed_rows,
    partial_columns,
    reasons,
    suite_columns,
)
from analysis.table.repetitions import INTERVALS, RATES
from benchkit.errors import ConfigError
from benchkit.record.naming import format_label

LONG = 40
"""Letters beyond which a text is wrapped."""
NUMBER = re.compile(r"\d+(\.\d+)?")
Outcome = tuple[str, str]
"""A status and its reason."""


def column_of(table: pd.DataFrame, name: str) -> TextColumn:
    """Return a column of the combined table with its values formatted."""
    values = table[name]
    if column := FIGURES.get(name):
        numbers, halves = pd.to_numeric(values), half_widths(table, name)
        pairs = zip(numbers * column.scale, halves * column.scale, strict=True)
        cells = [format_measurement(*pair) for pair in pairs]
        return TextColumn(column.head.replace(" [", "\n["), cells, NUMBERS)
    if name == "data_size":
        cells = texts(values.map(lambda size: format_label(name, size), "ignore"))
        return TextColumn(name, cells, NUMBERS)
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return TextColumn(name, [format_number(value) for value in values], NUMBERS)
    cells = texts(values)
    return TextColumn(name, cells, SENTENCES if max(map(len, cells)) > LONG else WORDS)


def half_widths(table: pd.DataFrame, name: str) -> pd.Series:
    """Return half the interval of each value of a metric, or of its bounds; NaN without one.

    That of a rate is in proportion to that of the median.
    """
    metrics = (metric for metric, columns in INTERVALS.items() if name in (metric, *columns))
    metric = "median_s" if name in RATES else next(metrics, "")
    unknown = pd.Series(math.nan, index=table.index)
    if metric not in table:
        return unknown
    low, high, *_ = (pd.to_numeric(table.get(bound, unknown)) for bound in INTERVALS[metric])
    halves = half_width(low, high)
    return halves * (table[name] / table[metric]).abs() if name in RATES else halves


def texts(values: Iterable[Any]) -> list[str]:
    return ["" if pd.isna(value) else str(value) for value in values]


def case_names(table: pd.DataFrame, names: list[str]) -> list[str]:
    """Join the settings of each row that vary within its suite: "pipeline AG_before chunks 4"."""

    def word(name: str, value: Any) -> str:
        return value if isinstance(value, str) else f"{name} {format_label(name, value)}"

    return list(map(" ".join, setting_words(table, names, word)))


def outcomes(table: pd.DataFrame) -> Iterator[Outcome]:
    """Yield the status of each row, and the reason where it is not ok."""
    yield from zip(table["status"], reasons(table).map(shorten_reason), strict=True)


def number_outcomes(table: pd.DataFrame) -> dict[Outcome, int]:
    """Number the outcomes other than ok, from 1 on; those that differ in numbers only share one."""
    kinds: dict[Outcome, int] = {}
    numbers: dict[Outcome, int] = {}
    for status, reason in outcomes(table):
        if status != "ok":
            kind = (status, NUMBER.sub("0", reason))
            numbers[status, reason] = kinds.setdefault(kind, len(kinds) + 1)
    return numbers


WIDTH = 120
"""Letters of a line where the output is no terminal."""
ALWAYS = ("suite", "backend", "world_size", "data_size")
"""Settings that have their own columns, also where others are joined for lack of room."""
OVERSUBSCRIBED = "[!]"
"""Marks a median of oversubscribed ranks."""
SIMILAR = " (other numbers in other rows)"
MOST_FIGURES, MOST_NOTES = 3, 3
TELLING = (
    "first_call_s", "compile_s", "recompilations",
    "paired_speedup", "limit_share", "overlap", "efficiency", "scaling_efficiency",
    "mfu_full", "host_bound", "tokens_per_second", "busbw_gb_per_s", "useful_tflop_per_s",
    *names_of(SPREADS), "regret",
    "comm_share", "turns_ratio", "predicted_s", "p95_s", "start_skew_s", "mean_s",
    "p25_s", "algbw_gb_per_s", "num_samples",
)  # fmt: skip
"""Metrics by importance: the first MOST_FIGURES of a table are shown, as far as they fit."""


def as_text(table: pd.DataFrame, columns: Sequence[str] = (), width: int | None = None) -> str:
    """Render the combined table for a terminal; what all rows share is printed once, above it.

    Args:
        columns: names of the columns to show; by default the most informative ones.
        width: letters of a line; by default those of the terminal.
    """
    width = width or shutil.get_terminal_size((WIDTH, 0)).columns
    rows = table.iloc[: text_table.MOST_ROWS]
    if columns:
        lines = [TextTable([column_of(rows, name) for name in columns]).fit_width(width)]
    else:
        head, shown, left_out = choose_columns(rows, width)
        of_all = "All rows: " if len(table) > 1 else ""
        lines = [fill(f"{of_all}{head}", width, break_on_hyphens=False) + "\n"] if head else []
        lines.append(TextTable(shown).fit_width(width))
        if left_out:
            line = f"Other columns: --columns {','.join(left_out)}"
            lines.append(shorten(line, width, placeholder=" …"))
    return "\n".join(
        [*lines, *text_table.truncation_lines(len(table)), *(() if columns else notes(rows))]
    )


def choose_columns(table: pd.DataFrame, width: int) -> tuple[str, list[TextColumn], list[str]]:
    """Choose columns that fit.

    Returns:
        What all rows share, the columns, and the names of metrics without room.
    """
    differing = [name for name in CONDITIONS if table[name].nunique(dropna=False) > 1]
    lacking = partial_columns(table)
    names = [*SETTINGS, *(name for name in suite_columns(table) if name not in lacking), *differing]
    with_values = [name for name in names if table[name].notna().any() and name != "status"]
    shared = [name for name in with_values if table[name].nunique(dropna=False) == 1]
    head = ", ".join(f"{name} {format_label(name, table[name].iloc[0])}" for name in shared)
    settings = [name for name in with_values if name not in shared]
    middle = [column_of(table, "run")] if is_repeated(table) else []
    middle.append(median_column(table))
    room = width + WIDE_GAP  # No gap follows the last column.
    first = settings_within(table, settings, lacking, room - width_of(middle))
    room -= width_of([*first, *middle])
    metrics = [name for name in TELLING if name in table and table[name].notna().any()]
    kept: list[TextColumn] = []
    for column in (column_of(table, name) for name in metrics[:MOST_FIGURES]):
        room -= width_of([column])
        if room >= 0:
            kept.append(column)
    return head, [*first, *middle, *kept], metrics[len(kept) :]


def median_column(table: pd.DataFrame) -> TextColumn:
    """Return the column of the medians, which has the outcome of rows that were not measured."""
    numbers = number_outcomes(table)
    outcome_texts = [
        f"{outcome[0]} ({numbers[outcome]})" if outcome in numbers else ""
        for outcome in outcomes(table)
    ]
    marks = [OVERSUBSCRIBED * is_marked for is_marked in oversubscribed_rows(table)]
    cells = [
        " ".join(filter(None, parts))
        for parts in zip(format_medians(table), marks, outcome_texts, strict=True)
    ]
    is_measured = table["median_s"].notna().any()
    head = f"median [ms]\n{interval_head(table)}" if is_measured else "outcome"
    return TextColumn(head, cells, NUMBERS if is_measured else WORDS)


def settings_within(
    table: pd.DataFrame, settings: list[str], lacking: list[str], room: int
) -> list[TextColumn]:
    """Return a column per setting, or one that joins most of them where these are too wide.

    Args:
        lacking: names of further ones, which some suites do not have.
        room: letters for all columns.
    """
    columns = [column_of(table, name) for name in settings]
    if not lacking and width_of(columns) <= room:
        return columns
    kept = [name for name in settings if name in ALWAYS]
    case = case_names(table, [name for name in [*settings, *lacking] if name not in kept])
    columns = [column_of(table, name) for name in kept]
    return [*columns, TextColumn("case", case, SENTENCES)] if any(case) else columns


def width_of(columns: Sequence[TextColumn]) -> int:
    return sum(column.width + WIDE_GAP for column in columns)


def notes(table: pd.DataFrame) -> list[str]:
    """Return lines on what does not fit into cells: reasons, warnings and doubts."""
    outcomes_by_number: dict[int, list[Outcome]] = {}
    for outcome, number in number_outcomes(table).items():
        outcomes_by_number.setdefault(number, []).append(outcome)
    lines = []
    for number, [(status, reason), *similar] in outcomes_by_number.items():
        lines.append(f"({number}) {status}: {reason}{SIMILAR if similar else ''}")
    if ranks := oversubscribed_ranks(table):
        lines.append(f"{OVERSUBSCRIBED}: {ranks}")
    for name in ("warning", "doubt", "unchecked"):
        counts = Counter(map(shorten_reason, table[name].dropna() if name in table else ()))
        for text, count in counts.most_common(MOST_NOTES):
            lines.append(f"{name}: {text} ({count} row{'s' * (count > 1)})")
        if len(counts) > MOST_NOTES:
            lines.append(f"and {len(counts) - MOST_NOTES} more like it: see full_results.md")
    return lines


DESCENDING = ":desc"
EXAMPLE = 'e.g. "world_size == 2"'
ONLY_FIGURES = "groups have medians of figures, such as mean_s"


class ViewError(ConfigError):
    """A view has a column that the table lacks, or an invalid expression."""


class NoRowError(Exception):
    """No row of the table matches."""


@dataclass(frozen=True)
class View:
    """A choice of rows and columns, or of groups of rows.

    Attributes:
        columns: to show, in this order; none for the most informative ones.
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
        keys = [require_group_key(rows, name) for name in self.group_by]
        if keys:
            rows = aggregate_groups(rows, keys)
        if self.sort:
            by = [key.removesuffix(DESCENDING) for key in self.sort]
            names = [require_column(rows, name, "--sort", table) for name in by]
            ascending = [not key.endswith(DESCENDING) for key in self.sort]
            rows = rows.sort_values(names, ascending=ascending, kind="stable")
        rows = rows.iloc[: self.top or None]
        columns = [require_column(rows, name, "--columns", table) for name in self.columns]
        if keys:
            columns = list(dict.fromkeys([*keys, *(columns or group_columns(rows))]))
        return as_text(rows, columns)


def require_column(
    table: pd.DataFrame, name: str, option: str, ungrouped: Iterable[str] = ()
) -> str:
    """Return the name of a column; raise ViewError where the table lacks it.

    Args:
        ungrouped: columns of the table before grouping.
    """
    if name in table:
        return name
    why = ONLY_FIGURES if name in ungrouped else no_column(table, name)
    raise ViewError(f"{option} {name}: {why}")


def no_column(table: pd.DataFrame, name: str) -> str:
    """Return the message that a name is no column, with similar names."""
    similar = difflib.get_close_matches(name, map(str, table), n=3)
    similar = similar or [str(column) for column in table if name in str(column)][:3]
    hint = f"did you mean {' or '.join(similar)}?" if similar else "combined.csv has the names"
    return f"no such column; {hint}"


def require_group_key(table: pd.DataFrame, name: str) -> str:
    """Return the name of a column whose values make groups.

    Raises:
        ViewError: the table does not have it, or it is a metric.
    """
    if require_column(table, name, "--group-by") in FIGURES:
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
    """Return why an expression cannot be evaluated, and a hint."""
    if isinstance(error, UndefinedVariableError):
        name = str(error).split("'")[1]
        if table.isin([name]).any(axis=None):
            return f'{name}: no column, but a value; write it in quotes, as in timing == "{name}"'
        return f"{name}: {no_column(table, name)}"
    if isinstance(error, SyntaxError | TokenError):
        return f"not a valid expression; {EXAMPLE}, with a column named like a keyword as `pass`"
    lines = str(error).splitlines() or [type(error).__name__]
    return f"{lines[0]}; {EXAMPLE}"


def aggregate_groups(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a row per group: its numbers of rows and of measured ones, and medians of all metrics.

    The median of medians has their range beside it. Bounds of intervals have no median.
    """
    bounds = {*chain.from_iterable(INTERVALS.values()), "min_s", "max_s"}
    metrics = [name for name in FIGURES if name in table and name not in bounds]
    numbers = table[metrics].apply(pd.to_numeric).where(table["status"] == "ok")
    groups = table[names].join(numbers).groupby(names, dropna=False, sort=False)
    counts = groups["median_s"].agg(rows="size", measured="count", min_s="min", max_s="max")
    return counts.join(groups[metrics].median()).reset_index()


def group_columns(rows: pd.DataFrame) -> list[str]:
    """Return the columns to show of groups; the number measured only where some were not."""
    counts = ["rows"] if rows["measured"].equals(rows["rows"]) else ["rows", "measured"]
    return [*counts, "median_s", "min_s", "max_s"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a view to a command line."""
    group = parser.add_argument_group(
        "a view", "With one of these only the table is printed, and no file is written."
    )
    add_names = partial(group.add_argument, metavar="NAME[,NAME]", type=parse_names, default=())
    add_names("--columns", help="columns of combined.csv to show")
    sort_help = f"columns to sort by; NAME{DESCENDING} for descending"
    add_names("--sort", help=sort_help)
    group.add_argument(
        "--top", metavar="N", type=parse_positive, default=0, help="the first N rows only"
    )
    where_help = 'only some rows, e.g. "world_size == 2 and data_size > 1"'
    group.add_argument("--where", metavar="CONDITION", default="", help=where_help)
    add_names("--group-by", help="a row per value of some columns")


def parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed are whole numbers >= 1")
    return int(text)


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def view_of(options: argparse.Namespace) -> View:
    """Return the view of a command line."""
    return View(options.columns, options.sort, options.top, options.where, options.group_by)

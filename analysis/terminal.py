"""The table on a terminal: as wide as the terminal, with the columns that tell most.

All columns are in combined.csv; full_results.md has those that a reader may want.
"""

import shutil
from collections import Counter
from collections.abc import Sequence
from textwrap import fill, shorten

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis import text
from analysis.cells import NO_INTERVAL, interval_head, times
from analysis.shown import Outcome, Shown, cases, column_of, numbered, outcomes
from analysis.table import (
    ALL_ROWS,
    CONDITIONS,
    SETTINGS,
    SPREADS,
    crowded,
    is_repeated,
    lacked_columns,
    own_columns,
)
from analysis.text import shortened
from benchkit.record.naming import named

WIDTH = 120
"""Letters of a line where the output is no terminal."""
GAP = 3
"""Letters between columns."""
ALWAYS = ("suite", "backend", "world_size", "data_size")
"""Settings that have their own columns, also where others are joined for lack of room."""
CROWDED = "[!]"
"""Stands beside a median of ranks that had more threads than cores."""
SIMILAR = " (other numbers in other rows)"
MOST_FIGURES, MOST_NOTES = 3, 3
FIGURES = (
    "first_call_s", "compile_s", "recompilations",
    "paired_speedup", "limit_share", "overlap", "efficiency", "scaling_efficiency",
    "mfu_full", "tokens_per_second", "busbw_gb_per_s", "useful_tflop_per_s", *SPREADS, "regret",
    "comm_share", "turns_ratio", "host_bound", "predicted_s", "p95_s", "start_skew_s", "mean_s",
    "p25_s", "algbw_gb_per_s", "num_samples",
)  # fmt: skip
"""Of these the first MOST_FIGURES that a table has are shown, as far as they fit."""


def as_text(table: pd.DataFrame, columns: Sequence[str] = (), width: int | None = None) -> str:
    """Render the combined table for a terminal; what all rows share is printed once, above it.

    Args:
        table: the combined table.
        columns: names of the columns to show; by default those that tell most.
        width: letters of a line; by default those of the terminal.
    """
    width = width or shutil.get_terminal_size((WIDTH, 0)).columns
    rows = table.iloc[: text.MOST_ROWS]
    if columns:
        lines = [rendered([column_of(rows, name) for name in columns], width)]
    else:
        head, shown, left_out = chosen(rows, width)
        of_all = "All rows: " if len(table) > 1 else ""
        lines = [fill(f"{of_all}{head}", width, break_on_hyphens=False) + "\n"] if head else []
        lines.append(rendered(shown, width))
        if left_out:
            more = f"More, by --columns: {' '.join(left_out)}"
            lines.append(shorten(more, width, placeholder=" …"))
    if len(table) > len(rows):
        lines.append(f"The first {len(rows):,} of {len(table):,} rows; {ALL_ROWS} has all.")
    return "\n".join([*lines, *(() if columns else notes(rows))])


def chosen(table: pd.DataFrame, width: int) -> tuple[str, list[Shown], list[str]]:
    """Choose columns that fit.

    Returns:
        What all rows share, the columns, and the names of figures that found no room.
    """
    differing = [name for name in CONDITIONS if table[name].nunique(dropna=False) > 1]
    lacking = lacked_columns(table)
    names = [*SETTINGS, *(name for name in own_columns(table) if name not in lacking), *differing]
    known = [name for name in names if table[name].notna().any() and name != "status"]
    shared = [name for name in known if table[name].nunique(dropna=False) == 1]
    head = ", ".join(f"{name} {named(name, table[name].iloc[0])}" for name in shared)
    settings = [name for name in known if name not in shared]
    middle = [column_of(table, "run")] if is_repeated(table) else []
    middle.append(results(table))
    room = width + GAP  # No gap follows the last column.
    first = settings_within(table, settings, lacking, room - width_of(middle))
    room -= width_of([*first, *middle])
    figures = [name for name in FIGURES if name in table and table[name].notna().any()]
    kept: list[Shown] = []
    for column in (column_of(table, name) for name in figures[:MOST_FIGURES]):
        room -= width_of([column])
        if room >= 0:
            kept.append(column)
    return head, [*first, *middle, *kept], figures[len(kept) :]


def results(table: pd.DataFrame) -> Shown:
    """Return the column of the medians, which has the outcome of rows that were not measured."""
    numbers = numbered(table)
    ends = [f"{end[0]} ({numbers[end]})" if end in numbers else "" for end in outcomes(table)]
    marks = [CROWDED * each for each in crowded(table)]
    cells = [" ".join(filter(None, each)) for each in zip(times(table), marks, ends, strict=True)]
    is_measured = table["median_s"].notna().any()
    head = f"median [ms]\n{interval_head(table)}" if is_measured else "outcome"
    return Shown(head, cells, is_number=is_measured)


def settings_within(
    table: pd.DataFrame, settings: list[str], lacking: list[str], room: int
) -> list[Shown]:
    """Return a column per setting, or one that joins most of them where these are too wide.

    Args:
        table: the combined table.
        settings: names of columns.
        lacking: names of further ones, which some suites do not have.
        room: letters for all columns.
    """
    found = [column_of(table, name) for name in settings]
    if not lacking and width_of(found) <= room:
        return found
    kept = [name for name in settings if name in ALWAYS]
    case = cases(table, [name for name in [*settings, *lacking] if name not in kept])
    columns = [column_of(table, name) for name in kept]
    return [*columns, Shown("case", case, is_wrapped=True)] if any(case) else columns


def width_of(columns: Sequence[Shown]) -> int:
    return sum(column.width + GAP for column in columns)


def notes(table: pd.DataFrame) -> list[str]:
    """Return what cells are too narrow for: reasons, warnings and doubtful figures."""
    ends: dict[int, list[Outcome]] = {}
    for end, number in numbered(table).items():
        ends.setdefault(number, []).append(end)
    found = []
    for number, [(status, reason), *similar] in ends.items():
        found.append(f"({number}) {status}: {reason}{SIMILAR if similar else ''}")
    if any(cell.endswith(NO_INTERVAL) for cell in times(table)):
        found.append(f"{NO_INTERVAL}: too few samples for an interval")
    if crowded(table).any():
        found.append(f"{CROWDED}: more threads than cores, which take turns")
    for name in ("warning", "doubt", "unchecked"):
        counts = Counter(map(shortened, table[name].dropna() if name in table else ()))
        for line, count in counts.most_common(MOST_NOTES):
            found.append(f"{name}: {line} ({count} row{'s' * (count > 1)})")
        if len(counts) > MOST_NOTES:
            found.append(f"and {len(counts) - MOST_NOTES} more like it: see full_results.md")
    return found


def rendered(columns: Sequence[Shown], width: int) -> str:
    """Draw columns as wide as given; wider where numbers would be cut. Long texts are wrapped."""
    least = sum(column.least_width + GAP for column in columns)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        drawn.add_column(
            Text(column.head),
            justify="right" if column.is_number else "left",
            no_wrap=not column.is_wrapped,
            width=None if column.is_wrapped else column.width,  # else rich renders all cells twice
            overflow="fold",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        drawn.add_row(*map(Text, cells))
    console = Console(width=max(width, least), color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())

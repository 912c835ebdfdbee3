"""Formats values and tables as text."""

import sys
from collections.abc import Iterable

import pandas as pd
from tabulate import tabulate

MOST_ROWS = 300
"""The longest table on screen and in Markdown. Nobody reads more of it, and tabulate takes seconds
for ten thousand rows."""


def shortened(reason: str) -> str:
    """Cut a reason or a warning to its first line, and that to the width of a table's column."""
    line = str(reason).split("\n")[0]
    return line if len(line) <= 80 else line[:77] + "..."


def render_table(shown: pd.DataFrame, style: str) -> str:
    """Render a table in a style of tabulate: numbers with four digits, missing values empty."""
    text = shown.astype(object).where(shown.notna(), "")
    return tabulate(text.to_dict("list"), headers="keys", tablefmt=style, floatfmt=".4g")


def render_beginning(shown: pd.DataFrame, style: str, source: str) -> str:
    """Render the first MOST_ROWS rows of a table; where there are more, say so below it.

    Args:
        shown: the table.
        style: of tabulate.
        source: the file that has all rows.
    """
    text = render_table(shown.iloc[:MOST_ROWS], style)
    if len(shown) <= MOST_ROWS:
        return text
    return f"{text}\n\nThe first {MOST_ROWS:,} of {len(shown):,} rows; {source} has all."


def format_settings(rows: pd.DataFrame, names: Iterable[str]) -> str:
    """Format settings that all of the rows share: "dtype float32, ranks 2"."""
    return ", ".join(f"{name} {'/'.join(map(str, rows[name].unique()))}" for name in names)


def digits(value: float) -> str:
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def complain(program: str, message: object) -> None:
    """Prints a message on stderr, with the name of the program."""
    print(f"{program}: {message}", file=sys.stderr)

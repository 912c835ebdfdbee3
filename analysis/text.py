"""Formats values and tables as text."""

import re
import sys
from collections.abc import Iterable
from typing import Any

import pandas as pd
from tabulate import tabulate

from benchkit.record.naming import in_markdown, printable

MOST_ROWS = 300
"""The longest table on screen and in Markdown. Nobody reads more of it, and tabulate takes seconds
for ten thousand rows."""

FORMULA = re.compile("'*[=+\\-@\\t\\n\\r＝＋－＠]")
"""Begins a cell of CSV that a spreadsheet would evaluate; apostrophes stand before one that was
text already."""
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def shortened(reason: str) -> str:
    """Cut a reason or a warning to its first line, and that to the width of a table's column."""
    line = str(reason).split("\n")[0]
    return line if len(line) <= 80 else line[:77] + "..."


def render_table(shown: pd.DataFrame, style: str) -> str:
    """Render a table in a style of tabulate: numbers with four digits, missing values empty."""
    text = shown.astype(object).where(shown.notna(), "")
    if style == "github":
        text = text.map(cell_in_markdown).rename(columns=cell_in_markdown)
    return tabulate(text.to_dict("list"), headers="keys", tablefmt=style, floatfmt=".4g")


def cell_in_markdown(cell: Any) -> Any:
    return in_markdown(cell) if isinstance(cell, str) else cell


def without_html(markdown: str) -> str:
    """Return Markdown in which names from records are no HTML, link or picture."""
    return re.sub("<(?=[A-Za-z/!?])", "&lt;", markdown).replace("](", "]&#40;")


def as_csv(table: pd.DataFrame, float_format: str | None = None) -> str:
    """Write a table as CSV; a text that a spreadsheet would evaluate has an apostrophe before it.

    Args:
        table: to write, without its index.
        float_format: of all numbers, such as "%.6g".
    """
    shown = table.rename(columns=as_text_cell)
    for place, (_, column) in enumerate(table.items()):
        if not pd.api.types.is_numeric_dtype(column):
            texts = {cell for cell in column if isinstance(cell, str)}
            if any(as_text_cell(text) != text for text in texts):
                shown.isetitem(place, [as_text_cell(cell) for cell in column])
    return str(shown.to_csv(index=False, float_format=float_format))


def as_text_cell(cell: Any) -> Any:
    """Return a cell that spreadsheets take for text, if it is text; `from_text_cell` undoes it."""
    is_formula = isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def from_text_cell(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def comment(text: str) -> str:
    """Return a line of comment for CSV, no part of which a spreadsheet would evaluate."""
    return "# " + re.sub(rf"([,;\t]\s*)(?={FORMULA.pattern})", r"\1'", text) + "\n"


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
    print(f"{program}: {printable(str(message))}", file=sys.stderr)

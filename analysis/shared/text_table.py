"""A table of text for terminals and Markdown; the page converts the Markdown to HTML."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import pandas as pd
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from analysis.records.results import Row
from analysis.shared.text import NUMBER, format_number
from benchkit.record.naming import escape_markdown

WORDS, NUMBERS, SENTENCES = "words", "numbers", "sentences"
"""Kinds of columns: numbers are aligned right, and sentences may be wrapped."""
SHORTEST = 24
"""Least width of a wrapped sentence, in letters."""
GAP, WIDE_GAP = 2, 3
"""Letters between columns: those of `text` and `plain_lines`, and those of `fit_width`."""
BEYOND_HEAD = 2
"""Least letters by which a column of `text` and `markdown` is wider than its head."""
MOST_ROWS = 300
"""Rows of the longest table on screen and in Markdown."""
ALL_ROWS = "combined.csv"
FRACTION = re.compile("[.eE].*")
CONSOLE = Console(color_system=None, force_terminal=False)
"""Wraps sentences by the width of their letters."""


@dataclass(frozen=True)
class TextColumn:
    """A column of a table.

    Attributes:
        head: name, with the unit or more words on further lines.
        cells: one per row.
        kind: WORDS, NUMBERS or SENTENCES.
    """

    head: str
    cells: Sequence[str]
    kind: str = WORDS

    @property
    def width(self) -> int:
        lines = chain.from_iterable(text.split("\n") for text in (self.head, *self.cells))
        return max(map(cell_len, lines))

    @property
    def least_width(self) -> int:
        """Letters below which the column cannot be read."""
        return min(self.width, SHORTEST) if self.kind == SENTENCES else self.width

    @property
    def ruled_width(self) -> int:
        return max(self.width, cell_len(self.head) + BEYOND_HEAD)

    def wrap(self, text: str, width: int) -> list[str]:
        if self.kind != SENTENCES:
            return text.split("\n")
        return [line.plain.rstrip() for line in Text(text).wrap(CONSOLE, width, overflow="fold")]

    def pad(self, line: str, width: int) -> str:
        blank = " " * (width - cell_len(line))
        return blank + line if self.kind == NUMBERS else line + blank


@dataclass(frozen=True)
class TextTable:
    """Columns of text, all of as many rows."""

    columns: Sequence[TextColumn]

    def text(self) -> str:
        """Format the table for a terminal of any width, each head above a rule."""
        widths = [column.ruled_width for column in self.columns]
        gap = " " * GAP
        return "\n".join(map(str.rstrip, self.lines(widths, gap, "-", gap)))

    def fit_width(self, room: int) -> str:
        """Format the table for a terminal: wrap sentences to fit, and never cut numbers."""
        widths = [column.width for column in self.columns]
        least = sum(column.least_width + WIDE_GAP for column in self.columns)
        room = max(room, least) - WIDE_GAP * (len(widths) - 1)
        wrapped = [n for n, column in enumerate(self.columns) if column.kind == SENTENCES]
        for _ in range(sum(widths) - room):
            widths[max(wrapped, key=widths.__getitem__)] -= 1
        lines = self.lines(widths, " " * WIDE_GAP, "─", "─" * WIDE_GAP)
        return "\n".join(map(str.rstrip, lines))

    def plain_lines(self) -> list[str]:
        """Return the lines, without any rule."""
        widths = [column.width for column in self.columns]
        return [line.rstrip() for line in self.lines(widths, " " * GAP)]

    def markdown(self) -> str:
        """Format the table in Markdown, with heads of one line and escaped cells."""
        columns = [
            TextColumn(
                escape_markdown(" ".join(filter(None, column.head.split("\n")))),
                list(map(escape_markdown, column.cells)),
                column.kind,
            )
            for column in self.columns
        ]
        widths = [column.ruled_width for column in columns]
        lines = TextTable(columns).lines(widths, "|", "-", "|", margin=" ")
        return "\n".join(f"|{line}|" for line in lines)

    def lines(
        self, widths: Sequence[int], gap: str, rule: str = "", crossing: str = "", margin: str = ""
    ) -> Iterator[str]:
        """Yield the lines of the heads, a rule, and the lines of the rows.

        Args:
            widths: letters of each column.
            gap: text between columns; `crossing` is that between their rules.
            rule: a letter; "" for no rule.
            margin: text at both sides of a cell.
        """
        rows = zip(*([column.head, *column.cells] for column in self.columns), strict=True)
        for number, texts in enumerate(rows):
            parts = list(map(TextColumn.wrap, self.columns, texts, widths))
            if not number:  # heads end at the rule
                height = max(map(len, parts))
                parts = [[""] * (height - len(part)) + part for part in parts]
            for line in zip_longest(*parts, fillvalue=""):
                cells = map(TextColumn.pad, self.columns, line, widths)
                yield gap.join(f"{margin}{cell}{margin}" for cell in cells)
            if rule and not number:
                yield crossing.join(rule * (width + 2 * len(margin)) for width in widths)


Writer = Callable[[TextTable], str]
"""`TextTable.text` for a terminal, or `TextTable.markdown`."""


def table_of(rows: pd.DataFrame) -> TextTable:
    """Format rows: numbers with four digits and aligned points, missing values empty."""
    shown = rows.astype(object).where(rows.notna(), "")
    columns = []
    for head, values in shown.items():  # by position: several columns may have the same head
        cells = [
            format_number(cell) if isinstance(cell, float) else str(cell).strip() for cell in values
        ]
        if cells and all(map(is_number, cells)):
            columns.append(TextColumn(str(head), align_points(cells), NUMBERS))
        else:
            columns.append(TextColumn(str(head), cells))
    return TextTable(columns)


def is_number(cell: str) -> bool:
    return not cell or bool(NUMBER.fullmatch(cell))


def align_points(numbers: Sequence[str]) -> list[str]:
    fractions = [len(number) - len(FRACTION.sub("", number)) for number in numbers]
    pairs = zip(numbers, fractions, strict=True)
    return [number + " " * (max(fractions) - fraction) for number, fraction in pairs]


def as_markdown(
    rows: pd.DataFrame | Sequence[Row], source: str = ALL_ROWS, total: int | None = None
) -> str:
    """Render the first MOST_ROWS rows in Markdown, with a line below them where there are more.

    Args:
        source: the file that has all rows.
        total: number of rows; by default of those given.
    """
    shown = pd.DataFrame(rows)
    table = table_of(shown.iloc[:MOST_ROWS]).markdown()
    return "\n\n".join([table, *truncation_lines(len(shown) if total is None else total, source)])


def truncation_lines(total: int, source: str = ALL_ROWS) -> list[str]:
    """Return a line on the rows that are not shown, where there are more than MOST_ROWS."""
    if total <= MOST_ROWS:
        return []
    return [f"The first {MOST_ROWS:,} of {total:,} rows; {source} has all."]

"""A table of text, as terminals and Markdown show it; the page makes HTML of the Markdown."""

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
"""Kinds of columns: numbers stand at the right, and sentences may be wrapped."""
SHORTEST = 24
"""Letters of a wrapped sentence's line at least."""
GAP, WIDE_GAP = 2, 3
"""Letters between columns: those of `text` and `plain_lines`, and those of `in_width`."""
BEYOND_HEAD = 2
"""Letters by which a column of `text` and `markdown` is wider than its head at least."""
MOST_ROWS = 300
"""The longest table on screen and in Markdown. Nobody reads more of it."""
ALL_ROWS = "combined.csv"
FRACTION = re.compile("[.eE].*")
CONSOLE = Console(color_system=None, force_terminal=False)
"""Wraps sentences by the width of their letters."""


@dataclass(frozen=True)
class TextColumn:
    """A column of a table.

    Attributes:
        head: its name, with its unit or more words on further lines.
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
        """Write it for a terminal of any width, each head above a rule."""
        widths = [column.ruled_width for column in self.columns]
        gap = " " * GAP
        return "\n".join(map(str.rstrip, self.lines(widths, gap, "-", gap)))

    def in_width(self, room: int) -> str:
        """Write it for a terminal: sentences are wrapped to fit, and numbers never cut."""
        widths = [column.width for column in self.columns]
        least = sum(column.least_width + WIDE_GAP for column in self.columns)
        room = max(room, least) - WIDE_GAP * (len(widths) - 1)
        wrapped = [n for n, column in enumerate(self.columns) if column.kind == SENTENCES]
        for _ in range(sum(widths) - room):
            widths[max(wrapped, key=widths.__getitem__)] -= 1
        lines = self.lines(widths, " " * WIDE_GAP, "─", "─" * WIDE_GAP)
        return "\n".join(map(str.rstrip, lines))

    def plain_lines(self) -> list[str]:
        """Return the lines without any rule."""
        widths = [column.width for column in self.columns]
        return [line.rstrip() for line in self.lines(widths, " " * GAP)]

    def markdown(self) -> str:
        """Write it in Markdown, with heads of one line and whatever letters the cells have."""
        columns = [
            TextColumn(
                escape_markdown(" ".join(filter(None, each.head.split("\n")))),
                list(map(escape_markdown, each.cells)),
                each.kind,
            )
            for each in self.columns
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
            gap: stands between columns, and `crossing` between their rules.
            rule: a letter; "" for no rule.
            margin: stands at both sides of a cell.
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
    """Format rows: numbers with four digits and points in line, missing values empty."""
    shown = rows.astype(object).where(rows.notna(), "")
    columns = []
    for head, values in shown.items():  # by place: several columns may have the same head
        cells = [
            format_number(cell) if isinstance(cell, float) else str(cell).strip() for cell in values
        ]
        if cells and all(map(is_number, cells)):
            columns.append(TextColumn(str(head), with_points_in_line(cells), NUMBERS))
        else:
            columns.append(TextColumn(str(head), cells))
    return TextTable(columns)


def is_number(cell: str) -> bool:
    return not cell or bool(NUMBER.fullmatch(cell))


def with_points_in_line(numbers: Sequence[str]) -> list[str]:
    fractions = [len(number) - len(FRACTION.sub("", number)) for number in numbers]
    pairs = zip(numbers, fractions, strict=True)
    return [number + " " * (max(fractions) - fraction) for number, fraction in pairs]


def as_markdown(
    rows: pd.DataFrame | Sequence[Row], source: str = ALL_ROWS, total: int | None = None
) -> str:
    """Render the first MOST_ROWS rows in Markdown; where there are more, say so below them.

    Args:
        source: the file that has all rows.
        total: how many rows there are; by default those given.
    """
    shown = pd.DataFrame(rows)
    table = table_of(shown.iloc[:MOST_ROWS]).markdown()
    return "\n\n".join([table, *beginning(len(shown) if total is None else total, source)])


def beginning(total: int, source: str = ALL_ROWS) -> list[str]:
    """Say, where there are more than MOST_ROWS rows, that only these are shown."""
    if total <= MOST_ROWS:
        return []
    return [f"The first {MOST_ROWS:,} of {total:,} rows; {source} has all."]

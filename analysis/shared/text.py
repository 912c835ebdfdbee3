"""Format values, cells and tables as text."""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

import pandas as pd

from benchkit.errors import ConfigError
from benchkit.record.naming import escape_unprintable

LARGE, TOO_LARGE = 9999.5, 1e9
"""Numbers between these are printed whole; larger ones have an exponent."""

FORMULA = re.compile("[=+\\-@\\t\\n\\r＝＋－＠]")
"""Begins a cell of CSV that a spreadsheet would evaluate, also after blanks and quotes."""
BEFORE = r"(?:\A|(?<=[;\t\n\r]))"
"""Where a cell may begin: spreadsheets of some countries split lines at `;`, others at tabs."""
BEHIND = rf"""(?=[ "']*{FORMULA.pattern})"""
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def first_line(reason: str) -> str:
    return str(reason).split("\n")[0]


def shorten_reason(reason: str) -> str:
    """Cut a reason or a warning to its first line, and that to the width of a table's column."""
    line = first_line(reason)
    return line if len(line) <= 80 else line[:77] + "..."


OF_LINKS = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])[(:]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""Marks of HTML, links and pictures, and of addresses that GitHub turns into links."""


def escape_html(markdown: str) -> str:
    """Escape HTML, links and pictures in Markdown, which names from records may have."""
    return OF_LINKS.sub(lambda sign: f"&#{ord(sign[0])};", markdown)


def as_csv(table: pd.DataFrame, float_format: str | None = None) -> str:
    """Write a table as CSV; a text that a spreadsheet would evaluate has an apostrophe before it.

    The index is left out; `float_format`, such as "%.6g", applies to all numbers.
    """
    shown = table.rename(columns=as_text_cell)
    for position, (_, column) in enumerate(table.items()):
        if not pd.api.types.is_numeric_dtype(column):
            is_text = isinstance(column.dtype, pd.StringDtype)
            cells = column.unique() if is_text else column
            if any(as_text_cell(cell) is not cell for cell in cells):
                shown.isetitem(position, [as_text_cell(cell) for cell in column])
    return str(shown.to_csv(index=False, float_format=float_format))


def as_text_cell(cell: Any) -> Any:
    """Return a cell so that spreadsheets take text for text; `from_text_cell` undoes it."""
    if not isinstance(cell, str) or NUMBER.fullmatch(cell):
        return cell
    return re.sub(BEFORE + BEHIND, "'", cell)  # the same object where nothing is inserted


def from_text_cell(cell: str) -> str:
    return re.sub(f"{BEFORE}'{BEHIND}", "", cell)


def comment(text: str) -> str:
    """Return a comment line for CSV, no part of which a spreadsheet would evaluate."""
    line = escape_unprintable(text, keep="\t")
    return "# " + re.sub(f"(?<=[,;\t]){BEHIND}", "'", line) + "\n"


def format_settings(rows: pd.DataFrame, names: Iterable[str]) -> str:
    """Format settings that all of the rows share: "dtype float32, ranks 2"."""
    return ", ".join(f"{name} {'/'.join(map(str, rows[name].unique()))}" for name in names)


def complain(program: str, message: object) -> None:
    """Print a message on stderr, with the name of the program."""
    print(f"{program}: {escape_unprintable(str(message))}", file=sys.stderr)


Command = Callable[[list[str]], int]
"""Runs on the arguments of a command line and returns the exit code."""


def command(program: str) -> Callable[[Command], Command]:
    """Make a command print a ConfigError or OSError as one line, and return 2."""

    def decorate(main: Command) -> Command:
        @wraps(main)
        def run(arguments: list[str]) -> int:
            try:
                return main(arguments)
            except (ConfigError, OSError) as error:
                complain(program, error)
                return 2

        return run

    return decorate


INTERVAL, RANGE = "95 % interval", "range"
"""Bounds beside a median: an interval in square brackets, a range in round ones."""
FEWEST_DIGITS, MOST_DIGITS = 2, 4
"""Of a number that has an interval. Fewer could reverse the order of two numbers."""
OF_INTERVAL = (
    "median_s", "ci_low_s", "ci_high_s", "range_low_s", "range_high_s",
)  # fmt: skip
"""The columns that an interval is formatted from."""


def intervals(table: pd.DataFrame) -> pd.Series:
    """Format the interval of each median, in ms: "[1.9, 2.8]"; or its range: "(1.9 to 2.8)"."""
    texts = [format_interval(*cells) or None for cells in cells_of_interval(table)]
    return pd.Series(texts, index=table.index, dtype=object)


def has_interval_or_range(table: pd.DataFrame) -> Iterator[bool]:
    """Yield for each median whether it has an interval or a range."""
    for median_s, low_s, _, least_s, _ in cells_of_interval(table):
        yield not math.isnan(median_s) and not (math.isnan(low_s) and math.isnan(least_s))


def interval_head(table: pd.DataFrame) -> str:
    """Return the head of the column of intervals and ranges of medians."""
    is_known = table["ci_low_s"].notna()
    is_range = ~is_known & table["median_s"].notna()
    kinds = [INTERVAL] * bool(is_known.any()) + [RANGE] * bool(is_range.any())
    return " or ".join(kinds) or INTERVAL


def cells_of_interval(table: pd.DataFrame) -> Iterator[tuple[float, ...]]:
    """Yield the cells of OF_INTERVAL of each row, NaN for unknown ones."""
    unknown = [math.nan] * len(table)
    columns = [table[name].tolist() if name in table else unknown for name in OF_INTERVAL]
    yield from zip(*columns, strict=True)


def format_interval(
    median_s: float, low_s: float, high_s: float, least_s: float, most_s: float
) -> str:
    """Format the interval or range of one median; "" where it has neither."""
    if math.isnan(median_s) or (math.isnan(low_s) and math.isnan(least_s)):
        return ""  # see `has_interval_or_range`
    words = "({} to {})" if math.isnan(low_s) else "[{}, {}]"
    low, high = (least_s, most_s) if math.isnan(low_s) else (low_s, high_s)
    half = half_width(low, high)
    return words.format(*format_bounds(1e3 * low, 1e3 * high, 1e3 * half, 1e3 * median_s))


def setting_words(
    table: pd.DataFrame, columns: Sequence[str], word: Callable[[str, Any], str]
) -> list[list[str]]:
    """Return for each row, in words, the columns that vary among the rows of its suite."""
    varies = table[columns].groupby(table["suite"]).transform("nunique") > 1
    is_shown = varies & table[columns].notna()
    words: list[list[str]] = [[] for _ in range(len(table))]
    for name in columns:
        for words_of_row, value, shown in zip(words, table[name], is_shown[name], strict=True):
            if shown:
                words_of_row.append(word(name, value))
    return words


def format_medians(table: pd.DataFrame) -> list[str]:
    """Format medians in ms and their intervals or ranges, with as many digits as these allow."""
    return [time_text(*cells) for cells in cells_of_interval(table)]


def time_text(median_s: float, *bounds_s: float) -> str:
    """Format one median in ms: "2.2 [1.9, 2.8]". Arguments are seconds, NaN for unknown ones."""
    if math.isnan(median_s):
        return ""
    low, high = bounds_s[2:] if math.isnan(bounds_s[0]) else bounds_s[:2]
    text = format_number(1e3 * median_s, 1e3 * half_width(low, high))
    return f"{text} {format_interval(median_s, *bounds_s)}".rstrip()


def format_with_interval(value: float, low: float, high: float) -> str:
    """Format "1.11 [1.06, 1.19]"; the value only where a bound is NaN, "" where the value is."""
    if pd.isna([value, low, high]).any():
        return format_measurement(value)
    half = half_width(low, high)
    return "{} [{}, {}]".format(format_number(value, half), *format_bounds(low, high, half, value))


def format_bounds(low: float, high: float, half_width: float, value: float) -> tuple[str, str]:
    """Format the bounds of a value's interval, with as many digits as a half width allows.

    A bound has more digits where the value would lie outside after rounding.
    """
    return (
        format_until(low, half_width, lambda least: least <= value),
        format_until(high, half_width, lambda most: most >= value),
    )


def format_until(value: float, half_width: float, holds: Callable[[float], bool]) -> str:
    """Format a number with as many digits as a half width allows; add digits until `holds`."""
    half = min(half_width, abs(value) / 10)  # which leaves two digits
    for finer in (half, half / 10, half / 100, math.nan):
        text = format_number(value, finer)
        if holds(float(text)):
            break
    return text


def half_width(low: float, high: float) -> float:
    return (high - low) / 2


def format_number(value: Any, half_width: float = math.nan) -> str:
    """Format a number with as many digits as its half width allows, two to four; "" for NaN.

    Count digits after rounding. Use four digits without an interval, and no decimals for large
    numbers.
    """
    if pd.isna(value):
        return ""
    size = abs(value)
    if 0 < size < math.inf and 0 < half_width < math.inf:
        fewest, most = (n - 1 - exponent(size, n) for n in (FEWEST_DIGITS, MOST_DIGITS))
        places = max(fewest, -exponent(half_width, 3))  # rounded as a value of which it is 1 %
        if places <= (most if size >= TOO_LARGE else max(0, most)):
            return f"{round(float(value), places):.{max(0, places)}f}"
    return f"{value:.0f}" if LARGE <= size < TOO_LARGE else f"{value:.{MOST_DIGITS}g}"


def exponent(size: float, digits: int) -> int:
    """Return the power of ten of a number after rounding to some digits."""
    return int(f"{size:.{digits - 1}e}".partition("e")[2])


def format_measurement(value: Any, half_width: float = math.nan) -> str:
    """Format a measured number with as many digits as its interval allows, or with three.

    Whole numbers, which may be counts, stay whole.
    """
    is_known = half_width > 0 and not math.isinf(half_width)
    if pd.isna(value) or is_known or float(value).is_integer():
        return format_number(value, half_width)
    return three_digits(value)


def three_digits(value: float) -> str:
    return format_number(value, abs(value) / 100)


def milliseconds(seconds: float) -> str:
    return f"{format_measurement(seconds * 1e3)} ms"

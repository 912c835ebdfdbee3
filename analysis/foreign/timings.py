"""The common timing of foreign results and our records, and shared functions of readers."""

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from analysis.records.paths import one_line
from analysis.records.results import Row
from analysis.shared.text import from_text_cell

Kind = TypeVar("Kind", bound="Timing")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One measurement; the subclass of a suite adds its settings.

    Attributes:
        time_s: seconds of one call; `estimator` names the statistic.
        std_s: standard deviation as the tool computes it.
        status: ok, invalid, unchecked if the tool did not check the results, failed, or the
            status of a record.
        conversion: how time and size were converted.
    """

    SUITE: ClassVar[str]
    """The suite of our corresponding records."""
    ORDER: ClassVar[tuple[str, ...]]
    """Sort keys: fields that identify what was measured."""

    source: str
    file: str
    backend: str | None = None
    device: str | None = None
    world_size: int | None = None
    dtype: str | None = None
    time_s: float | None
    std_s: float | None = None
    status: str
    estimator: str
    conversion: str = "as printed"

    @classmethod
    def of_record(cls, row: Row) -> "Timing | None":
        """Convert a row of a record; None if other systems do not measure it.

        Raises:
            LookupError, TypeError, ValueError: the record is not of the suite.
        """
        return cls.from_row(row)

    @classmethod
    def from_row(cls: type[Kind], row: Row, **others: Any) -> Kind:
        """Take each field from the record's column of that name, except for `others`.

        Times are means, as in all files of other systems.
        """
        values = {
            "source": "benchkit",
            "file": str(Path(row["path"]).parent),
            "dtype": row.get("dtype"),
            "time_s": row.get("mean_s"),
            "std_s": row.get("std_s"),
            "estimator": f"mean over {samples_of(row)} of the slowest rank",
            "conversion": "as recorded",
            **others,
        }
        other_names = (column.name for column in fields(cls) if column.name not in values)
        return cls(**values, **{name: row[name] for name in other_names})


def samples_of(row: Row) -> str:
    calls = row.get("calls") or row["calls_per_sample"]
    return "iterations" if calls == 1 else f"samples of {calls} calls"


@dataclass
class Reading:
    """The rows of a place, and a line for everything skipped."""

    rows: list[Timing] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: "Reading") -> None:
        self.rows += other.rows
        self.skipped += other.skipped

    def skip_torn(self, file: str, lines: int, why: str = "") -> None:
        if lines:
            self.skipped.append(f"{file}: {lines} line(s) cut off or torn{why}")


class RanksMissing(ValueError):
    """Neither the output nor the user gives the required number of ranks."""


ROW = re.compile(r"(?:\s{2,}|,)\d+\.\d|,,")
"""Occurs in rows, but rarely elsewhere: columns of numbers, or empty cells."""
MOST_LETTERS = 10_000
"""Longer lines are skipped: patterns may take quadratic time."""
LINE_BREAK = re.compile(r"\n\Z")


@dataclass(frozen=True)
class ForeignOutput:
    """Path and text of a file of another system, and the number of ranks if the user gives it."""

    file: str
    text: str
    ranks: int | None = None

    def complete_lines(self, ending: re.Pattern[str] = LINE_BREAK) -> list[str]:
        """Return the lines that may be rows, without a truncated last one.

        Args:
            ending: pattern at the end of a complete last line.
        """
        lines = self.text.splitlines(keepends=True)
        whole = lines[: len(lines) - self.num_cut_off(ending)]
        return [line for line in whole if len(line) <= MOST_LETTERS]

    def num_cut_off(self, ending: re.Pattern[str] = LINE_BREAK) -> int:
        last = self.text[self.text.rstrip("\n").rfind("\n") + 1 :]
        return 0 if last.endswith("\n") or ending.search(last) else 1


MISSING = ("", "n/a", "nan", "none", "null", "inf")


def number(text: Any) -> float | None:
    """Convert a number; None for N/A, nan, inf, null and words."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if abs(value) < float("inf") else None


class Cells(dict[str, Any]):
    """A line of CSV by header, or an object of JSON by key.

    The methods raise ValueError for an impossible value.
    """

    def positive(self, name: str) -> float:
        value = number(self[name])
        if value is None or value <= 0:
            raise ValueError(f"{self[name]!r:.40}: allowed are numbers > 0")
        return value

    def seconds(self, name: str, unit_s: float = 1.0) -> float | None:
        """Convert a time to seconds; None if missing."""
        is_missing = str(self[name]).strip().lower() in MISSING
        return None if is_missing else self.positive(name) * unit_s

    def deviation(self, name: str, unit_s: float = 1.0) -> float | None:
        """Convert a standard deviation to seconds; it may be zero, and None without the column."""
        if name not in self:
            return None
        return 0.0 if number(self[name]) == 0 else self.seconds(name, unit_s)

    def word(self, name: str) -> str:
        """Return a name; ValueError for a number, which is of another table."""
        if number(self[name]) is not None:
            raise ValueError(f"{self[name]!r:.40}: allowed are names")
        return str(self[name])

    def whole(self, name: str, least: int = 1) -> int:
        """Convert a whole number, which may be written as "4.0"."""
        value = float(self[name])
        if value != int(value) or value < least:
            raise ValueError(f"{self[name]!r:.40}: allowed are whole numbers >= {least}")
        return int(value)


def status_of(time_s: float | None, checked: str | None = None) -> str:
    """Return the status of a result; `checked` is that of the tool's check, if any."""
    return "failed" if time_s is None else checked or "unchecked"


LinesByHeads = dict[frozenset[str], Callable[[str, Cells], Iterable[Timing]]]
"""By the columns that identify a CSV format: converts file name and line to rows.

It raises ArithmeticError, LookupError, TypeError or ValueError for a torn line.
"""


def cells_of(line: str) -> list[str]:
    return [cell.strip('" \r\n') for cell in line.split(",")]


def read_csv(output: ForeignOutput, formats: LinesByHeads) -> Reading:
    """Read a CSV table whose first line has the headers of a known format.

    Lines that begin with # are comments. The first ValueError is quoted.
    """
    lines = [line for line in output.complete_lines() if not line.startswith("#")]
    heads = [head.strip() for head in next(csv.reader(lines[:1]), [])]
    rows_of = next(
        (convert for required, convert in formats.items() if required.issubset(heads)), None
    )
    if rows_of is None:
        return Reading()
    table = csv.DictReader(lines[1:], heads)
    reading = Reading()
    torn, reason = output.num_cut_off(), ""
    is_torn = False
    for line in table:
        was_torn, is_torn = is_torn, None in line or None in line.values()
        if is_torn or was_torn:  # too many or too few cells, or possibly the rest of a torn line
            torn += 1
            continue
        cells = Cells({head: from_text_cell(cell) for head, cell in line.items()})
        try:
            reading.rows += list(rows_of(output.file, cells))
        except ValueError as error:
            torn += 1
            reason = reason or one_line(f"; {error}")
        except (ArithmeticError, LookupError, TypeError):
            torn += 1
    reading.skip_torn(output.file, torn, reason)
    return reading

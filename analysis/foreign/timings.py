"""The timing that every result becomes, ours too, and what reading the files of others shares."""

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
    """One measurement; the subclass of a suite adds what its measurements are of.

    Attributes:
        time_s: the time of one call; `estimator` says which statistic it is.
        std_s: the standard deviation, as the tool computes it.
        status: ok, invalid, unchecked where the tool did not check the results, failed, or the
            status of a record.
        conversion: how time and size were taken over.
    """

    SUITE: ClassVar[str]
    """The suite whose records are of the same kind."""
    ORDER: ClassVar[tuple[str, ...]]
    """Fields that say what was measured; rows that are equal in them stand together."""

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
        """Convert a row of a record; None for one that other systems do not measure.

        Raises:
            LookupError, TypeError, ValueError: the record is not one of the suite.
        """
        return cls.recorded(row)

    @classmethod
    def recorded(cls: type[Kind], row: Row, **others: Any) -> Kind:
        """Take each field from the record's column of the same name, but for some `others`.

        Times are means, as in all files of other systems, so that they can be compared.
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
        rest = (each.name for each in fields(cls) if each.name not in values)
        return cls(**values, **{name: row[name] for name in rest})


def samples_of(row: Row) -> str:
    calls = row.get("calls") or row["calls_per_sample"]
    return "iterations" if calls == 1 else f"samples of {calls} calls"


@dataclass
class Reading:
    """The rows of a place, and one line for each thing passed over."""

    rows: list[Timing] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: "Reading") -> None:
        self.rows += other.rows
        self.skipped += other.skipped

    def pass_over_torn(self, file: str, lines: int, why: str = "") -> None:
        if lines:
            self.skipped.append(f"{file}: {lines} line(s) cut off or torn{why}")


class RanksMissing(ValueError):
    """The output needs the number of ranks, and neither it nor the user says it."""


ROW = re.compile(r"(?:\s{2,}|,)\d+\.\d|,,")
"""What a row has, and hardly any other line: columns of numbers, or cells without one."""
MOST_LETTERS = 10_000
"""A longer line is no row: patterns that search it may take the square of its length."""
LINE_BREAK = re.compile(r"\n\Z")


@dataclass(frozen=True)
class ForeignOutput:
    """A file of another system, by its path, and how many ranks it is of, if the user says so."""

    file: str
    text: str
    ranks: int | None = None

    def whole_lines(self, ending: re.Pattern[str] = LINE_BREAK) -> list[str]:
        """Return the lines that end so and may be rows.

        A file that was cut off lacks a part of its last line.
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
    """A line of CSV by head, or an object of JSON by key.

    The methods raise ValueError where a cell has an impossible value.
    """

    def positive(self, name: str) -> float:
        value = number(self[name])
        if value is None or value <= 0:
            raise ValueError(f"{self[name]!r:.40}: allowed are numbers > 0")
        return value

    def seconds(self, name: str, unit_s: float = 1.0) -> float | None:
        """Convert a time; None where it is missing."""
        is_missing = str(self[name]).strip().lower() in MISSING
        return None if is_missing else self.positive(name) * unit_s

    def deviation(self, name: str, unit_s: float = 1.0) -> float | None:
        """Convert a standard deviation. It may be zero, and its column may be missing."""
        if name not in self:
            return None
        return 0.0 if number(self[name]) == 0 else self.seconds(name, unit_s)

    def word(self, name: str) -> str:
        """Return a name. A number is a cell of another table."""
        if number(self[name]) is not None:
            raise ValueError(f"{self[name]!r:.40}: allowed are names")
        return str(self[name])

    def whole(self, name: str, least: int = 1) -> int:
        """Convert a whole number, also one that is written as "4.0"."""
        value = float(self[name])
        if value != int(value) or value < least:
            raise ValueError(f"{self[name]!r:.40}: allowed are whole numbers >= {least}")
        return int(value)


def status_of(time_s: float | None, checked: str | None = None) -> str:
    """Return the status of a result; `checked` is that by the tool's check, if it made one."""
    return "failed" if time_s is None else checked or "unchecked"


LinesByHeads = dict[frozenset[str], Callable[[str, Cells], Iterable[Timing]]]
"""The columns that tell a CSV format, and what makes rows of the file's name and a line.

ArithmeticError, LookupError, TypeError and ValueError say that the line is torn.
"""


def cells_of(line: str) -> list[str]:
    return [cell.strip('" \r\n') for cell in line.split(",")]


def read_csv(output: ForeignOutput, formats: LinesByHeads) -> Reading:
    """Read a CSV table, whose first line has the heads of a known format.

    Lines that begin with # are comments. The first ValueError of a line is quoted.
    """
    lines = [line for line in output.whole_lines() if not line.startswith("#")]
    heads = [head.strip() for head in next(csv.reader(lines[:1]), [])]
    rows_of = next((make for known, make in formats.items() if known.issubset(heads)), None)
    if rows_of is None:
        return Reading()
    table = csv.DictReader(lines[1:], heads)
    found = Reading()
    torn, why = output.num_cut_off(), ""
    is_torn = False
    for line in table:
        was_torn, is_torn = is_torn, None in line or None in line.values()
        if is_torn or was_torn:  # too many cells, or too few; and what may be the rest of the line
            torn += 1
            continue
        cells = Cells({head: from_text_cell(cell) for head, cell in line.items()})
        try:
            found.rows += list(rows_of(output.file, cells))
        except ValueError as error:
            torn += 1
            why = why or one_line(f"; {error}")
        except (ArithmeticError, LookupError, TypeError):
            torn += 1
    found.pass_over_torn(output.file, torn, why)
    return found

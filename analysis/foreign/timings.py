"""Defines what timings of other systems and our own share, and reads the parts of their files."""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from analysis.records.paths import one_line
from analysis.text import from_text_cell


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One measurement; the subclass of a suite adds what its measurements are of.

    Attributes:
        source: the tool that measured.
        file: where it was read.
        world_size: the number of ranks.
        time_s: the time of one call in seconds; `estimator` says which figure it is.
        std_s: the standard deviation in seconds, as the tool computes it.
        status: ok, invalid, unchecked where the tool did not check the results, failed, or the
            status of a record.
        estimator: what the time is, in words.
        conversion: how the figures were taken over.
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


@dataclass
class Reading:
    """The rows of a place, and one line for each thing passed over."""

    rows: list[Timing] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def whole_lines(text: str) -> Iterator[str]:
    """Yield the lines that end in a line break.

    A file that was cut off lacks an unknown part of its last line.
    """
    yield from (line for line in text.splitlines(keepends=True) if line.endswith("\n"))


def unfinished(text: str) -> int:
    """Count the lines that `whole_lines` leaves out at the end: 0 or 1."""
    return 0 if text.endswith("\n") else 1


def number(text: Any) -> float | None:
    """Convert a figure; None for N/A, nan, inf, null and words."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if abs(value) < float("inf") else None


def positive(text: Any) -> float:
    """Convert a figure that must be there.

    Raises:
        ValueError: it is missing, zero or negative.
    """
    value = number(text)
    if value is None or value <= 0:
        raise ValueError(f"{text!r:.40}: allowed are numbers > 0")
    return value


def seconds(text: Any, unit_s: float = 1.0) -> float | None:
    """Convert a time; None where it is missing, as `number`.

    Args:
        unit_s: the unit of the cell in seconds.

    Raises:
        ValueError: it is zero or negative.
    """
    return None if number(text) is None else positive(text) * unit_s


def deviation(text: Any, unit_s: float = 1.0) -> float | None:
    """Convert a standard deviation as `seconds` a time; it may be zero."""
    return 0.0 if number(text) == 0 else seconds(text, unit_s)


def whole(text: Any, least: int = 1) -> int:
    """Convert a whole number, also one that is written as "4.0".

    Raises:
        ValueError: it is none, or too small.
    """
    value = float(text)
    if value != int(value) or value < least:
        raise ValueError(f"{text!r:.40}: allowed are whole numbers >= {least}")
    return int(value)


def status_of(time_s: float | None, checked: str | None = None) -> str:
    """Return the status of a result: failed where there is no time.

    Args:
        checked: the status by the tool's check; None where it made none.
    """
    return "failed" if time_s is None else checked or "unchecked"


Cells = Mapping[str, str]
"""A line of a CSV file, by head."""


def read_csv(
    file: str,
    text: str,
    heads: frozenset[str],
    row_of: Callable[[str, Cells], Timing | list[Timing]],
) -> Reading | None:
    """Read a CSV file that is recognised by its header.

    Args:
        text: its content; lines that begin with # are comments.
        heads: columns that the header must have.
        row_of: makes one or several rows of a file's name and a line; ArithmeticError, LookupError,
            TypeError and ValueError say that the line is none; the first ValueError is quoted.

    Returns:
        The rows; None where the header is another one.
    """
    lines = [line for line in whole_lines(text) if not line.startswith("#")]
    table = csv.DictReader(lines)
    if not heads <= set(table.fieldnames or ()):
        return None
    found = Reading()
    torn, why = unfinished(text), ""
    for line in table:
        cells = {
            head: from_text_cell(cell) if isinstance(cell, str) else cell
            for head, cell in line.items()
        }
        try:
            made = row_of(file, cells)
            found.rows += made if isinstance(made, list) else [made]
        except ValueError as error:
            torn += 1
            why = why or one_line(f"; {error}")
        except (ArithmeticError, LookupError, TypeError):
            torn += 1
    if torn:
        found.passed_over.append(f"{file}: {torn} line(s) cut off or torn{why}")
    return found


def ours(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that all timings of our records share.

    Times are means, as in all files of other systems, so that they can be compared.

    Args:
        row: of the combined table, before it is one.
    """
    calls = row.get("calls") or row["calls_per_sample"]
    samples = "iterations" if calls == 1 else f"samples of {calls} calls"
    return {
        "source": "benchkit",
        "file": str(Path(row["path"]).parent),
        "backend": row["backend"],
        "device": row["device"],
        "world_size": row["world_size"],
        "dtype": row.get("dtype"),
        "time_s": row.get("mean_s"),
        "std_s": row.get("std_s"),
        "status": row["status"],
        "estimator": f"mean over {samples} of the slowest rank",
        "conversion": "as recorded",
    }

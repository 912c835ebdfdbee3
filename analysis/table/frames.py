"""Load records as a table whose columns have types."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.records.columns import BOOLEAN, COLUMNS, INTEGER, NUMBER, TEXT, TIME
from analysis.records.derive import usable_processes
from analysis.records.harvest import Harvest, harvest
from analysis.records.paths import files_below, require_there
from analysis.records.results import CaseRow
from analysis.table.combine import ROUNDS, combine
from benchkit.record.naming import escape_unprintable

Rows = Sequence[CaseRow]


def load(*places: str | Path) -> pd.DataFrame:
    """Load all records at or below some places, with a row per case.

    The rows and their values are those of combined.csv, which `python -m analysis` writes; cells
    without text are missing. docs/api.md describes the columns.

    Args:
        places: folders of records, such as "outputs/latest", or record files.

    Returns:
        A table without columns of type object: float64, Int64, boolean, string and, for
        `started_at`, datetime64[ns, UTC].

    Raises:
        FileNotFoundError: a place does not exist, or there is no record at or below any of them.

    Warns:
        UserWarning: a file that is no record was skipped.
    """
    paths = [Path(place) for place in places]
    require_there(paths)
    records = harvest(paths, usable_processes())
    if remarks := "\n".join(records.remarks()):
        warnings.warn(remarks, stacklevel=2)
    if not records.rows:
        raise FileNotFoundError(nothing_found(records, paths))
    return typed_table(records.rows)


def nothing_found(records: Harvest, places: Sequence[Path]) -> str:
    """Return the message that there is no record at some places."""
    what = "readable record.json" if records.num_files else "record.json"
    where = escape_unprintable(", ".join(map(str, places)))
    below = (path for place in places for path in files_below(os.path.realpath(place), ".json"))
    copies = (path for path in below if os.path.basename(path).startswith("record"))
    if not records.num_files and (copy := next(copies, "")):
        return (
            f"no {what} at or below {where}; {escape_unprintable(copy)}: names that are read end so"
        )
    return f"no {what} at or below {where}; run `python -m benchkit` first"


def typed_table(rows: Rows) -> pd.DataFrame:
    """Make the combined table of rows, with types."""
    table = combine(rows).drop(columns=ROUNDS)
    return pd.DataFrame({name: convert_column(table[name], type_of(name, rows)) for name in table})


def type_of(name: Any, rows: Rows) -> str:
    """Return the type of a column; infer that of a suite's own column from its values."""
    if name in COLUMNS:
        return COLUMNS[name].dtype
    cells = (row.get(name, row.case.details.get(name)) for row in rows)
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {bool}:
        return BOOLEAN
    if kinds == {int}:
        return INTEGER
    return NUMBER if kinds and kinds <= {int, float} else TEXT


def convert_column(column: pd.Series, dtype: str) -> pd.Series:
    """Convert a column; integers beyond 64 bits become floating-point numbers."""
    if dtype == TIME:
        return parse_times(column)
    if dtype == TEXT:
        return column.map(str, na_action="ignore").astype(TEXT)
    if dtype == INTEGER:
        numbers = pd.to_numeric(column)
        is_integral = (numbers.dropna() % 1 == 0).all() and not numbers.abs().max() >= 2**63
        return numbers.astype(INTEGER if is_integral else NUMBER)
    return column.astype(dtype)


def parse_times(column: pd.Series) -> pd.Series:
    """Convert texts such as "2026-01-01T00:00:00.000+00:00"; other texts become NaT."""
    times = pd.to_datetime(column, utc=True, format="ISO8601", errors="coerce")
    earliest, latest = (limit.tz_localize("UTC") for limit in (pd.Timestamp.min, pd.Timestamp.max))
    return times.where(times.between(earliest, latest)).astype(TIME)

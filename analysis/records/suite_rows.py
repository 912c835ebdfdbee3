"""A suite's rows of the combined table, and its records where all samples are needed."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.records.places import places_of
from analysis.records.results import Row, plain_cells
from analysis.records.rows import RecordSettings
from benchkit.record import files
from benchkit.record.record import CaseRecord, Record


def measured_rows(table: pd.DataFrame, suite: str) -> pd.DataFrame:
    return table[(table["suite"] == suite) & (table["status"] == "ok")]


def convert_to_numeric(rows: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Convert the columns that exist to numbers; NaN where a cell is none."""
    present = [name for name in names if name in rows]
    return rows.assign(**{name: pd.to_numeric(rows[name], errors="coerce") for name in present})


def records_of(table: pd.DataFrame, suite: str) -> list[Record]:
    """Return the measured records of a suite in a table, in order of time."""
    rows = measured_rows(table, suite)
    paths = rows["path"].dropna().unique() if "path" in rows else []
    records = []
    for path in paths:
        with contextlib.suppress(ValueError):  # the file is gone since
            records.append(files.read(Path(path)))
    return sorted(records, key=lambda record: record.started_at)


def group_by_layout(records: list[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Group records by places of ranks, backend and device, each with a suffix for file names."""
    layouts: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        settings = record.settings
        layout = (*places_of(record), settings.backend.name, settings.hardware.device)
        layouts.setdefault(layout, []).append(record)
    for number, group in enumerate(layouts.values()):
        yield f"_{number}" if len(layouts) > 1 else "", group


def rows_with_cases(rows: pd.DataFrame) -> Iterator[tuple[Row, CaseRecord]]:
    """Yield each measured row of the combined table with its case, record by record.

    Raises:
        ValueError: a record is gone since, or has other cases.
    """
    for path, group in rows.sort_values("started_at", kind="stable").groupby("path", sort=False):
        record = files.read(Path(str(path)))
        settings = RecordSettings(record)
        labelled = [
            (plain_cells(settings.prefix_taken(case.labels)), case) for case in record.cases
        ]
        for row in group.to_dict("records"):
            cases = [case for labels, case in labelled if is_labelled(row, labels)]
            if not cases:
                raise ValueError(f"{path}: has other cases than before")
            yield {str(name): value for name, value in row.items()}, cases[0]


def is_labelled(row: Mapping[Any, Any], labels: Mapping[str, object]) -> bool:
    """Return whether a row has these labels; the cell of a label without a value is empty."""
    return all(
        row.get(name) == value or (value is None and pd.isna(row.get(name)))
        for name, value in labels.items()
    )

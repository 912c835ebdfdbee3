"""Reads the records of a suite again, for pages that need all samples and not only figures."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis.records.places import places_of
from benchkit.record import files
from benchkit.record.record import Record


def records_of(table: pd.DataFrame, suite: str) -> list[Record]:
    """Return the measured records of a suite in a table, in order of time."""
    rows = table[(table["suite"] == suite) & (table["status"] == "ok")]
    paths = rows["path"].dropna().unique() if "path" in rows else []
    found = []
    for path in paths:
        with contextlib.suppress(ValueError):  # the file is gone since
            found.append(files.read(Path(path)))
    return sorted(found, key=lambda record: record.started_at)


def by_layout(records: list[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Yield the records whose ranks ran alike, with a suffix for names of files."""
    layouts: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        settings = record.settings
        layout = (*places_of(record), settings.backend.name, settings.hardware.device)
        layouts.setdefault(layout, []).append(record)
    for number, own in enumerate(layouts.values()):
        yield f"_{number}" if len(layouts) > 1 else "", own

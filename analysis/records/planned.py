"""Reads what sweeps were to measure, so that a run without a record is missed."""

import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from analysis.records.derive import derive
from analysis.records.paths import files_below, one_line
from benchkit.record import files
from benchkit.record.naming import printable

MANIFEST = "sweep.json"


class PlannedPoint(msgspec.Struct, frozen=True):
    """What is read of an entry of a manifest."""

    key: str
    folder: str
    overrides: list[str] = []


class Manifest(msgspec.Struct):
    """What is read of a manifest."""

    points: list[PlannedPoint]


@dataclass(frozen=True)
class PlannedRun:
    """A run of a point that a sweep was to make.

    Attributes:
        sweep: folder of the sweep.
        key: digest of the configuration: that of all runs of the point.
        name: its overrides.
        path: of its record, as rows have it.
        is_missing: whether there is no record, or no readable one.
    """

    sweep: str
    key: str
    name: str
    path: str
    is_missing: bool


@dataclass
class Plan:
    """What the sweeps below some places were to measure.

    Attributes:
        runs: of all sweeps.
        faults: one line for each manifest that is not readable.
    """

    runs: list[PlannedRun] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def plan_of(places: Iterable[Path], found: Container[str]) -> Plan:
    """Read the manifests at or below some folders.

    Args:
        places: files of records have no manifest.
        found: the paths of the records that were read, as rows have them.
    """
    plan = Plan()
    for path in dict.fromkeys(manifests(places)):
        try:
            content = files.read_json(Path(path), Manifest)
        except (OSError, ValueError, RecursionError) as error:
            plan.faults.append(f"{printable(path)}: not a sweep's manifest ({one_line(error)})")
            continue
        sweep = os.path.dirname(path)
        for point in content.points:
            record = os.path.join(sweep, point.folder, files.FILE_NAME)
            path_of_row = printable(record)
            is_missing = path_of_row not in found and not is_record(record)
            name = printable(" ".join(point.overrides)) or point.folder
            plan.runs.append(PlannedRun(sweep, point.key, name, path_of_row, is_missing))
    return plan


def manifests(places: Iterable[Path]) -> Iterator[str]:
    for place in places:
        top = os.path.realpath(place)
        if os.path.isdir(top):
            yield from (
                path for path in files_below(top, MANIFEST) if os.path.basename(path) == MANIFEST
            )


def is_record(path: str) -> bool:
    """Return whether a file is a record after all: the copy of one that was read."""
    try:
        files.require_regular(path)
    except (OSError, ValueError):
        return False
    found = derive(path)
    return found is not None and not found.fault

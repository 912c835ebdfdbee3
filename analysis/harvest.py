"""Reads every record below any number of folders into rows; what is broken or foreign is named, not fatal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.ranks import rank_rows
from analysis.rows import rows_of
from benchkit import record

PATTERN = "*record.json"
"""Also `gpu_record.json`: what somebody renamed to keep apart."""
SWEEP_FILE = "multirun.yaml"
"""What a sweep leaves in its folder."""


@dataclass
class Harvest:
    """The rows of all records found, those of their ranks, and one line for each file passed over."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def harvest(places: Iterable[Path]) -> Harvest:
    """Reads all records in folders (at any depth) and files; the same file is read once."""
    found = Harvest()
    folders: list[Path] = []
    for path in dict.fromkeys(path.resolve() for place in places for path in record_files(place)):
        try:
            folders.append(run_folder(path))
            content = {**record.read(path), "path": str(path), "run": str(folders[-1])}
            rows, ranks = rows_of(content), rank_rows(content)
            found.rows += rows
            found.ranks += ranks
        except ValueError as error:
            found.passed_over.append(str(error))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            found.passed_over.append(f"{path}: not a whole record ({type(error).__name__}: {error})")
    names = run_names(folders)
    for row in (*found.rows, *found.ranks):
        row["run"] = names[row["run"]]
    return found


def run_folder(path: Path) -> Path:
    """The folder of the sweep that a record is of.

    It is the nearest above that has the sweep's configuration, else that of SWEEP/NUMBER/record.json.
    """
    return next((folder for folder in path.parents if (folder / SWEEP_FILE).exists()), path.parent.parent)


def run_names(folders: Iterable[Path]) -> dict[str, str]:
    """Each folder's name, with as many folders above it as tell it from all others."""
    parts = [folder.parts for folder in dict.fromkeys(folders)]
    names = {}
    for mine in parts:
        depth = next(n for n in range(1, len(mine) + 1) if [each[-n:] for each in parts].count(mine[-n:]) == 1)
        names[str(Path(*mine))] = str(Path(*mine[-depth:]))
    return names


def missing(places: Iterable[Path]) -> str:
    """The first place that is not there, and that it is not; "" where all are."""
    return next((f"{place}: no such folder or file" for place in places if not place.exists()), "")


def record_files(place: Path) -> Iterator[Path]:
    """The record files at or below a place, in the order of their folders' numbers."""
    if place.is_file():
        yield place
    else:
        yield from sorted(place.rglob(PATTERN), key=lambda path: [numbered(part) for part in path.parts])


def numbered(part: str) -> tuple[int, str]:
    """Sorts 2 before 10."""
    return (int(part), "") if part.isdigit() else (-1, part)

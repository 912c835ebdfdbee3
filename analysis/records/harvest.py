"""Reads every record below any number of folders into rows; what is broken or foreign is named, not fatal."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.records.per_rank import rank_rows
from analysis.records.rows import rows_of
from analysis.records.validate import validate
from benchkit import record

PATTERN = "*record.json"
"""Also `gpu_record.json`: what somebody renamed to keep apart."""
SWEEP_FILE = "multirun.yaml"
"""What a sweep leaves in its folder."""
MOST_BYTES = 10**9
"""A larger file is no record, and would not fit in memory several times over."""
MOST_LINES = 20
"""Files passed over that are named; of more, only how many they are."""


@dataclass
class Harvest:
    """The rows of all records found, those of their ranks, and one line for each file passed over.

    num_files: all that looked like records. num_copies: those with the same content as another.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    num_files: int = 0
    num_copies: int = 0

    def remarks(self) -> Iterator[str]:
        """Which files are not in the rows, and why: a line each, of many the first."""
        for line in self.passed_over[:MOST_LINES]:
            yield f"passed over {line}"
        if (more := len(self.passed_over) - MOST_LINES) > 0:
            yield f"passed over {more} more"
        if self.passed_over and self.num_files > 1:
            yield f"{len(self.passed_over)} of {self.num_files} files passed over"
        if self.num_copies == 1:
            yield "1 record is a copy of another and is counted once"
        elif self.num_copies:
            yield f"{self.num_copies} records are copies of others and are counted once"


def harvest(places: Iterable[Path]) -> Harvest:
    """Reads all records in folders (at any depth) and files; the same file is read once."""
    found = Harvest()
    folders: list[Path] = []
    met: set[bytes] = set()
    files = (os.path.realpath(path) for place in places for path in record_files(place))
    for path in map(Path, dict.fromkeys(files)):
        found.num_files += 1
        try:
            require_regular(path)
            content = path.read_bytes()
            digest = hashlib.sha256(content).digest()
            if digest in met:
                found.num_copies += 1
                continue
            add_record(found, content, path, folder := run_folder(path))
        except (ValueError, OSError) as error:
            found.passed_over.append(one_line(error))
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            why = f"not a whole record ({type(error).__name__}: {error})"
            found.passed_over.append(one_line(f"{path}: {why}"))
        else:
            met.add(digest)
            folders.append(folder)
    names = run_names(folders)
    for row in (*found.rows, *found.ranks):
        row["run"] = printable(names[row["run"]])
    return found


def add_record(found: Harvest, content: bytes, path: Path, folder: Path) -> None:
    """Adds the rows of one record. Raises ValueError, KeyError, … for a file that is none."""
    parsed = record.parse(content, path)
    try:
        validate(parsed)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    parsed |= {"path": printable(str(path)), "run": str(folder)}
    rows, ranks = rows_of(parsed), rank_rows(parsed)
    found.rows += rows
    found.ranks += ranks


def require_regular(path: Path) -> None:
    """Raises ValueError for what is no file or too large, OSError for what is not there.

    A pipe or a device is never opened: a reader may wait for it for ever.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: not a regular file")
    if status.st_size > MOST_BYTES:
        size = f"{status.st_size / 1e9:.3g} GB"
        raise ValueError(f"{path}: {size}; files of at most {MOST_BYTES / 1e9:g} GB are read")


def one_line(text: object) -> str:
    """The text of a message without line breaks."""
    return printable(" ".join(str(text).split()))


def printable(text: str) -> str:
    """A path with bytes that are no text, such as an old file name, as text that can be written."""
    return text.encode(errors="backslashreplace").decode()


def run_folder(path: Path) -> Path:
    """The folder of the sweep that a record is of.

    It is the nearest above that has the sweep's configuration, else that of SWEEP/NUMBER/record.json.
    """
    return next((folder for folder in path.parents if (folder / SWEEP_FILE).exists()), path.parent.parent)


def run_names(folders: Iterable[Path]) -> dict[str, str]:
    """Each folder's name, with as many folders above it as tell it from all others."""
    unnamed = {folder: folder.parts for folder in folders}
    every = list(unnamed.values())
    names: dict[str, str] = {}
    depth = 0
    while unnamed:
        depth += 1
        counts = Counter(parts[-depth:] for parts in every)
        for folder, parts in list(unnamed.items()):
            if counts[parts[-depth:]] == 1:
                names[str(folder)] = str(Path(*parts[-depth:]))
                del unnamed[folder]
    return names


def missing(places: Iterable[Path]) -> str:
    """The first place that is not there or may not be seen, and why; "" where all are."""
    for place in places:
        try:
            if not place.exists():
                return f"{place}: no such folder or file"
        except OSError as error:
            return f"{place}: {error.strerror}"
    return ""


def record_files(place: Path) -> Iterator[Path]:
    """The record files at or below a place, in the order of their folders' numbers."""
    if place.is_dir():
        yield from sorted(place.rglob(PATTERN), key=record.by_number)
    else:
        yield place

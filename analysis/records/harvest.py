"""Reads every record below any number of folders into rows.

Broken and foreign files are named and skipped; they are not fatal.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.records.environments import Facts, environment_of
from analysis.records.per_rank import rank_rows
from analysis.records.rows import rows_of
from analysis.records.validate import validate
from benchkit.record import files

PATTERN = "*record.json"
"""Matches renamed copies too, such as `gpu_record.json`."""
SWEEP_FILE = "multirun.yaml"
"""The file that a sweep leaves in its folder."""
MOST_BYTES = 10**9
"""A larger file is no record, and would not fit in memory several times over."""
MOST_LINES = 20
"""How many skipped files are named; further ones are only counted."""


@dataclass
class Harvest:
    """The content of all records found.

    Attributes:
        rows: one per case of every record.
        ranks: one per rank and case.
        environments: one per record.
        passed_over: one line for each file that was skipped.
        num_files: how many files looked like records.
        num_copies: how many of these have the same content as another one.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    environments: list[Facts] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    num_files: int = 0
    num_copies: int = 0

    def remarks(self) -> Iterator[str]:
        """Yield lines on files that are not in the rows, and why; of many only the first ones."""
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
    """Read all records in files and in folders of any depth; the same file is read once."""
    found = Harvest()
    runs: dict[str, tuple[Path, int]] = {}
    known: set[bytes] = set()
    files = (os.path.realpath(path) for place in places for path in record_files(place))
    for path in map(Path, dict.fromkeys(files)):
        found.num_files += 1
        try:
            require_regular(path)
            content = path.read_bytes()
            digest = hashlib.sha256(content).digest()
            if digest in known:
                found.num_copies += 1
                continue
            folder = run_folder(path)
            repetition = add_record(found, content, path, folder)
        except (ValueError, OSError) as error:
            found.passed_over.append(one_line(error))
        else:
            known.add(digest)
            runs[run_of(folder, repetition)] = (folder, repetition)
    names = run_names({folder for folder, _ in runs.values()})
    for row in (*found.rows, *found.ranks):
        folder, repetition = runs[row["run"]]
        row["run"] = printable(run_of(names[str(folder)], repetition))
    return found


def run_of(sweep: object, repetition: int) -> str:
    """Name the run of a sweep: "SWEEP" of its first repetition, "SWEEP#2" of its second."""
    return f"{sweep}#{repetition + 1}" if repetition else str(sweep)


def add_record(found: Harvest, content: bytes, path: Path, folder: Path) -> int:
    """Add the rows of one record.

    Returns:
        Which repetition of its sweep the record is of, from 0 on.

    Raises:
        ValueError: for a file that is no record. Nothing is added then.
    """
    record = files.parse(content, path)
    try:
        validate(record)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    run = run_of(folder, record.repetition)
    rows = rows_of(record, printable(str(path)), run)
    ranks = rank_rows(record, run)
    found.rows += rows
    found.ranks += ranks
    found.environments.append(environment_of(record))
    return record.repetition


def require_regular(path: Path) -> None:
    """Check that a file can be read into memory.

    A pipe or a device is never opened, because a reader may wait for it forever.

    Raises:
        ValueError: for what is not a regular file or is too large.
        OSError: for what does not exist.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: not a regular file")
    if status.st_size > MOST_BYTES:
        size = f"{status.st_size / 1e9:.3g} GB"
        raise ValueError(f"{path}: {size}; files of at most {MOST_BYTES / 1e9:g} GB are read")


def one_line(text: object) -> str:
    """Return the text of a message without line breaks."""
    return printable(" ".join(str(text).split()))


def printable(text: str) -> str:
    """Escape what cannot be written in a path: bytes that are no text, as in old file names."""
    return text.encode(errors="backslashreplace").decode()


def run_folder(path: Path) -> Path:
    """Return the folder of the sweep that a record belongs to.

    It is the nearest folder above that has the sweep's configuration. Where there is none, it is
    SWEEP of SWEEP/NUMBER/record.json.
    """
    for folder in path.parents:
        if (folder / SWEEP_FILE).exists():
            return folder
    return path.parent.parent


def run_names(folders: Iterable[Path]) -> dict[str, str]:
    """Name each folder, with the parent folders that are needed to tell it from all others."""
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
    """Name the first place that does not exist or is not accessible, and why; "" without any."""
    for place in places:
        try:
            if not place.exists():
                return f"{place}: no such folder or file"
        except OSError as error:
            return f"{place}: {error.strerror}"
    return ""


def record_files(place: Path) -> Iterator[Path]:
    """Yield the record files at or below a place, in the order of their folders' numbers."""
    if place.is_dir():
        yield from sorted(place.rglob(PATTERN), key=files.by_number)
    else:
        yield place

"""Load all records below some folders, and the points planned in their sweeps' manifests.

Broken and foreign files are reported and skipped.
"""

import contextlib
import gc
import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pandas as pd

from analysis.records.derive import RecordSource, derive, read_sources
from analysis.records.environments import Facts
from analysis.records.paths import files_below, one_line, record_files, run_names, run_of
from analysis.records.rank_table import rank_table
from analysis.records.results import CaseRow, RanksOfRecord, RecordResult, decode_facts
from benchkit.record import files
from benchkit.record.naming import escape_unprintable

MOST_LINES = 20
"""How many skipped files are named; further ones are only counted."""
decode = msgspec.msgpack.Decoder(RecordResult).decode


@dataclass
class Harvest:
    """The content of all records below some folders.

    Attributes:
        skipped: one line for each file that was skipped.
        num_files: how many files looked like records.
        num_copies: how many of these are copies of others.
    """

    rows: list[CaseRow] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    num_files: int = 0
    num_copies: int = 0
    _ranks: list[RanksOfRecord] = field(default_factory=list)
    _facts: list[bytes] = field(default_factory=list)

    @property
    def ranks(self) -> pd.DataFrame:
        """One row per rank and case, see `analysis.records.per_rank.derive_ranks`."""
        return rank_table(self._ranks)

    @property
    def environments(self) -> list[Facts]:
        return list(map(decode_facts, self._facts))

    def add(self, figures: RecordResult, path: str, run: str) -> None:
        run = escape_unprintable(run, keep="")
        self.rows += figures.rows(escape_unprintable(path, keep=""), run)
        self._ranks.append(RanksOfRecord({**figures.settings, "run": run}, figures.ranks))
        self._facts.append(figures.facts)

    def remarks(self) -> Iterator[str]:
        """Yield a line per skipped file, with the reason, for the first ones; and count copies."""
        for line in self.skipped[:MOST_LINES]:
            yield f"passed over {line}"
        if (num_more := len(self.skipped) - MOST_LINES) > 0:
            yield f"passed over {num_more} more"
        if self.skipped and self.num_files > 1:
            yield f"{len(self.skipped)} of {self.num_files} files passed over"
        if self.num_copies == 1:
            yield "1 record is a copy of another and is counted once"
        elif self.num_copies:
            yield f"{self.num_copies} records are copies of others and are counted once"


def harvest(places: Iterable[Path], processes: int = 1) -> Harvest:
    """Read all records in files and in folders of any depth; the same file is read once."""
    with suspend_collection():
        return merge_sources(read_sources(record_files(places), processes))


@contextlib.contextmanager
def suspend_collection() -> Iterator[None]:
    """Suspend the collection of circular garbage: these dictionaries hold none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def merge_sources(sources: Iterable[RecordSource]) -> Harvest:
    """Merge the contents of files; copies count once."""
    merged = Harvest()
    records: dict[bytes, tuple[bytes, str, str]] = {}
    for source in sources:
        merged.num_files += 1
        if source.derived.fault:
            merged.skipped.append(source.derived.fault)
        elif source.derived.digest in records:
            merged.num_copies += 1
        else:
            record = source.derived.figures, source.path, source.folder
            records[source.derived.digest] = record
    names = run_names({folder for _, _, folder in records.values()})
    for content, path, folder in records.values():
        figures = decode(content)
        merged.add(figures, path, run_of(names[folder], figures.repetition))
    return merged


MANIFEST = "sweep.json"


class PlannedPoint(msgspec.Struct, frozen=True):
    key: str
    folder: str
    overrides: list[str] = []


class ManifestPoints(msgspec.Struct):
    """The part of a sweep's manifest that is read."""

    points: list[PlannedPoint]


@dataclass(frozen=True)
class PlannedRun:
    """A planned run of a point of a sweep.

    Attributes:
        key: digest of the configuration, equal for all runs of a point.
        name: its overrides.
        path: of its record, as in the rows.
        is_missing: whether there is no record, or no readable one.
    """

    sweep: str
    key: str
    name: str
    path: str
    is_missing: bool


@dataclass
class PlannedRuns:
    """The runs planned by the sweeps below some places."""

    runs: list[PlannedRun] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def plan_of(places: Iterable[Path], read_paths: Container[str]) -> PlannedRuns:
    """Read the manifests at or below some folders.

    Args:
        read_paths: of the records that were read, as in the rows.
    """
    plan = PlannedRuns()
    for path in dict.fromkeys(manifests(places)):
        try:
            content = files.read_json(Path(path), ManifestPoints)
        except (OSError, ValueError, RecursionError) as error:
            plan.faults.append(
                f"{escape_unprintable(path)}: not a sweep's manifest ({one_line(error)})"
            )
            continue
        sweep = os.path.dirname(path)
        for point in content.points:
            record = os.path.join(sweep, point.folder, files.FILE_NAME)
            path_of_row = escape_unprintable(record)
            is_missing = path_of_row not in read_paths and not is_record(record)
            name = escape_unprintable(" ".join(point.overrides)) or point.folder
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
    """Return whether a file is a record after all, such as a copy of one that was read."""
    try:
        files.require_regular(path)
    except (OSError, ValueError):
        return False
    return not derive(path).fault

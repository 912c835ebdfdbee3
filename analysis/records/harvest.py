"""Reads every record below any number of folders into rows.

Broken and foreign files are named and skipped; they are not fatal.
"""

import contextlib
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pandas as pd

from analysis.records.environments import Facts
from analysis.records.figures import CaseRow, RanksOfRecord, RecordFigures, decode_facts
from analysis.records.paths import record_files, run_names, run_of
from analysis.records.rank_table import rank_table
from analysis.records.sources import Source, read_sources
from benchkit.record.naming import printable

MOST_LINES = 20
"""How many skipped files are named; further ones are only counted."""
decode = msgspec.msgpack.Decoder(RecordFigures).decode


@dataclass
class Harvest:
    """The content of all records found.

    Attributes:
        rows: one per case of every record.
        passed_over: one line for each file that was skipped.
        num_files: how many files looked like records.
        num_copies: how many of these have the same content as another one.
        _ranks: of each record.
        _facts: of each record, encoded.
    """

    rows: list[CaseRow] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    num_files: int = 0
    num_copies: int = 0
    _ranks: list[RanksOfRecord] = field(default_factory=list)
    _facts: list[bytes] = field(default_factory=list)

    @property
    def ranks(self) -> pd.DataFrame:
        """One row per rank and case, see `analysis.records.per_rank.ranks_of`."""
        return rank_table(self._ranks)

    @property
    def environments(self) -> list[Facts]:
        """One per record."""
        return list(map(decode_facts, self._facts))

    def add(self, figures: RecordFigures, path: str, run: str) -> None:
        """Add the content of one record.

        Args:
            figures: derived from it.
            path: of its file.
            run: of its sweep.
        """
        run = printable(run, keep="")
        self.rows += figures.rows(printable(path, keep=""), run)
        self._ranks.append(RanksOfRecord({**figures.settings, "run": run}, figures.ranks))
        self._facts.append(figures.facts)

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


def harvest(places: Iterable[Path], processes: int = 1) -> Harvest:
    """Read all records in files and in folders of any depth; the same file is read once.

    Args:
        places: the files and folders.
        processes: the most that may read at once.
    """
    with without_collection():
        return harvested(read_sources(record_files(places), processes))


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Suspend the collection of circular garbage.

    It would look through all the dictionaries that are made here again and again, for nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def harvested(sources: Iterable[Source]) -> Harvest:
    """Put the content of files together, that of copies once."""
    found = Harvest()
    records: dict[bytes, tuple[bytes, str, str]] = {}
    for source in sources:
        found.num_files += 1
        if source.derived is None or source.derived.fault:
            found.passed_over.append(source.derived.fault if source.derived else "")
        elif source.derived.digest in records:
            found.num_copies += 1
        else:
            record = source.derived.figures, source.path, source.folder
            records[source.derived.digest] = record
    names = run_names({folder for _, _, folder in records.values()})
    for content, path, folder in records.values():
        figures = decode(content)
        found.add(figures, path, run_of(names[folder], figures.repetition))
    return found

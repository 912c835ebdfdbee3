"""Derives the figures of a record from the content of its file."""

import hashlib
from pathlib import Path

import msgspec

from analysis.records.columns import Columns
from analysis.records.environments import environment_of
from analysis.records.figures import RecordFigures, encoded, plain_cells
from analysis.records.paths import one_line
from analysis.records.per_rank import ranks_of
from analysis.records.rows import cases_of
from analysis.records.validate import validate
from benchkit.record import files
from benchkit.record.record import Record


class Derived(msgspec.Struct, frozen=True, array_like=True):
    """What was found in a file.

    Attributes:
        digest: SHA-256 of its content.
        figures: `RecordFigures`, encoded; empty where the file is no record.
        fault: why it is none.
    """

    digest: bytes
    figures: bytes
    fault: str = ""


def derive(path: str, known_digest: bytes = b"") -> Derived | None:
    """Read a file and derive its figures.

    Args:
        path: of the file.
        known_digest: of the content that it had before, if any.

    Returns:
        None where the content is still the same.
    """
    try:
        content = files.read_regular(path)
        digest = hashlib.sha256(content).digest()
        if digest == known_digest:
            return None
        record = files.parse(content, Path(path))
        try:
            validate(record)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return Derived(digest, encoded(figures_of(record)))
    except (ValueError, OSError) as error:
        return Derived(b"", b"", one_line(error))


def figures_of(record: Record) -> RecordFigures:
    """Derive all figures of a record."""
    own = Columns(record)
    return RecordFigures(
        repetition=record.repetition,
        settings=plain_cells(own.settings),
        provenance=plain_cells(own.provenance),
        cases=cases_of(record, own),
        ranks=encoded(ranks_of(record, own)),
        facts=encoded(plain_cells(environment_of(record))),
    )

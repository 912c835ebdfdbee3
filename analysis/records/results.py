"""Results of one record: the metrics of its cases and ranks, without raw samples.

They are encoded as soon as they are derived, so that they are the same from samples, from another
process and from the cache (analysis/records/derive.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from analysis.records.columns import METRICS
from benchkit.record.naming import escape_unprintable

Cell = bool | int | float | str | None
Row = Mapping[str, Any]
"""A row of a table, its cells by column, as pandas gives them."""
DETAILS = "details"
"""Key of a row for the details that the suite reports of the case, by name. Each detail becomes a
column, which is no part of the row's identity."""
REASON = "reason"
NAMES = tuple(metric.name for metric in METRICS)
PLACES = {name: place for place, name in enumerate(NAMES)}


class CaseResult(msgspec.Struct, frozen=True, array_like=True):
    """The cells of a case, without those that all rows of its record share.

    Attributes:
        metrics: as METRICS.
        rounds: float64, median seconds per call of each round, of a job with a baseline; else b"".
    """

    cells: dict[str, Cell]
    details: dict[str, Cell]
    metrics: list[float | int | None] | None
    rounds: bytes = b""


class RankColumns(msgspec.Struct, frozen=True, array_like=True):
    """The ranks of a measured case: by column a cell per rank, None where no rank has one."""

    labels: dict[str, Cell]
    columns: dict[str, list[Cell] | None]


class RanksOfRecord(NamedTuple):
    """The ranks of a record: list[RankColumns], encoded, and the cells that all rows share."""

    shared: dict[str, Cell]
    ranks: bytes


class RecordResult(msgspec.Struct, frozen=True, array_like=True):
    """Everything that analysis derives from a record.

    Attributes:
        repetition: of its sweep, from 0 on.
        cases: one per case; a record without cases has one that says how it ended.
        ranks: list[RankColumns], encoded; only reports read it.
        facts: `environments.Facts`, encoded; only comparisons read it.
    """

    repetition: int
    settings: dict[str, Cell]
    provenance: dict[str, Cell]
    cases: list[CaseResult]
    ranks: bytes
    facts: bytes

    def rows(self, path: str | None = None, run: str | None = None) -> list["CaseRow"]:
        shared = {**self.settings, **self.provenance, "path": path, "run": run}
        return [CaseRow(shared, case) for case in self.cases]


class CaseRow(Mapping[str, object]):
    """The cells of a case by name, with those that all cases of its record share.

    A dictionary per case would take ten times the memory: most cells are shared, and the names of
    the metrics are those of all cases.
    """

    __slots__ = ("case", "shared")

    def __init__(self, shared: Mapping[str, Cell], case: CaseResult) -> None:
        self.shared, self.case = shared, case

    def __getitem__(self, name: str) -> Any:
        if name == DETAILS:
            return self.case.details
        if self.case.metrics is not None and name in PLACES:
            return self.case.metrics[PLACES[name]]
        cells = self.case.cells
        return cells[name] if name in cells else self.shared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.names, DETAILS)))

    def __len__(self) -> int:
        return len(dict.fromkeys((*self.names, DETAILS)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all cells except details; of equal names the last one counts."""
        metrics = () if self.case.metrics is None else NAMES
        return (*self.shared, *self.case.cells, *metrics)

    @property
    def cells(self) -> tuple[Any, ...]:
        case = self.case
        return (*self.shared.values(), *case.cells.values(), *(case.metrics or ()))


encode = msgspec.msgpack.Encoder().encode
"""For parts of a result that are decoded only where they are needed."""
decode_ranks = msgspec.msgpack.Decoder(list[RankColumns]).decode
decode_facts = msgspec.msgpack.Decoder(dict[str, str | float | None]).decode


def plain_cell(value: Any, keep: str = "") -> Cell:
    """Return a cell that can be compared and grouped: lists and dictionaries become text.

    So do integers of more than 64 bits, which no column of numbers holds. Text becomes one line, so
    that it cannot leave its place in a table.

    Args:
        keep: characters that stay as they are, see `escape_unprintable`.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value if isinstance(value, int | float | None) else escape_unprintable(str(value), keep)


def plain_cells(cells: Mapping[str, object]) -> dict[str, Cell]:
    """Make all cells comparable; a reason keeps its lines."""
    return {
        escape_unprintable(name, keep=""): plain_cell(value, keep="\n\t" if name == REASON else "")
        for name, value in cells.items()
    }

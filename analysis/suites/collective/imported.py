"""Defines the row that results of all sources share, and reads our own records as such rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.records.harvest import harvest
from benchkit.statistics.estimators import LAST_ARRIVAL
from benchkit.suites.collective import names

SUITE = "collective"
IN_PLACE = {
    **dict.fromkeys((names.ALL_REDUCE, names.BROADCAST, names.REDUCE), True),
    **dict.fromkeys(names.SHARED_OUT, False),
}
"""Whether our suite calls a collective on one buffer."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement. For send_recv, time and payload are those of the way there and back.

    Attributes:
        source: the tool that measured.
        world_size: the number of ranks.
        payload_bytes: S of nccl-tests' doc/PERFORMANCE.md.
        osu_mean_s: the mean over iterations and ranks, of calls that follow a barrier; None where
            that was not measured.
        algbw_gb_per_s: algorithm bandwidth in 10^9 bytes/s.
        busbw_gb_per_s: bus bandwidth in 10^9 bytes/s.
        status: ok, invalid, unchecked where the tool did not check the results, or the status of a
            record.
        estimator: what the time is, in words.
        conversion: how time and bandwidth were taken over.
    """

    source: str
    file: str
    collective: str
    backend: str
    device: str | None
    world_size: int | None
    dtype: str | None
    reduce_op: str | None
    payload_bytes: int | None
    time_s: float | None
    osu_mean_s: float | None = None
    algbw_gb_per_s: float | None
    busbw_gb_per_s: float | None
    in_place: bool | None
    status: str
    estimator: str
    conversion: str

    def __post_init__(self) -> None:
        """Check the whole numbers.

        Raises:
            ValueError: a number cannot be in a table.
        """
        for name, most in (("world_size", 10**6), ("payload_bytes", 10**18)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and 0 <= value <= most):
                raise ValueError(f"{name} {value!r:.40}: allowed is a whole number up to {most:g}")


@dataclass
class Reading:
    """The rows of a place, and one line for each thing passed over."""

    rows: list[Row] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


class RanksMissing(ValueError):
    """The number of ranks is needed but not known."""


def whole_lines(text: str) -> Iterator[str]:
    """Yield the lines that end in a line break.

    A file that was cut off lacks an unknown part of its last line.
    """
    yield from (line for line in text.splitlines(keepends=True) if line.endswith("\n"))


def unfinished(text: str) -> int:
    """Count the lines that `whole_lines` leaves out at the end: 0 or 1."""
    return 0 if text.endswith("\n") else 1


def number(text: Any) -> float | None:
    """Convert a figure; None for N/A, nan, inf, null and words."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if abs(value) < float("inf") else None


def recorded(place: Path) -> Reading:
    """Read our records of the suite `collective` at or below a place."""
    found = harvest([place])
    rows = []
    remarks = [*found.remarks()]
    for row in found.rows:
        if row["suite"] == SUITE:
            try:
                rows.append(row_of(row))
            except (LookupError, TypeError, ValueError) as error:
                why = f"not a record of a collective ({type(error).__name__}: {error})"
                remarks.append(f"{row['path']}: {why}")
    if not rows and not remarks:
        remarks.append(f"{place}: no record of suite {SUITE} there")
    return Reading(rows, remarks)


def row_of(row: Mapping[str, Any]) -> Row:
    """Convert a row of a record; where nothing was measured, the payload is the one asked for."""
    collective = str(row["collective"])
    calls = row.get("calls") or row["calls_per_sample"]
    payload_bytes = round(row.get("payload_bytes") or row["data_size"] * 2**20)
    remarks = ["as recorded"]
    if row.get("async_op"):
        remarks.append("asynchronous")
    if row.get("ragged"):
        remarks.append("parts of unlike sizes")
    return Row(
        source="benchkit",
        file=str(Path(row["path"]).parent),
        collective=collective,
        backend=row["backend"],
        device=row["device"],
        world_size=row["world_size"],
        dtype=None if collective == names.BARRIER else row["dtype"],
        reduce_op=row["reduce_op"] if collective in names.REDUCTIONS else None,
        payload_bytes=None if collective == names.BARRIER else payload_bytes,
        time_s=row.get("median_s"),
        osu_mean_s=row.get("osu_mean_s"),
        algbw_gb_per_s=row.get("algbw_gb_per_s"),
        busbw_gb_per_s=row.get("busbw_gb_per_s"),
        in_place=IN_PLACE.get(collective),
        status=row["status"],
        estimator=estimator_of(row.get("estimator"), calls),
        conversion=", ".join(remarks),
    )


def estimator_of(estimator: str | None, calls: Any) -> str:
    """Describe what our time is, in words."""
    if estimator == LAST_ARRIVAL:
        return "median over iterations, last arrival to last exit"
    samples = "iterations" if calls == 1 else f"samples of {calls} calls"
    return f"median over {samples} of the slowest rank"

"""What measurements of all sources have in common: a row of one table. Our own records as such rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.records.harvest import harvest
from benchkit.statistics.estimators import LAST_ARRIVAL
from benchkit.suites.collective.sizes import REDUCTIONS, SHARED_OUT

SUITE = "collective"
IN_PLACE = {**dict.fromkeys(("all_reduce", "broadcast", "reduce"), True), **dict.fromkeys(SHARED_OUT, False)}
"""Whether our suite calls them on one buffer."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement. payload_bytes: S of nccl-tests' doc/PERFORMANCE.md; bandwidths in 10^9 bytes/s.

    osu_mean_s: mean over iterations and ranks, of calls that follow a barrier; None where that was not measured.

    For send_recv, time and payload are those of the way there and back. status: ok, invalid, unchecked where the tool
    did not look at the results, or what else a record says.
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
        """Raises ValueError for what cannot be in a table."""
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
    """How many ranks there were is needed, and nobody said."""


def whole_lines(text: str) -> Iterator[str]:
    """The lines that end as lines do: of the last of a file that was cut off, nobody knows what is missing."""
    yield from (line for line in text.splitlines(keepends=True) if line.endswith("\n"))


def unfinished(text: str) -> int:
    """How many lines `whole_lines` leaves out at the end: 0 or 1."""
    return 0 if text.endswith("\n") else 1


def number(text: Any) -> float | None:
    """A figure; None for what is none: N/A, nan, inf, null, words."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if abs(value) < float("inf") else None


def recorded(place: Path) -> Reading:
    """Our records of the suite `collective` at or below a place."""
    found = harvest([place])
    rows, strange = [], []
    for row in found.rows:
        if row["suite"] == SUITE:
            try:
                rows.append(row_of(row))
            except (LookupError, TypeError, ValueError) as error:
                why = f"not a record of a collective ({type(error).__name__}: {error})"
                strange.append(f"{row['path']}: {why}")
    told = [*found.remarks(), *strange]
    return Reading(rows, told or ([] if rows else [f"{place}: no record of suite {SUITE} there"]))


def row_of(row: Mapping[str, Any]) -> Row:
    """A row of ours; the payload of one that was not measured is what was asked for."""
    collective, calls = str(row["collective"]), row.get("calls") or row["calls_per_sample"]
    payload_bytes = round(row.get("payload_bytes") or row["data_size"] * 2**20)
    special = [
        word for key, word in (("async_op", "asynchronous"), ("ragged", "parts of unlike sizes")) if row.get(key)
    ]
    return Row(
        source="benchkit",
        file=str(Path(row["path"]).parent),
        collective=collective,
        backend=row["backend"],
        device=row["device"],
        world_size=row["world_size"],
        dtype=None if collective == "barrier" else row["dtype"],
        reduce_op=row["reduce_op"] if collective in REDUCTIONS else None,
        payload_bytes=None if collective == "barrier" else payload_bytes,
        time_s=row.get("median_s"),
        osu_mean_s=row.get("osu_mean_s"),
        algbw_gb_per_s=row.get("algbw_gb_per_s"),
        busbw_gb_per_s=row.get("busbw_gb_per_s"),
        in_place=IN_PLACE.get(collective),
        status=row["status"],
        estimator=estimator_of(row.get("estimator"), calls),
        conversion=", ".join(["as recorded", *special]),
    )


def estimator_of(estimator: str | None, calls: Any) -> str:
    """What our time is, in words."""
    if estimator == LAST_ARRIVAL:
        return "median over iterations, last arrival to last exit"
    return f"median over {'iterations' if calls == 1 else f'samples of {calls} calls'} of the slowest rank"

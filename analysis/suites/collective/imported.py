"""Defines the row that results of all sources share, and reads our own records as such rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from analysis.records.foreign import Timing, ours
from benchkit.statistics import LAST_ARRIVAL
from benchkit.suites.collective import names

IN_PLACE = {
    **dict.fromkeys((names.ALL_REDUCE, names.BROADCAST, names.REDUCE), True),
    **dict.fromkeys(names.SHARED_OUT, False),
}
"""Whether our suite calls a collective on one buffer."""


@dataclass(frozen=True, kw_only=True)
class Row(Timing):
    """A collective. For send_recv, time and payload are those of the way there and back.

    Attributes:
        payload_bytes: S of nccl-tests' doc/PERFORMANCE.md.
        osu_mean_s: the mean over iterations and ranks, of calls that follow a barrier; None where
            that was not measured.
        algbw_gb_per_s: algorithm bandwidth in 10^9 bytes/s.
        busbw_gb_per_s: bus bandwidth in 10^9 bytes/s.
    """

    SUITE: ClassVar[str] = "collective"
    ORDER: ClassVar[tuple[str, ...]] = (
        "collective", "payload_bytes", "world_size", "source", "file", "in_place",
    )  # fmt: skip

    collective: str
    reduce_op: str | None
    payload_bytes: int | None
    osu_mean_s: float | None = None
    algbw_gb_per_s: float | None
    busbw_gb_per_s: float | None
    in_place: bool | None

    def __post_init__(self) -> None:
        """Check the whole numbers.

        Raises:
            ValueError: a number cannot be in a table.
        """
        for name, most in (("world_size", 10**6), ("payload_bytes", 10**18)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and 0 <= value <= most):
                raise ValueError(f"{name} {value!r:.40}: allowed is a whole number up to {most:g}")


class RanksMissing(ValueError):
    """The number of ranks is needed but not known."""


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
    time_s = {"time_s": row.get("median_s"), "std_s": None}
    how = {
        "dtype": None if collective == names.BARRIER else row["dtype"],
        "estimator": estimator_of(row.get("estimator"), calls),
        "conversion": ", ".join(remarks),
    }
    return Row(
        **(ours(row) | time_s | how),
        collective=collective,
        reduce_op=row["reduce_op"] if collective in names.REDUCTIONS else None,
        payload_bytes=None if collective == names.BARRIER else payload_bytes,
        osu_mean_s=row.get("osu_mean_s"),
        algbw_gb_per_s=row.get("algbw_gb_per_s"),
        busbw_gb_per_s=row.get("busbw_gb_per_s"),
        in_place=IN_PLACE.get(collective),
    )


def estimator_of(estimator: str | None, calls: Any) -> str:
    """Describe what our time is, in words."""
    if estimator == LAST_ARRIVAL:
        return "median over iterations, last arrival to last exit"
    samples = "iterations" if calls == 1 else f"samples of {calls} calls"
    return f"median over {samples} of the slowest rank"

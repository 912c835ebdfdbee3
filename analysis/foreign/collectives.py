"""The timing of a collective, common to nccl-tests, OSU, PARAM, CS336 and our records."""

from dataclasses import dataclass

from analysis.foreign.timings import Timing, samples_of
from analysis.records.results import Row
from benchkit.statistics import LAST_ARRIVAL
from benchkit.suites.collective import suite as names

IN_PLACE = {
    **dict.fromkeys((names.ALL_REDUCE, names.BROADCAST, names.REDUCE), True),
    **dict.fromkeys(names.SHARED_OUT, False),
}
"""Whether our suite runs a collective in place."""


@dataclass(frozen=True, kw_only=True)
class CollectiveTiming(Timing):
    """A collective. For send_recv, time and payload are those of a round trip.

    Attributes:
        payload_bytes: S of nccl-tests' doc/PERFORMANCE.md.
        osu_mean_s: mean over iterations and ranks of calls after a barrier, if measured.
        algbw_gb_per_s: algorithm bandwidth in 10^9 bytes/s.
        busbw_gb_per_s: bus bandwidth in 10^9 bytes/s.
    """

    SUITE = "collective"
    ORDER = ("collective", "payload_bytes", "world_size", "source", "file", "in_place")

    collective: str
    reduce_op: str | None
    payload_bytes: int | None
    osu_mean_s: float | None = None
    algbw_gb_per_s: float | None
    busbw_gb_per_s: float | None
    in_place: bool | None

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of the range of the tables."""
        for name, most in (("world_size", 10**6), ("payload_bytes", 10**18)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and 0 <= value <= most):
                raise ValueError(f"{name} {value!r:.40}: allowed is a whole number up to {most:g}")

    @classmethod
    def of_record(cls, row: Row) -> "CollectiveTiming":
        """Convert a row of a record; its time is the median.

        Without a measurement, the payload is the requested one.
        """
        collective = str(row["collective"])
        payload_bytes = round(row.get("payload_bytes") or row["data_size"] * 2**20)
        remarks = ["as recorded"]
        if row.get("async_op"):
            remarks.append("asynchronous")
        if row.get("ragged"):
            remarks.append("parts of unlike sizes")
        return cls.from_row(
            row,
            dtype=None if collective == names.BARRIER else row["dtype"],
            time_s=row.get("median_s"),
            std_s=None,
            estimator=estimator_of(row),
            conversion=", ".join(remarks),
            collective=collective,
            reduce_op=row["reduce_op"] if collective in names.REDUCTIONS else None,
            payload_bytes=None if collective == names.BARRIER else payload_bytes,
            osu_mean_s=row.get("osu_mean_s"),
            algbw_gb_per_s=row.get("algbw_gb_per_s"),
            busbw_gb_per_s=row.get("busbw_gb_per_s"),
            in_place=IN_PLACE.get(collective),
        )


def bandwidths(
    collective: str, payload_bytes: int | None, time_s: float | None, world_size: int
) -> dict[str, float | None]:
    """Compute both bandwidths, for tools that print none or use other units."""
    algbw = payload_bytes / time_s / 1e9 if payload_bytes and time_s else None
    factor = names.bus_factor(collective, world_size)
    busbw = algbw * factor if algbw and factor else None
    return {"algbw_gb_per_s": algbw, "busbw_gb_per_s": busbw}


def estimator_of(row: Row) -> str:
    if row.get("estimator") == LAST_ARRIVAL:
        return "median over iterations, last arrival to last exit"
    return f"median over {samples_of(row)} of the slowest rank"

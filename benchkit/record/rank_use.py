"""What the ranks of a point had done before it, where they stay from point to point."""

from dataclasses import dataclass

from benchkit.record.numbers import NumBytes, NumEarlier


@dataclass(frozen=True, kw_only=True)
class RankUse:
    """What the ranks of a point had done and held when it began.

    Attributes:
        points_before: number of points that the same processes had measured; 0 for fresh ones.
        host_bytes: resident memory of each rank.
        device_bytes: memory of its GPU that each rank held through torch; 0 on a CPU.
    """

    points_before: NumEarlier
    host_bytes: list[NumBytes]
    device_bytes: list[NumBytes]

"""What rank 0 returns to its agent. Imports no torch, which only ranks load."""

from dataclasses import dataclass, field

from benchkit.record.case import CaseRecord
from benchkit.record.devices import RankDevice, TorchSettings
from benchkit.record.rank_use import RankUse
from benchkit.record.record import SlowdownReport


@dataclass(frozen=True)
class RankReport:
    """What rank 0 returns to its agent.

    Attributes:
        cases: of the point.
        clock: name of the clock that timed them.
        began_s: when each phase began, on the monotonic clock of rank 0's host.
        slowdown: measured factors; None where no rank is slowed down.
        warnings: of the calibration, of the cases and of the GPUs.
        rank_devices: one per rank.
        torch_settings: of rank 0, by name.
        rank_use: what these ranks had done before.
    """

    cases: list[CaseRecord]
    clock: str
    began_s: dict[str, float]
    slowdown: SlowdownReport | None = None
    warnings: list[str] = field(default_factory=list)
    rank_devices: list[RankDevice] = field(default_factory=list)
    torch_settings: TorchSettings = field(default_factory=dict)
    rank_use: RankUse | None = None

"""Says what was wrong with the GPUs of a point: one line for each kind, with the ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchkit.record.gpu_state import HOLDS_BACK, SETTING


@dataclass(frozen=True)
class Seen:
    """What was seen of one rank's GPU while cases were timed.

    Attributes:
        is_unread: whether it is a GPU of NVIDIA whose state nothing tells.
        strangers: number of processes on it that are no ranks.
        reasons: for its clocks, as bits (benchkit/record/gpu_state.py): [case].
        sm_mhz: its clock after each case, 0 where it is not known: [case].
    """

    is_unread: bool = False
    strangers: int = 0
    reasons: list[int] = field(default_factory=list)
    sm_mhz: list[float] = field(default_factory=list)

    def has_reason(self, bit: int) -> bool:
        """Returns whether a reason held at any case."""
        return any(reasons & bit for reasons in self.reasons)


def gpu_warnings(seen: Sequence[Seen]) -> list[str]:
    """Returns the warnings of a point, given what was seen of the GPU of each rank: [rank]."""
    unknown = [rank for rank, own in enumerate(seen) if own.is_unread]
    shared = [rank for rank, own in enumerate(seen) if own.strangers]
    lines = []
    if unknown:
        lines.append(
            f"clocks, power and throttling of the GPU of {named(unknown)} are not known: "
            "nvidia-ml-py is not installed, or the driver has no NVML"
        )
    if shared:
        most = max(seen[rank].strangers for rank in shared)
        processes = "1 other process" if most == 1 else f"up to {most} other processes"
        lines.append(f"{processes} computed on the GPU of {named(shared)}")
    return [*lines, *throttling(seen), *unlocked(seen)]


def throttling(seen: Sequence[Seen]) -> list[str]:
    """Returns a line on what held clocks back, if anything did."""
    clauses = []
    for bit, reason in HOLDS_BACK.items():
        held = [rank for rank, own in enumerate(seen) if own.has_reason(bit)]
        if held:
            clauses.append(f"{reason} ({named(held)})")
    return [f"GPU clocks were held back: {'; '.join(clauses)}"] if clauses else []


def unlocked(seen: Sequence[Seen]) -> list[str]:
    """Returns a line on clocks that no setting limits, if any; a setting shows in the reasons."""
    free = [
        rank for rank, own in enumerate(seen) if any(own.sm_mhz) and not own.has_reason(SETTING)
    ]
    if not free:
        return []
    clocks = [mhz for rank in free for mhz in seen[rank].sm_mhz if mhz]
    return [
        f"GPU clocks are not locked ({named(free)}): SM at {min(clocks):.0f} to "
        f"{max(clocks):.0f} MHz after cases; nvidia-smi -lgc locks them"
    ]


def named(ranks: Sequence[int]) -> str:
    """Returns "rank 0" or "ranks 0, 2"."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"

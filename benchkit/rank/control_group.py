"""The ranks' control channel, separate from what is measured."""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from benchkit.api.gather import gather_json


@dataclass(frozen=True)
class Finding:
    """Why a case is not ok, and the first rank that says so."""

    reason: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class ControlGroup:
    """The ranks' control channel: CPU tensors over gloo, whichever backend is measured."""

    handle: dist.ProcessGroup | None
    world_size: int

    def barrier(self) -> None:
        dist.barrier(group=self.handle)

    def exchange(self, values: list[float]) -> list[list[float]]:
        """Returns every rank's list of numbers, in order of ranks."""
        mine = torch.tensor(values, dtype=torch.float64)
        gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(gathered, mine, group=self.handle)
        return [row.tolist() for row in gathered]

    def first_reason(self, reasons: list[str]) -> list[Finding]:
        """Returns the first non-empty reason of each case, by rank; the same on all ranks."""
        by_case = zip(*gather_json(reasons, self.handle), strict=True)
        return [first_finding(reasons_of_ranks) for reasons_of_ranks in by_case]


def first_finding(reasons: tuple[str, ...]) -> Finding:
    """Returns the first non-empty reason, given one reason per rank."""
    for rank, reason in enumerate(reasons):
        if reason:
            return Finding(reason, rank)
    return Finding()

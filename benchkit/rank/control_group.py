"""The ranks' control channel, beside what is measured."""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from benchkit.api.gather import gather_json


@dataclass(frozen=True)
class Finding:
    """Why a case is not ok, and which rank said so first."""

    reason: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class Group:
    """The ranks' control channel: CPU tensors over gloo, whatever backend is measured."""

    handle: dist.ProcessGroup | None
    world_size: int

    def barrier(self) -> None:
        dist.barrier(group=self.handle)

    def exchange(self, values: list[float]) -> list[list[float]]:
        """Every rank's list of numbers, in order of ranks."""
        mine = torch.tensor(values, dtype=torch.float64)
        gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(gathered, mine, group=self.handle)
        return [row.tolist() for row in gathered]

    def first_reason(self, reasons: list[str]) -> list[Finding]:
        """Per case, the first rank's reason that is not empty; the same on all ranks."""
        columns = zip(*gather_json(reasons, self.handle), strict=True)
        return [
            next((Finding(reason, rank) for rank, reason in enumerate(column) if reason), Finding())
            for column in columns
        ]

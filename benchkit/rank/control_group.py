"""The ranks' control channel, beside what is measured."""

from dataclasses import dataclass
from typing import Any

import orjson
import torch
import torch.distributed as dist


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


def gather_json(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Every rank's value, plain JSON data, in order of ranks; all ranks of the group call this together.

    In place of `all_gather_object`, which unpickles, and so runs, what the other ranks send.
    """
    device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")
    mine = torch.frombuffer(bytearray(orjson.dumps(value)), dtype=torch.uint8).to(device)
    size = torch.tensor([mine.numel()], device=device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, size, group=group)
    padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=device)
    padded[: mine.numel()] = mine
    gathered = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(gathered, padded, group=group)
    rows = [row.cpu().numpy().tobytes() for row in gathered]
    return [orjson.loads(row[: int(size)]) for row, size in zip(rows, sizes, strict=True)]

"""Gathers plain data of every rank on every rank, outside of what is timed."""

from typing import Any

import msgspec
import torch
import torch.distributed as dist

from benchkit.api.device_wait import wait_for_device


def gather_json(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Returns every rank's value: [rank]; all ranks of the group call this together.

    It replaces `all_gather_object`, which unpickles, and so executes, what the other ranks send.

    Args:
        value: plain JSON data of this rank.
        group: the process group; None for the default one.
    """
    device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")
    mine = torch.frombuffer(bytearray(msgspec.json.encode(value)), dtype=torch.uint8).to(device)
    size = torch.tensor([mine.numel()], device=device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, size, group=group)
    wait_for_device(size)
    padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=device)
    padded[: mine.numel()] = mine
    gathered = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(gathered, padded, group=group)
    wait_for_device(padded)
    rows = [row.cpu().numpy().tobytes() for row in gathered]
    return [msgspec.json.decode(row[: int(size)]) for row, size in zip(rows, sizes, strict=True)]


def first_reason(reason: str, group: dist.ProcessGroup | None = None) -> str:
    """Returns the first rank's reason that is not empty; all ranks of the group call this together.

    Args:
        reason: why this rank cannot do something; "" if it can.
        group: the process group; None for the default one.
    """
    return next(filter(None, gather_json(reason, group)), "")

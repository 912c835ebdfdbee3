"""Sends and receives tensors while other work is computed.

gloo sends no GPU memory to a peer. There a tensor takes the way over the host's memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import WAIT, region

Ends = Sequence[tuple[Tensor, int]]
"""Tensors, each with the rank that it goes to or comes from."""


class Transfer(Protocol):
    """A transfer that is under way."""

    def wait(self) -> object:
        """Waits until what is received has arrived, and what is sent may change."""
        ...


StartedTransfers = tuple[list[Transfer], list[Transfer]]
"""Transfers of what is being sent and of what is being received."""


def by_way_of_the_host(tensor: Tensor, group: dist.ProcessGroup | None) -> bool:
    """Returns whether peers cannot read a tensor's memory over this group's backend."""
    return bool(tensor.is_cuda and dist.get_backend(group) == "gloo")


def sendable(tensor: Tensor) -> Tensor:
    """Returns a tensor as every backend sends it: float8, which gloo refuses, as bytes."""
    is_float8 = tensor.dtype.itemsize == 1 and tensor.is_floating_point()
    return tensor.view(torch.uint8) if is_float8 else tensor


def exchange_device(device: torch.device) -> torch.device:
    """Returns where small tensors must be for a collective of the job's backend."""
    return torch.device("cpu") if dist.get_backend() == "gloo" else device


def start(sends: Ends, receives: Ends, group: dist.ProcessGroup | None = None) -> StartedTransfers:
    """Starts all transfers in one batch.

    Without a batch NCCL would wait for each transfer in turn, and a ring of ranks would wait for
    ever. Transfers that the backend does not tell apart count as being received.
    """
    if not (sends or receives):
        return [], []
    if not by_way_of_the_host((*sends, *receives)[0][0], group):
        return in_one_batch(sends, receives, group)
    on_host = [(target.new_empty(target.shape, device="cpu"), peer) for target, peer in receives]
    copies = [(tensor.cpu(), peer) for tensor, peer in sends]
    sending, receiving = in_one_batch(copies, on_host, group)
    landings: list[Transfer] = []
    for work, (target, _), (host, _) in zip(receiving, receives, on_host, strict=True):
        landings.append(Landing(work, target, host))
    return sending, landings


def in_one_batch(sends: Ends, receives: Ends, group: dist.ProcessGroup | None) -> StartedTransfers:
    """Starts all transfers by one call of the backend, which may return one work for all."""
    operations = [dist.P2POp(dist.isend, sendable(tensor), peer, group) for tensor, peer in sends]
    operations += [dist.P2POp(dist.irecv, sendable(part), peer, group) for part, peer in receives]
    works: list[Transfer] = dist.batch_isend_irecv(operations)
    if len(works) != len(operations):
        return [], works
    return works[: len(sends)], works[len(sends) :]


class InFlight:
    """Transfers that are under way, by the piece of a message that they belong to."""

    def __init__(self, num_pieces: int) -> None:
        self._transfers: list[list[Transfer]] = [[] for _ in range(num_pieces)]

    def start(
        self, piece: int, sends: Ends, receives: Ends, group: dist.ProcessGroup | None
    ) -> None:
        """Starts the transfers of a piece, whose earlier transfers must be done."""
        sending, receiving = start(sends, receives, group)
        self._transfers[piece] = [*sending, *receiving]

    def wait(self, piece: int) -> None:
        """Waits until what is received has arrived, and what is sent may change."""
        with region(WAIT):
            for transfer in self._transfers[piece]:
                transfer.wait()


@dataclass(frozen=True)
class Landing:
    """A transfer that is received on the host and wanted on a GPU."""

    work: Transfer
    target: Tensor
    host: Tensor

    def wait(self) -> None:
        self.work.wait()
        self.target.copy_(self.host)

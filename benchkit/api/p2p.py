"""Sending and receiving beside computing. gloo sends no GPU's memory to a peer: there it goes by way of the host's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import WAIT, region

Ends = Sequence[tuple[Tensor, int]]
"""What goes to, or comes from, which rank."""


class Transfer(Protocol):
    """What is under way; afterwards what was received is there, and what was sent may change."""

    def wait(self) -> object: ...


def by_way_of_the_host(tensor: Tensor, group: dist.ProcessGroup | None) -> bool:
    """Whether peers cannot read a tensor's memory over this backend."""
    return bool(tensor.is_cuda and dist.get_backend(group) == "gloo")


def exchange_device(device: torch.device) -> torch.device:
    """Where small tensors must be for a collective of the job's backend."""
    return torch.device("cpu") if dist.get_backend() == "gloo" else device


def start(sends: Ends, receives: Ends, group: dist.ProcessGroup | None = None) -> tuple[list[Transfer], list[Transfer]]:
    """Starts all of them and returns what is being sent and what is being received.

    In one batch, for NCCL would wait for each in turn and a ring of ranks for ever; what it does not tell apart counts
    as being received.
    """
    if not (sends or receives):
        return [], []
    if not by_way_of_the_host((*sends, *receives)[0][0], group):
        return in_one_batch(sends, receives, group)
    landing = [(target.new_empty(target.shape, device="cpu"), peer) for target, peer in receives]
    sending, receiving = in_one_batch([(tensor.cpu(), peer) for tensor, peer in sends], landing, group)
    return sending, [
        Landing(work, target, host) for work, (target, _), (host, _) in zip(receiving, receives, landing, strict=True)
    ]


def in_one_batch(sends: Ends, receives: Ends, group: dist.ProcessGroup | None) -> tuple[list[Transfer], list[Transfer]]:
    operations = [dist.P2POp(dist.isend, tensor, peer, group) for tensor, peer in sends]
    operations += [dist.P2POp(dist.irecv, tensor, peer, group) for tensor, peer in receives]
    works: list[Transfer] = dist.batch_isend_irecv(operations)
    return (works[: len(sends)], works[len(sends) :]) if len(works) == len(operations) else ([], works)


class InFlight:
    """What is under way, by the piece of a message that it belongs to."""

    def __init__(self, num_pieces: int) -> None:
        self._transfers: list[list[Transfer]] = [[] for _ in range(num_pieces)]

    def start(self, piece: int, sends: Ends, receives: Ends, group: dist.ProcessGroup | None) -> None:
        """Starts a piece's transfers; those of it before must be done."""
        sending, receiving = start(sends, receives, group)
        self._transfers[piece] = [*sending, *receiving]

    def wait(self, piece: int) -> None:
        """Waits until what was received is there and what was sent may change."""
        with region(WAIT):
            for transfer in self._transfers[piece]:
                transfer.wait()


@dataclass(frozen=True)
class Landing:
    """Received on the host, wanted elsewhere."""

    work: Transfer
    target: Tensor
    host: Tensor

    def wait(self) -> None:
        self.work.wait()
        self.target.copy_(self.host)

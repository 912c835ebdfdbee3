"""Send tensors to peers, all-gather plain data, and make subgroups.

gloo cannot send GPU memory to a peer, so tensors are staged in host memory.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from benchkit.api.memory import wait_for_device
from benchkit.api.regions import WAIT, region
from benchkit.errors import Reason

PeerTensors = Sequence[tuple[Tensor, int]]


class Transfer(Protocol):
    def wait(self) -> object:
        """Wait until received data has arrived, and sent buffers may change."""
        ...


class PendingTransfers(NamedTuple):
    sending: Sequence[Transfer] = ()
    receiving: Sequence[Transfer] = ()

    def wait(self) -> None:
        for transfer in (*self.sending, *self.receiving):
            transfer.wait()


def is_staged_on_host(tensor: Tensor, group: dist.ProcessGroup | None) -> bool:
    return bool(tensor.is_cuda and dist.get_backend(group) == "gloo")


def sendable(tensor: Tensor) -> Tensor:
    """View float8, which gloo refuses to send, as bytes."""
    is_float8 = tensor.dtype.itemsize == 1 and tensor.is_floating_point()
    return tensor.view(torch.uint8) if is_float8 else tensor


def exchange_device(device: torch.device) -> torch.device:
    return torch.device("cpu") if dist.get_backend() == "gloo" else device


def start_transfers(
    sends: PeerTensors, receives: PeerTensors, group: dist.ProcessGroup | None = None
) -> PendingTransfers:
    """Start all transfers in one batch; a single work for all counts as a receive.

    Without a batch NCCL would wait for one transfer after another, and a ring would deadlock.
    """
    if not (sends or receives):
        return PendingTransfers()
    if not is_staged_on_host((*sends, *receives)[0][0], group):
        return batch_transfers(sends, receives, group)
    on_host = [(target.new_empty(target.shape, device="cpu"), peer) for target, peer in receives]
    copies = [(tensor.cpu(), peer) for tensor, peer in sends]
    sending, receiving = batch_transfers(copies, on_host, group)
    landings: list[Transfer] = []
    for work, (target, _), (host, _) in zip(receiving, receives, on_host, strict=True):
        landings.append(StagedReceive(work, target, host))
    return PendingTransfers(sending, landings)


def batch_transfers(
    sends: PeerTensors, receives: PeerTensors, group: dist.ProcessGroup | None
) -> PendingTransfers:
    operations = [dist.P2POp(dist.isend, sendable(tensor), peer, group) for tensor, peer in sends]
    operations += [dist.P2POp(dist.irecv, sendable(part), peer, group) for part, peer in receives]
    works: list[Transfer] = dist.batch_isend_irecv(operations)
    if len(works) != len(operations):
        return PendingTransfers(receiving=works)
    return PendingTransfers(works[: len(sends)], works[len(sends) :])


class InFlight:
    """Pending transfers, by piece of a message."""

    def __init__(self, num_pieces: int) -> None:
        self._transfers = [PendingTransfers()] * num_pieces

    def start(
        self, piece: int, sends: PeerTensors, receives: PeerTensors, group: dist.ProcessGroup | None
    ) -> None:
        self._transfers[piece] = start_transfers(sends, receives, group)

    def wait(self, piece: int) -> None:
        with region(WAIT):
            self._transfers[piece].wait()


@dataclass(frozen=True)
class StagedReceive:
    work: Transfer
    target: Tensor
    host: Tensor

    def wait(self) -> None:
        self.work.wait()
        self.target.copy_(self.host)


def all_gather_json(value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Return every rank's plain JSON value: [rank]; all ranks of the group call this together.

    `all_gather_object` would unpickle, and so execute, data of the other ranks.
    """
    device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")
    data = torch.frombuffer(bytearray(msgspec.json.encode(value)), dtype=torch.uint8).to(device)
    size = torch.tensor([data.numel()], device=device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, size, group=group)
    wait_for_device(size)
    padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=device)
    padded[: data.numel()] = data
    gathered = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(gathered, padded, group=group)
    wait_for_device(padded)
    rows = [row.cpu().numpy().tobytes() for row in gathered]
    return [msgspec.json.decode(row[: int(size)]) for row, size in zip(rows, sizes, strict=True)]


def first_reason(reason: Reason, group: dist.ProcessGroup | None = None) -> Reason:
    """Return the first rank's non-empty reason, or ""; all ranks call this together."""
    return next(filter(None, all_gather_json(reason, group)), "")


GLOO_ON_GPUS = (
    "DTensor gathers by all_gather_into_tensor_coalesced, which crashes with gloo on a GPU's "
    "memory (pytorch issue 152645): backend=nccl, with a GPU for each rank"
)


def dtensor_missing(device: torch.device) -> Reason:
    """Return why DTensors and functional collectives cannot communicate here, or ""."""
    return GLOO_ON_GPUS if device.type == "cuda" and dist.get_backend() == "gloo" else ""


def mesh_of(group: dist.ProcessGroup | None, device: torch.device) -> DeviceMesh | None:
    """Return a mesh of the ranks of a group; None on ranks without a group.

    It uses the job's backend; torch would choose another for a mesh without a group.
    """
    return None if group is None else DeviceMesh.from_group(group, device.type)


def subgroup(timeout: timedelta, ranks: Sequence[int]) -> dist.ProcessGroup | None:
    """Return the group of these ranks, None on others; all ranks of the job call this together.

    A process that runs several points makes each group once.
    """
    if len(ranks) == dist.get_world_size():
        return dist.group.WORLD
    group = new_group(tuple(ranks), timeout)
    return group if dist.get_rank() in ranks else None


@functools.cache
def new_group(ranks: tuple[int, ...], timeout: timedelta) -> dist.ProcessGroup | None:
    return dist.new_group(list(ranks), timeout, dist.get_backend())

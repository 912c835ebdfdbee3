"""The collectives on one rank: the buffers, the call and the expected values of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.errors import Unavailable
from benchkit.suites.collective.call import ExpectedSlice, Operation, started
from benchkit.suites.collective.names import REDUCTIONS

ROOT = 0
PLAIN = "max"
"""Reduction whose inputs every rank draws in full, for collectives that reduce nothing."""


@dataclass(frozen=True)
class Collective:
    """One collective on one rank; each method that is named like a collective builds its operation.

    Attributes:
        parts: elements of each rank's part, or of the only buffer.
        op: name of the reduction.
        ragged: whether the parts differ in size.
        reduce_op: the reduction as torch.distributed names it.
    """

    name: str
    parts: Sequence[int]
    rank: int
    world_size: int
    dtype: torch.dtype
    device: torch.device
    op: str
    ragged: bool = False
    reduce_op: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reduce_op", getattr(dist.ReduceOp, self.op.upper()))

    @property
    def drawn_op(self) -> str:
        """The reduction for which inputs are drawn."""
        return self.op if self.name in REDUCTIONS else PLAIN

    def new(self, num_elements: int) -> Tensor:
        return torch.empty(num_elements, dtype=self.dtype, device=self.device)

    def mine(self) -> Tensor:
        """Allocates a buffer for this rank's part."""
        return self.new(self.parts[self.rank])

    def everyones(self, sizes: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
        """Allocates a buffer with a part per rank, and returns it with views of its parts."""
        bounds = [0, *accumulate(sizes or self.parts)]
        whole = self.new(bounds[-1])
        return whole, [whole[start:stop] for start, stop in pairwise(bounds)]

    def everyones_at_root(self) -> tuple[Tensor, list[Tensor]]:
        """Allocates a part per rank on the root, and nothing elsewhere."""
        return self.everyones() if self.rank == ROOT else (self.new(0), [])

    def operation(self) -> Operation:
        """Builds the operation of this rank: its buffers and its call."""
        build: Callable[[], Operation] = getattr(self, self.name)
        return build()

    def all_reduce(self) -> Operation:
        buffer = self.new(self.parts[0])
        call = partial(dist.all_reduce, buffer, op=self.reduce_op)
        inputs = [ExpectedSlice(buffer, 0, self.rank)]
        return Operation(started(call), inputs, [ExpectedSlice(buffer, 0, None)])

    def reduce(self) -> Operation:
        """The root's buffer becomes the reduction; the contents of the others are unspecified."""
        buffer = self.new(self.parts[0])
        call = partial(dist.reduce, buffer, ROOT, op=self.reduce_op)
        outputs = [ExpectedSlice(buffer, 0, None)] if self.rank == ROOT else []
        return Operation(started(call), [ExpectedSlice(buffer, 0, self.rank)], outputs)

    def broadcast(self) -> Operation:
        buffer = self.new(self.parts[0])
        values = [ExpectedSlice(buffer, 0, ROOT)]
        start = started(partial(dist.broadcast, buffer, ROOT))
        if self.rank == ROOT:
            return Operation(start, inputs=values, outputs=values)
        return Operation(start, outputs=values, poisoned=[buffer])

    def all_gather(self) -> Operation:
        """Gathers a part per rank; raises Unavailable where the backend needs equal parts."""
        if self.ragged and dist.get_backend() == "gloo":
            raise Unavailable("gloo gathers parts of one size only")
        mine = self.mine()
        whole, parts = self.everyones()
        call = partial(dist.all_gather_into_tensor, whole, mine)
        if self.ragged:
            call = partial(dist.all_gather, parts, mine)
        outputs = [ExpectedSlice(part, 0, rank) for rank, part in enumerate(parts)]
        return Operation(started(call), [ExpectedSlice(mine, 0, self.rank)], outputs, [whole])

    def gather(self) -> Operation:
        mine = self.mine()
        whole, parts = self.everyones_at_root()
        call = partial(dist.gather, mine, parts or None, ROOT)
        outputs = [ExpectedSlice(part, 0, rank) for rank, part in enumerate(parts)]
        return Operation(started(call), [ExpectedSlice(mine, 0, self.rank)], outputs, [whole])

    def scatter(self) -> Operation:
        mine = self.mine()
        _, parts = self.everyones_at_root()
        inputs = [ExpectedSlice(part, number, ROOT) for number, part in enumerate(parts)]
        call = partial(dist.scatter, mine, parts or None, ROOT)
        return Operation(started(call), inputs, [ExpectedSlice(mine, self.rank, ROOT)], [mine])

    def reduce_scatter(self) -> Operation:
        mine = self.mine()
        whole, parts = self.everyones()
        call = partial(dist.reduce_scatter_tensor, mine, whole, op=self.reduce_op)
        if self.ragged:
            call = partial(dist.reduce_scatter, mine, parts, op=self.reduce_op)
        inputs = [ExpectedSlice(part, number, self.rank) for number, part in enumerate(parts)]
        return Operation(started(call), inputs, [ExpectedSlice(mine, self.rank, None)], [mine])

    def all_to_all(self) -> Operation:
        """Sends part j to rank j; if ragged, every message to rank j has the size of part j."""
        arriving = [self.parts[self.rank]] * self.world_size
        outgoing, sent = self.everyones()
        incoming, received = self.everyones(arriving)
        sizes = (arriving, list(self.parts)) if self.ragged else ()
        call = partial(dist.all_to_all_single, incoming, outgoing, *sizes)
        inputs = [ExpectedSlice(part, number, self.rank) for number, part in enumerate(sent)]
        outputs = [ExpectedSlice(part, self.rank, rank) for rank, part in enumerate(received)]
        return Operation(started(call), inputs, outputs, [incoming])

    def send_recv(self) -> Operation:
        """Sends a message from rank 0 to rank 1 and back; the other ranks do nothing.

        Raises:
            Unavailable: where the backend cannot send a GPU's memory.
        """
        if self.device.type == "cuda" and dist.get_backend() == "gloo":
            raise Unavailable("gloo sends no GPU's memory to a peer")
        message = self.new(self.parts[0])
        echo = self.new(self.parts[0])

        def ping(asynchronous: bool) -> None:
            dist.send(message, 1)
            dist.recv(echo, 1)

        def pong(asynchronous: bool) -> None:
            dist.recv(echo, ROOT)
            dist.send(echo, ROOT)

        outputs = [ExpectedSlice(echo, 0, ROOT)]
        if self.rank == ROOT:
            return Operation(ping, [ExpectedSlice(message, 0, ROOT)], outputs, [echo])
        if self.rank == 1:
            return Operation(pong, [], outputs, [echo])
        return Operation(lambda _: None)

    def barrier(self) -> Operation:
        return Operation(started(dist.barrier))

    def repeatable(self, values: Tensor) -> Tensor:
        """Returns inputs that keep their size when a call reduces its own results repeatedly.

        Sums of zeros and products of signs keep it; averages, minima and maxima keep it for any
        inputs. So no input must be renewed between timed calls, which would disturb them.
        """
        if self.drawn_op == "sum":
            return torch.zeros_like(values)
        return values.sign() if self.drawn_op == "product" else values

    def values_of(self, held: ExpectedSlice, turn: int, seed: int) -> Tensor:
        """Returns one period of the values that a slice holds in this turn."""
        drawn: dict[str, Any] = {
            "seed": seed,
            "turn": turn * self.world_size + held.part,
            "world_size": self.world_size,
            "dtype": self.dtype,
            "op": self.drawn_op,
            "length": len(held.buffer),
        }
        if held.rank is None:
            values = verification.reduced(**drawn)
        else:
            values = verification.pattern(rank=held.rank, **drawn)
        return values.to(self.device, self.dtype)

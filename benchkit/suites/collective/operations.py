"""The collectives on one rank: the buffers, the call and the expected values of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import p2p
from benchkit.errors import Unavailable

Work = Any
Step = Callable[[], object]


@dataclass(frozen=True)
class ExpectedSlice:
    """The values of a slice of a buffer: a part as `rank` drew it; None for the reduction."""

    buffer: Tensor
    part: int
    rank: int | None


@dataclass(frozen=True)
class Operation:
    """A call of this rank with its buffers.

    `start` returns a handle to wait for, or None; true makes the call asynchronous. `inputs` and
    `outputs` are the contents before and after. All elements of `poisoned` buffers must be
    overwritten.
    """

    start: Callable[[bool], Work | None]
    inputs: Sequence[ExpectedSlice] = ()
    outputs: Sequence[ExpectedSlice] = ()
    poisoned: Sequence[Tensor] = ()


def make_start(call: Callable[..., Work | None]) -> Callable[[bool], Work | None]:
    return lambda asynchronous: call(async_op=asynchronous)


ROOT = 0


@dataclass(frozen=True)
class Collective:
    """One collective on one rank; a method builds the operation of its name.

    Attributes:
        parts: elements of each rank's part, or of the only buffer.
        buffers: by role, shared by the operations of a job; the largest size is built first.
    """

    name: str
    parts: Sequence[int]
    rank: int
    world_size: int
    dtype: torch.dtype
    device: torch.device
    op: str
    ragged: bool = False
    buffers: dict[str, Tensor] = field(default_factory=dict)
    reduce_op: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reduce_op", getattr(dist.ReduceOp, self.op.upper()))

    def buffer(self, role: str, num_elements: int) -> Tensor:
        """Return the start of a role's buffer; all sizes begin at one address."""
        stored = self.buffers.get(role)
        if stored is None or len(stored) < num_elements:
            stored = torch.empty(num_elements, dtype=self.dtype, device=self.device)
            self.buffers[role] = stored
        return stored[:num_elements]

    def own_part(self) -> Tensor:
        return self.buffer("mine", self.parts[self.rank])

    def all_parts(
        self, role: str = "everyone's", sizes: Sequence[int] = ()
    ) -> tuple[Tensor, list[Tensor]]:
        bounds = [0, *accumulate(sizes or self.parts)]
        whole = self.buffer(role, bounds[-1])
        return whole, [whole[start:stop] for start, stop in pairwise(bounds)]

    def all_parts_at_root(self) -> tuple[Tensor, list[Tensor]]:
        return self.all_parts() if self.rank == ROOT else (self.buffer("everyone's", 0), [])

    def operation(self) -> Operation:
        build: Callable[[], Operation] = getattr(self, self.name)
        return build()

    def all_reduce(self) -> Operation:
        buffer = self.buffer("message", self.parts[0])
        call = partial(dist.all_reduce, buffer, op=self.reduce_op)
        inputs = [ExpectedSlice(buffer, 0, self.rank)]
        return Operation(make_start(call), inputs, [ExpectedSlice(buffer, 0, None)])

    def reduce(self) -> Operation:
        buffer = self.buffer("message", self.parts[0])
        call = partial(dist.reduce, buffer, ROOT, op=self.reduce_op)
        # the other ranks' buffers are unspecified
        outputs = [ExpectedSlice(buffer, 0, None)] if self.rank == ROOT else []
        return Operation(make_start(call), [ExpectedSlice(buffer, 0, self.rank)], outputs)

    def broadcast(self) -> Operation:
        buffer = self.buffer("message", self.parts[0])
        values = [ExpectedSlice(buffer, 0, ROOT)]
        start = make_start(partial(dist.broadcast, buffer, ROOT))
        if self.rank == ROOT:
            return Operation(start, inputs=values, outputs=values)
        return Operation(start, outputs=values, poisoned=[buffer])

    def all_gather(self) -> Operation:
        if self.ragged and dist.get_backend() == "gloo":
            raise Unavailable("gloo gathers parts of one size only")
        mine = self.own_part()
        whole, parts = self.all_parts()
        call = partial(dist.all_gather_into_tensor, whole, mine)
        if self.ragged:
            call = partial(dist.all_gather, parts, mine)
        outputs = [ExpectedSlice(part, 0, rank) for rank, part in enumerate(parts)]
        return Operation(make_start(call), [ExpectedSlice(mine, 0, self.rank)], outputs, [whole])

    def gather(self) -> Operation:
        mine = self.own_part()
        whole, parts = self.all_parts_at_root()
        call = partial(dist.gather, mine, parts or None, ROOT)
        outputs = [ExpectedSlice(part, 0, rank) for rank, part in enumerate(parts)]
        return Operation(make_start(call), [ExpectedSlice(mine, 0, self.rank)], outputs, [whole])

    def scatter(self) -> Operation:
        mine = self.own_part()
        _, parts = self.all_parts_at_root()
        inputs = [ExpectedSlice(part, number, ROOT) for number, part in enumerate(parts)]
        call = partial(dist.scatter, mine, parts or None, ROOT)
        return Operation(make_start(call), inputs, [ExpectedSlice(mine, self.rank, ROOT)], [mine])

    def reduce_scatter(self) -> Operation:
        mine = self.own_part()
        whole, parts = self.all_parts()
        call = partial(dist.reduce_scatter_tensor, mine, whole, op=self.reduce_op)
        if self.ragged:
            call = partial(dist.reduce_scatter, mine, parts, op=self.reduce_op)
        inputs = [ExpectedSlice(part, number, self.rank) for number, part in enumerate(parts)]
        return Operation(make_start(call), inputs, [ExpectedSlice(mine, self.rank, None)], [mine])

    def all_to_all(self) -> Operation:
        """Send part j to rank j; if ragged, every message to rank j has the size of part j."""
        arriving = [self.parts[self.rank]] * self.world_size
        outgoing, sent = self.all_parts("outgoing")
        incoming, received = self.all_parts("incoming", arriving)
        sizes = (arriving, list(self.parts)) if self.ragged else ()
        call = partial(dist.all_to_all_single, incoming, outgoing, *sizes)
        inputs = [ExpectedSlice(part, number, self.rank) for number, part in enumerate(sent)]
        outputs = [ExpectedSlice(part, self.rank, rank) for rank, part in enumerate(received)]
        return Operation(make_start(call), inputs, outputs, [incoming])

    def require_peers(self) -> None:
        if self.device.type == "cuda" and dist.get_backend() == "gloo":
            raise Unavailable("gloo sends no GPU's memory to a peer")

    def ring_shift(self) -> Operation:
        """Send to the next rank while a message of the one before arrives, all ranks at once."""
        self.require_peers()
        size = self.world_size
        after, before = (self.rank + 1) % size, (self.rank - 1) % size
        outgoing = self.buffer("outgoing", self.parts[0])
        incoming = self.buffer("incoming", self.parts[0])

        def shift(async_op: bool) -> Work | None:
            transfers = p2p.start_transfers([(outgoing, after)], [(incoming, before)])
            return transfers if async_op else transfers.wait()

        inputs = [ExpectedSlice(outgoing, 0, self.rank)]
        return Operation(shift, inputs, [ExpectedSlice(incoming, 0, before)], [incoming])

    def send_recv(self) -> Operation:
        """Send a message from rank 0 to rank 1 and back; the other ranks do nothing."""
        self.require_peers()
        message = self.buffer("message", self.parts[0])
        echo = self.buffer("echo", self.parts[0])

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
        return Operation(make_start(dist.barrier))

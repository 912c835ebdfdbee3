"""One collective on one rank: its buffers, the call, and what each part of a buffer holds before and after."""

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
from benchkit.suites.collective.sizes import REDUCTIONS

ROOT = 0
PLAIN = "max"
"""Reduction whose inputs every rank draws in full, for collectives that add nothing up."""
Work = Any  # of torch.distributed


@dataclass(frozen=True)
class Drawn:
    """What a stretch of a buffer holds: the input of a rank, or the reduction of all ranks' (rank None), for a part."""

    buffer: Tensor
    part: int
    rank: int | None


@dataclass(frozen=True)
class Operation:
    """start: makes the call on buffers filled by `gives`; what it returns is waited for. gets: what is there then.

    poisoned: buffers that are overwritten, in which nothing of before may be left.
    """

    start: Callable[[bool], Work | None]
    gives: Sequence[Drawn] = ()
    gets: Sequence[Drawn] = ()
    poisoned: Sequence[Tensor] = ()


@dataclass(frozen=True)
class Collective:
    """What all operations need to know. parts: elements of each rank's part, or of the one buffer."""

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
        return self.op if self.name in REDUCTIONS else PLAIN

    def new(self, num_elements: int) -> Tensor:
        return torch.empty(num_elements, dtype=self.dtype, device=self.device)

    def mine(self) -> Tensor:
        """A buffer for this rank's part."""
        return self.new(self.parts[self.rank])

    def everyones(self, sizes: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
        """A buffer for a part per rank, and its parts."""
        bounds = [0, *accumulate(sizes or self.parts)]
        whole = self.new(bounds[-1])
        return whole, [whole[start:stop] for start, stop in pairwise(bounds)]

    def operation(self) -> Operation:
        """The buffers and the call of this rank."""
        build: Callable[[], Operation] = getattr(self, self.name)
        return build()

    def all_reduce(self) -> Operation:
        buffer = self.new(self.parts[0])
        call = partial(dist.all_reduce, buffer, op=self.reduce_op)
        return Operation(started(call), [Drawn(buffer, 0, self.rank)], [Drawn(buffer, 0, None)])

    def reduce(self) -> Operation:
        """The root's buffer becomes the reduction; what becomes of the others' is left open."""
        buffer = self.new(self.parts[0])
        call = partial(dist.reduce, buffer, ROOT, op=self.reduce_op)
        gets = [Drawn(buffer, 0, None)] if self.rank == ROOT else []
        return Operation(started(call), [Drawn(buffer, 0, self.rank)], gets)

    def broadcast(self) -> Operation:
        buffer = self.new(self.parts[0])
        gives, poisoned = ([Drawn(buffer, 0, ROOT)], []) if self.rank == ROOT else ([], [buffer])
        return Operation(started(partial(dist.broadcast, buffer, ROOT)), gives, [Drawn(buffer, 0, ROOT)], poisoned)

    def all_gather(self) -> Operation:
        """Raises Unavailable where the backend cannot gather unlike parts."""
        if self.ragged and dist.get_backend() == "gloo":
            raise Unavailable("gloo gathers parts of one size only")
        mine, (whole, parts) = self.mine(), self.everyones()
        call = (
            partial(dist.all_gather, parts, mine) if self.ragged else partial(dist.all_gather_into_tensor, whole, mine)
        )
        gets = [Drawn(part, 0, rank) for rank, part in enumerate(parts)]
        return Operation(started(call), [Drawn(mine, 0, self.rank)], gets, [whole])

    def gather(self) -> Operation:
        mine, (whole, parts) = self.mine(), self.everyones() if self.rank == ROOT else (self.new(0), [])
        call = partial(dist.gather, mine, parts or None, ROOT)
        gets = [Drawn(part, 0, rank) for rank, part in enumerate(parts)]
        return Operation(started(call), [Drawn(mine, 0, self.rank)], gets, [whole])

    def scatter(self) -> Operation:
        mine, (_, parts) = self.mine(), self.everyones() if self.rank == ROOT else (self.new(0), [])
        gives = [Drawn(part, number, ROOT) for number, part in enumerate(parts)]
        call = partial(dist.scatter, mine, parts or None, ROOT)
        return Operation(started(call), gives, [Drawn(mine, self.rank, ROOT)], [mine])

    def reduce_scatter(self) -> Operation:
        mine, (whole, parts) = self.mine(), self.everyones()
        call = partial(dist.reduce_scatter_tensor, mine, whole, op=self.reduce_op)
        if self.ragged:
            call = partial(dist.reduce_scatter, mine, parts, op=self.reduce_op)
        gives = [Drawn(part, number, self.rank) for number, part in enumerate(parts)]
        return Operation(started(call), gives, [Drawn(mine, self.rank, None)], [mine])

    def all_to_all(self) -> Operation:
        """Each rank sends part j to rank j; ragged: what goes to rank j is as large as part j, whoever sends it."""
        arriving = [self.parts[self.rank]] * self.world_size
        (outgoing, sent), (incoming, received) = self.everyones(), self.everyones(arriving)
        sizes = (arriving, list(self.parts)) if self.ragged else ()
        gives = [Drawn(part, number, self.rank) for number, part in enumerate(sent)]
        gets = [Drawn(part, self.rank, rank) for rank, part in enumerate(received)]
        return Operation(started(partial(dist.all_to_all_single, incoming, outgoing, *sizes)), gives, gets, [incoming])

    def send_recv(self) -> Operation:
        """There and back again between the first two ranks; the others do nothing. Raises Unavailable."""
        if self.device.type == "cuda" and dist.get_backend() == "gloo":
            raise Unavailable("gloo sends no GPU's memory to a peer")
        there, back = self.new(self.parts[0]), self.new(self.parts[0])

        def ping(asynchronous: bool) -> None:
            dist.send(there, 1)
            dist.recv(back, 1)

        def pong(asynchronous: bool) -> None:
            dist.recv(back, ROOT)
            dist.send(back, ROOT)

        if self.rank == ROOT:
            return Operation(ping, [Drawn(there, 0, ROOT)], [Drawn(back, 0, ROOT)], [back])
        return Operation(pong, [], [Drawn(back, 0, ROOT)], [back]) if self.rank == 1 else Operation(lambda _: None)

    def barrier(self) -> Operation:
        return Operation(started(dist.barrier))

    def repeatable(self, values: Tensor) -> Tensor:
        """Inputs that keep their size when a call reduces its own results again and again.

        Sums of zeros and products of signs do; averages, least and greatest values do anyway. So
        nothing must be renewed between timed calls, which would disturb them.
        """
        if self.drawn_op == "sum":
            return torch.zeros_like(values)
        return values.sign() if self.drawn_op == "product" else values

    def inputs(self, held: Drawn, turn: int, seed: int) -> Tensor:
        """One period of what a stretch holds in this turn."""
        drawn: dict[str, Any] = {
            "seed": seed, "turn": turn * self.world_size + held.part, "world_size": self.world_size,
            "dtype": self.dtype, "op": self.drawn_op, "length": len(held.buffer),
        }  # fmt: skip
        values = verification.reduced(**drawn) if held.rank is None else verification.pattern(rank=held.rank, **drawn)
        return values.to(self.device, self.dtype)


def started(call: Callable[..., Work | None]) -> Callable[[bool], Work | None]:
    """A call of torch.distributed by whether it is to return at once."""
    return lambda asynchronous: call(async_op=asynchronous)

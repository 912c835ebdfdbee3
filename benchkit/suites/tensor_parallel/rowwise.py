"""Rowwise: each rank has columns of A and rows of B; its product is one summand, and it wants its rows of the sum."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel.columnwise import Step, Work, chunks_of
from benchkit.suites.tensor_parallel.primitive import Buffers


@dataclass(frozen=True)
class Rowwise(Buffers):
    """One rank's buffers. a: its columns of A, what each rank wants padded to the most, [world_size x most, k_r].

    b: its rows of B [k_r, n]. c: its rows of C [most, n], padding last. scratch: for all else.
    """

    def block(self, rank: int, piece: slice | None = None) -> Tensor:
        """The rows of A that a rank wants, or a piece of them."""
        most = self.rows.most
        piece = piece or slice(0, most)
        return self.a[rank * most + piece.start : rank * most + piece.stop]

    def new(self, rows: int) -> Tensor:
        return self.scratch.new(rows, self.c.shape[1])

    def start_scatter(self, into: Tensor, summands: Tensor) -> Work:
        """The sum over ranks of [world_size x rows, n], each rank getting its rows; under way when this returns."""
        work: Work = dist.reduce_scatter_tensor(into, summands, group=self.group, async_op=True)
        return work

    def scatter(self, into: Tensor, summands: Tensor) -> None:
        """The same, done when this returns."""
        with region(WAIT):
            dist.reduce_scatter_tensor(into, summands, group=self.group)

    def reduce(self, summands: Tensor) -> None:
        """The sum over ranks, on all of them."""
        with region(WAIT):
            dist.all_reduce(summands, group=self.group)


def multiply_then_scatter(job: Rowwise) -> Step:
    summand = job.new(len(job.a))

    def step() -> None:
        with region(COMPUTE):
            torch.mm(job.a, job.b, out=summand)
        job.scatter(job.c, summand)

    return step


def multiply_then_all_reduce(job: Rowwise) -> Step:
    """Every rank gets all of C, and keeps its rows."""
    summand, most = job.new(len(job.a)), job.rows.most

    def step() -> None:
        with region(COMPUTE):
            torch.mm(job.a, job.b, out=summand)
        job.reduce(summand)
        job.c.copy_(summand[job.rank * most : (job.rank + 1) * most])

    return step


def scatter_in_chunks(job: Rowwise, chunks: int) -> Step:
    """A chunk of every rank's rows at a time: its sum is on its way while the next is multiplied."""
    pieces, size = chunks_of(job.rows.most, chunks), job.rows.world_size
    stages = [job.new((piece.stop - piece.start) * size) for piece in pieces]

    def step() -> None:
        works = []
        for piece, stage in zip(pieces, stages, strict=True):
            length = piece.stop - piece.start
            with region(COMPUTE):
                for rank in range(size):
                    torch.mm(job.block(rank, piece), job.b, out=stage[rank * length : (rank + 1) * length])
            works.append(job.start_scatter(job.c[piece], stage))
        with region(WAIT):
            for work in works:
                work.wait()

    return step


def sums_round_the_ring(job: Rowwise, chunks: int, multiply: Callable[..., object] | None = None) -> Step:
    """Peer to peer: sums go round in chunks and each rank adds its summand; the rank's own rows come last, complete.

    In turn t a rank multiplies the rows of rank - 1 - t, which the rank before it multiplied in turn t - 1.
    multiply: what is done instead with rows of A, where their product should be and who wants it.
    """
    size, rank, pieces = job.rows.world_size, job.rank, chunks_of(job.rows.most, chunks)
    after, before = (rank + 1) % size, (rank - 1) % size
    sums, arriving = ([job.new(job.rows.most) for _ in range(2)] for _ in range(2))
    multiply = multiply or (lambda rows, into, owner: torch.mm(rows, job.b, out=into))

    def step() -> None:
        in_flight = InFlight(len(pieces))
        for turn in range(size):
            owner, last = (rank - 1 - turn) % size, turn + 1 == size
            for index, piece in enumerate(pieces):
                target = (job.c if last else sums[turn % 2])[piece]
                with region(COMPUTE):
                    multiply(job.block(owner, piece), target, owner)
                in_flight.wait(index)
                if turn:
                    target.add_(arriving[(turn - 1) % 2][piece])
                if not last:
                    in_flight.start(index, [(target, after)], [(arriving[turn % 2][piece], before)], job.group)

    return step

"""The rowwise product: each rank has columns of A and rows of B and needs its rows of C.

A rank's product is one summand of C, and ranks sum their summands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel.buffers import Buffers, Step, Work, chunks_of


@dataclass(frozen=True)
class Rowwise(Buffers):
    """One rank's buffers.

    Attributes:
        a: its columns of A [world_size x most, k_r], with the rows that each rank needs padded to
            the most.
        b: its rows of B [k_r, n].
        c: its rows of C [most, n], padding last.
        scratch: memory for everything else.
    """

    def block(self, rank: int, piece: slice | None = None) -> Tensor:
        """Returns the rows of A that a rank needs, or a piece of them."""
        most = self.rows.most
        piece = piece or slice(0, most)
        return self.a[rank * most + piece.start : rank * most + piece.stop]

    def new(self, rows: int) -> Tensor:
        return self.scratch.new(rows, self.c.shape[1], self.c.dtype)

    def start_scatter(self, into: Tensor, summands: Tensor) -> Work:
        """Starts to sum [world_size x rows, n] over ranks, each of which gets its rows."""
        work: Work = dist.reduce_scatter_tensor(into, summands, group=self.group, async_op=True)
        return work

    def scatter(self, into: Tensor, summands: Tensor) -> None:
        """Sums [world_size x rows, n] over ranks, each of which gets its rows."""
        with region(WAIT):
            dist.reduce_scatter_tensor(into, summands, group=self.group)

    def reduce(self, summands: Tensor) -> None:
        """Sums over ranks, on all of them."""
        with region(WAIT):
            dist.all_reduce(summands, group=self.group)


def multiply_then_scatter(job: Rowwise) -> Step:
    summand = job.new(len(job.a))

    def step() -> None:
        with region(COMPUTE):
            job.matmul(job.a, job.b, summand)
        job.scatter(job.c, summand)

    return step


def multiply_then_all_reduce(job: Rowwise) -> Step:
    """Every rank gets all of C and keeps its rows."""
    summand = job.new(len(job.a))
    most = job.rows.most

    def step() -> None:
        with region(COMPUTE):
            job.matmul(job.a, job.b, summand)
        job.reduce(summand)
        job.c.copy_(summand[job.rank * most : (job.rank + 1) * most])

    return step


def scatter_in_chunks(job: Rowwise, chunks: int) -> Step:
    """Multiplies a chunk of every rank's rows at a time, and sums it during the next chunk."""
    pieces = chunks_of(job.rows.most, chunks)
    size = job.rows.world_size
    stages = [job.new((piece.stop - piece.start) * size) for piece in pieces]

    def step() -> None:
        works = []
        for piece, stage in zip(pieces, stages, strict=True):
            length = piece.stop - piece.start
            with region(COMPUTE):
                for rank in range(size):
                    target = stage[rank * length : (rank + 1) * length]
                    job.matmul(job.block(rank, piece), job.b, target)
            works.append(job.start_scatter(job.c[piece], stage))
        with region(WAIT):
            for work in works:
                work.wait()

    return step


def ring_sum(held: Sequence[Sequence[Tensor]], rank: int) -> Tensor:
    """Returns the last sum of a rank by `sums_round_the_ring`, if no product renews its memory.

    Args:
        held: of each rank what its two sums and its rows of C hold before.
        rank: whose last sum it is.
    """
    size = len(held)
    sums = [list(each) for each in held]
    arriving: list[Tensor] = []
    for turn in range(size):
        place = 2 if turn + 1 == size else turn % 2
        for index in range(size) if turn else ():
            sums[index][place] = sums[index][place] + arriving[(index - 1) % size]
        arriving = [each[place] for each in sums]
    return sums[rank][2]


def sums_round_the_ring(
    job: Rowwise, chunks: int, multiply: Callable[..., object] | None = None
) -> Step:
    """Peer to peer: sums go round the ring in chunks, and each rank adds its summand.

    In turn t a rank multiplies the rows of rank - 1 - t, which the rank before it multiplied in
    turn t - 1. The rank's own rows come last and are complete.

    Args:
        job: the buffers.
        chunks: pieces of a sum that are sent separately.
        multiply: called instead of the product with rows of A, its memory and the rank it is for.
    """

    def product(rows: Tensor, into: Tensor, owner: int) -> None:
        job.matmul(rows, job.b, into)

    multiply = multiply or product
    size, rank = job.rows.world_size, job.rank
    pieces = chunks_of(job.rows.most, chunks)
    after, before = (rank + 1) % size, (rank - 1) % size
    sums = [job.new(job.rows.most) for _ in range(2)]
    arriving = [job.new(job.rows.most) for _ in range(2)]

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
                    receives = [(arriving[turn % 2][piece], before)]
                    in_flight.start(index, [(target, after)], receives, job.group)

    return step

"""Columnwise: each rank has rows of A, all have B, all want C: gather A and multiply, or multiply and gather C."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel.operands import Shards
from benchkit.suites.tensor_parallel.primitive import Buffers

Step = Callable[[], object]
Work = Any  # of torch.distributed


@dataclass(frozen=True)
class Columnwise(Buffers):
    """One rank's buffers. a: its rows of A, padded [most, k]; b [k, n]; c [m, n]; scratch for all else."""

    def place(self, rank: int, first: int = 0, count: int | None = None) -> Tensor:
        """The rows of C that come of a rank's rows [first, first + count), less its padding."""
        start, size = self.rows.of(rank).start, self.rows.sizes[rank]
        stop = size if count is None else min(first + count, size)
        return self.c[start + min(first, size) : start + stop]

    def multiply(self, source: Tensor, rank: int, first: int = 0) -> None:
        """Rows [first, first + len(source)) of a rank's A, padding included, times B, into their place."""
        target = self.place(rank, first, len(source))
        if len(target):
            torch.mm(source[: len(target)], self.b, out=target)

    def start_gather(self, into: Tensor, part: Tensor) -> Work:
        """All ranks' parts one after another, under way when this returns."""
        work: Work = dist.all_gather_into_tensor(into, part, group=self.group, async_op=True)
        return work

    def gather(self, into: Tensor, part: Tensor) -> None:
        """The same, done when this returns."""
        with region(WAIT):
            dist.all_gather_into_tensor(into, part, group=self.group)

    def new(self, rows: int, like: Tensor) -> Tensor:
        """Scratch memory as wide as another buffer."""
        return self.scratch.new(rows, like.shape[1])


def compute_sharded(job: Columnwise) -> Step:
    return partial(job.multiply, job.a, job.rank)


def gather_then_multiply(job: Columnwise) -> Step:
    most, whole = job.rows.most, job.new(job.rows.most * job.rows.world_size, job.a)

    def step() -> None:
        job.gather(whole, job.a)
        with region(COMPUTE):
            if job.rows.even:
                torch.mm(whole, job.b, out=job.c)
            else:
                for rank in range(job.rows.world_size):
                    job.multiply(whole[rank * most : (rank + 1) * most], rank)

    return step


def multiply_then_gather(job: Columnwise) -> Step:
    most, local = job.rows.most, job.new(job.rows.most, job.c)
    whole = job.c if job.rows.even else job.new(most * job.rows.world_size, job.c)

    def step() -> None:
        with region(COMPUTE):
            torch.mm(job.a, job.b, out=local)
        job.gather(whole, local)
        if not job.rows.even:
            for rank in range(job.rows.world_size):
                target = job.place(rank)
                target.copy_(whole[rank * most : rank * most + len(target)])

    return step


def chunks_of(rows: int, count: int) -> list[slice]:
    """Nearly equal pieces of so many rows, none empty."""
    pieces = Shards(rows, min(count, rows))
    return [pieces.of(i) for i in range(pieces.world_size)]


def gather_in_chunks(job: Columnwise, chunks: int) -> Step:
    """AG_before, a chunk of every shard at a time: the next is on its way while one is multiplied."""
    pieces = chunks_of(job.rows.most, chunks)
    stages = [job.new((piece.stop - piece.start) * job.rows.world_size, job.a) for piece in pieces]

    def step() -> None:
        flying = job.start_gather(stages[0], job.a[pieces[0]])
        for index, (piece, stage) in enumerate(zip(pieces, stages, strict=True)):
            with region(WAIT):
                flying.wait()
            if index + 1 < len(pieces):
                flying = job.start_gather(stages[index + 1], job.a[pieces[index + 1]])
            with region(COMPUTE):
                length = piece.stop - piece.start
                for rank in range(job.rows.world_size):
                    job.multiply(stage[rank * length : (rank + 1) * length], rank, piece.start)

    return step


def multiply_in_chunks(job: Columnwise, chunks: int) -> Step:
    """AG_after, a chunk of the own rows at a time: one is on its way while the next is multiplied."""
    pieces = chunks_of(job.rows.most, chunks)
    stages = [job.new((piece.stop - piece.start) * job.rows.world_size, job.c) for piece in pieces]
    local = job.new(job.rows.most, job.c)

    def settle(work: Work, piece: slice, stage: Tensor) -> None:
        with region(WAIT):
            work.wait()
        length = piece.stop - piece.start
        for rank in range(job.rows.world_size):
            target = job.place(rank, piece.start, length)
            target.copy_(stage[rank * length : rank * length + len(target)])

    def step() -> None:
        flying: list[tuple[Work, slice, Tensor]] = []
        for piece, stage in zip(pieces, stages, strict=True):
            with region(COMPUTE):
                torch.mm(job.a[piece], job.b, out=local[piece])
            flying.append((job.start_gather(stage, local[piece]), piece, stage))
            if len(flying) > 1:
                settle(*flying.pop(0))
        settle(*flying.pop())

    return step


def shards_round_the_ring(job: Columnwise, chunks: int, multiply: Callable[..., object] | None = None) -> Step:
    """AG_before, peer to peer: shards go round in chunks; each rank multiplies its own first and then what arrives.

    multiply: what is done instead with rows of A, given whose they are and the first of them.
    """
    size, rank, pieces = job.rows.world_size, job.rank, chunks_of(job.rows.most, chunks)
    spare = [job.new(job.rows.most, job.a) for _ in range(2)]
    after, before = (rank + 1) % size, (rank - 1) % size
    multiply = multiply or job.multiply

    def step() -> None:
        held, in_flight = job.a, InFlight(len(pieces))
        for turn in range(size):
            incoming = spare[turn % 2]
            for index, piece in enumerate(pieces):
                in_flight.wait(index)
                if turn + 1 < size:
                    in_flight.start(index, [(held[piece], after)], [(incoming[piece], before)], job.group)
                with region(COMPUTE):
                    multiply(held[piece], (rank - turn) % size, piece.start)
            held = incoming

    return step


def rows_to_all_peers(job: Columnwise, chunks: int, multiply: Callable[..., object] | None = None) -> Step:
    """AG_after, peer to peer: own rows go straight to their place everywhere while the next chunk is made.

    multiply: what is done instead with rows of A and their place in C.
    """
    size, rank, pieces = job.rows.world_size, job.rank, chunks_of(job.rows.most, chunks)
    peers = [(rank + 1 + i) % size for i in range(size - 1)]  # every rank begins with its neighbour
    multiply = multiply or (lambda rows, own: torch.mm(rows, job.b, out=own))
    plan = []
    for piece in pieces:
        own, *theirs = (job.place(each, piece.start, piece.stop - piece.start) for each in (rank, *peers))
        sends = [(own, peer) for peer in peers if len(own)]
        receives = [(rows, peer) for peer, rows in zip(peers, theirs, strict=True) if len(rows)]
        plan.append((job.a[piece][: len(own)], own, sends, receives))

    def step() -> None:
        in_flight = InFlight(len(plan))
        for index, (rows, own, sends, receives) in enumerate(plan):
            with region(COMPUTE):
                if len(own):
                    multiply(rows, own)
            in_flight.start(index, sends, receives, job.group)
        for index in range(len(plan)):
            in_flight.wait(index)

    return step

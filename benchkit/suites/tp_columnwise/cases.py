"""The columnwise product: each rank has rows of A, and all ranks have B and need all of C.

Ranks gather A and multiply, or multiply and gather C, one after the other or overlapped.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Call, Case, Details, Rank, Work, noop
from benchkit.api.p2p import InFlight, sendable
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel.chooser import Probe, Step, overlapping
from benchkit.suites.tensor_parallel.config import (
    ORDERS,
    P2P_COMM_ONLY,
    PYTORCH,
    Options,
    TensorParallelConfig,
    expand,
)
from benchkit.suites.tensor_parallel.operands import Scratch
from benchkit.suites.tensor_parallel.primitive import (
    NAN_BYTE,
    Handle,
    Implementation,
    Primitive,
    ProductBuffers,
    chunks_of,
    share_scratch,
)
from benchkit.suites.tp_columnwise.symmetric_memory import all_gather_matmul


@dataclass(frozen=True)
class Columnwise(ProductBuffers):
    """One rank's buffers: its rows of A padded to [most, k], B [k, n] and C [m, n]."""

    def place(self, rank: int, first: int = 0, count: int | None = None) -> Tensor:
        """Return the rows of C of a rank's rows [first, first + count), without padding."""
        start, size = self.rows.of(rank).start, self.rows.sizes[rank]
        stop = size if count is None else min(first + count, size)
        return self.c[start + min(first, size) : start + stop]

    def multiply(self, source: Tensor, rank: int, first: int = 0) -> None:
        target = self.place(rank, first, len(source))
        if len(target):
            self.matmul(source[: len(target)], self.b, target)

    def start_gather(self, into: Tensor, part: Tensor) -> Handle:
        into, part = sendable(into), sendable(part)
        work: Handle = dist.all_gather_into_tensor(into, part, group=self.group, async_op=True)
        return work

    def gather(self, into: Tensor, part: Tensor) -> None:
        with region(WAIT):
            dist.all_gather_into_tensor(sendable(into), sendable(part), group=self.group)

    def new(self, rows: int, like: Tensor) -> Tensor:
        return self.scratch.new(rows, like.shape[1], like.dtype)


def compute_sharded(job: Columnwise) -> Step:
    return partial(job.multiply, job.a, job.rank)


def gather_then_multiply(job: Columnwise) -> Step:
    most = job.rows.most
    whole = job.new(most * job.rows.world_size, job.a)

    def step() -> None:
        job.gather(whole, job.a)
        with region(COMPUTE):
            if job.rows.even:
                job.matmul(whole, job.b, job.c)
            else:
                for rank in range(job.rows.world_size):
                    job.multiply(whole[rank * most : (rank + 1) * most], rank)

    return step


def multiply_then_gather(job: Columnwise) -> Step:
    most = job.rows.most
    local = job.new(most, job.c)
    whole = job.c if job.rows.even else job.new(most * job.rows.world_size, job.c)

    def step() -> None:
        with region(COMPUTE):
            job.matmul(job.a, job.b, local)
        job.gather(whole, local)
        if not job.rows.even:
            for rank in range(job.rows.world_size):
                target = job.place(rank)
                target.copy_(whole[rank * most : rank * most + len(target)])

    return step


def gather_in_chunks(job: Columnwise, chunks: int) -> Step:
    """AG_before with one chunk of every shard at a time, while the next one is gathered."""
    pieces = chunks_of(job.rows.most, chunks)
    size = job.rows.world_size
    stages = [job.new((piece.stop - piece.start) * size, job.a) for piece in pieces]

    def step() -> None:
        gathering = job.start_gather(stages[0], job.a[pieces[0]])
        for index, (piece, stage) in enumerate(zip(pieces, stages, strict=True)):
            with region(WAIT):
                gathering.wait()
            if index + 1 < len(pieces):
                gathering = job.start_gather(stages[index + 1], job.a[pieces[index + 1]])
            with region(COMPUTE):
                length = piece.stop - piece.start
                for rank in range(size):
                    job.multiply(stage[rank * length : (rank + 1) * length], rank, piece.start)

    return step


def multiply_in_chunks(job: Columnwise, chunks: int) -> Step:
    """AG_after with one chunk of own rows at a time, while the last product is gathered."""
    pieces = chunks_of(job.rows.most, chunks)
    size = job.rows.world_size
    stages = [job.new((piece.stop - piece.start) * size, job.c) for piece in pieces]
    local = job.new(job.rows.most, job.c)

    def settle(work: Handle, piece: slice, stage: Tensor) -> None:
        with region(WAIT):
            work.wait()
        length = piece.stop - piece.start
        for rank in range(size):
            target = job.place(rank, piece.start, length)
            target.copy_(stage[rank * length : rank * length + len(target)])

    def step() -> None:
        gathering: list[tuple[Handle, slice, Tensor]] = []
        for piece, stage in zip(pieces, stages, strict=True):
            with region(COMPUTE):
                job.matmul(job.a[piece], job.b, local[piece])
            gathering.append((job.start_gather(stage, local[piece]), piece, stage))
            if len(gathering) > 1:
                settle(*gathering.pop(0))
        settle(*gathering.pop())

    return step


def shards_round_the_ring(
    job: Columnwise, chunks: int, multiply: Callable[..., object] | None = None
) -> Step:
    """AG_before, peer to peer: shards of A go round the ring in chunks.

    Each rank multiplies its own shard first, then the others as they arrive. `multiply` takes the
    place of the product, with rows of A, their owner and the first row.
    """
    size, rank = job.rows.world_size, job.rank
    pieces = chunks_of(job.rows.most, chunks)
    spare = [job.new(job.rows.most, job.a) for _ in range(2)]
    after, before = (rank + 1) % size, (rank - 1) % size
    multiply = multiply or job.multiply

    def step() -> None:
        current, in_flight = job.a, InFlight(len(pieces))
        for turn in range(size):
            incoming = spare[turn % 2]
            for index, piece in enumerate(pieces):
                in_flight.wait(index)
                if turn + 1 < size:
                    sends = [(current[piece], after)]
                    receives = [(incoming[piece], before)]
                    in_flight.start(index, sends, receives, job.group)
                with region(COMPUTE):
                    multiply(current[piece], (rank - turn) % size, piece.start)
            current = incoming

    return step


def rows_to_all_peers(
    job: Columnwise, chunks: int, multiply: Callable[..., object] | None = None
) -> Step:
    """AG_after, peer to peer: each rank sends its rows of C to their place on all peers.

    One chunk is sent while the next is computed. `multiply` takes the place of the product, with
    rows of A and their place in C.
    """

    def product(rows: Tensor, own_rows: Tensor) -> None:
        job.matmul(rows, job.b, own_rows)

    multiply = multiply or product
    size, rank = job.rows.world_size, job.rank
    peers = [(rank + 1 + i) % size for i in range(size - 1)]  # every rank begins with its neighbour
    plan = []
    for piece in chunks_of(job.rows.most, chunks):
        length = piece.stop - piece.start
        own_rows = job.place(rank, piece.start, length)
        sends = [(own_rows, peer) for peer in peers if len(own_rows)]
        places = [(job.place(peer, piece.start, length), peer) for peer in peers]
        receives = [(rows, peer) for rows, peer in places if len(rows)]
        plan.append((job.a[piece][: len(own_rows)], own_rows, sends, receives))

    def step() -> None:
        in_flight = InFlight(len(plan))
        for index, (rows, own_rows, sends, receives) in enumerate(plan):
            with region(COMPUTE):
                if len(own_rows):
                    multiply(rows, own_rows)
            in_flight.start(index, sends, receives, job.group)
        for index in range(len(plan)):
            in_flight.wait(index)

    return step


class ColumnwiseCases(Primitive):
    baseline: ClassVar[Options] = {"implementation": PYTORCH, "order": "AG_before"}

    def allocate(self) -> None:
        m, n, k = self.shape
        self.a = self.matmul.left(self.rows.most, k)
        self.b = self.matmul.right(k, n)
        self.c = self.matmul.product(m, n)
        if self.needs_whole:
            self.whole = self.matmul.left(m, k), self.b, self.c

    def load(self, a: Tensor, b: Tensor) -> None:
        own_rows = a[self.rows.of(self.rank.index)]
        self.a[: len(own_rows)].copy_(own_rows)
        self.b.copy_(b)
        if self.needs_whole:
            self.whole[0].copy_(a)

    def job(self, group: dist.ProcessGroup | None) -> Columnwise:
        buffers = self.a, self.b, self.c, Scratch(self.scratch_memory)
        return Columnwise(self.rows, self.rank.index, group, *buffers, self.matmul.multiply)

    def product(self, job: Columnwise, options: Options, details: Details) -> Implementation:
        if options["implementation"] == "symmetric_memory":
            gathers_a: Options = {"order": "AG_before", **options, "backend": "default"}
            return all_gather_matmul(job, self.work("AG_before"), parts(gathers_a))
        step, work = self.step(options, job), self.work(str(options["order"]))
        return Implementation(step, work, lambda: self.c, parts=parts(options), details=details)

    def part(self, job: Columnwise) -> Implementation:
        own_rows = self.rows.of(job.rank)
        return Implementation(
            step=compute_sharded(job),
            work=self.work_of_part(),
            output=lambda: job.place(job.rank),
            factors=lambda a, b: (a[own_rows], b, own_rows.start),
        )

    def step(self, options: Options, job: Columnwise) -> Step:
        gathers_a = options["order"] == "AG_before"
        chunks = int(options.get("chunks", 1))
        if options["implementation"] == "p2p_pipeline":
            if gathers_a:
                return shards_round_the_ring(job, chunks)
            return rows_to_all_peers(job, chunks)
        if options["implementation"] == "pipeline":
            if gathers_a:
                return gather_in_chunks(job, chunks)
            return multiply_in_chunks(job, chunks)
        if gathers_a:
            return gather_then_multiply(job)
        return multiply_then_gather(job)

    def gathered_bytes(self, order: str) -> int:
        like = self.a if order == "AG_before" else self.c
        return int(self.rows.most * self.rows.world_size * like.shape[1] * like.dtype.itemsize)

    def work(self, order: str) -> Work:
        size = self.rows.world_size
        return Work(
            useful_flops=self.flops,
            executed_flops=self.flops * (size if order == "AG_before" else 1),
            wire_bytes=self.gathered_bytes(order) * (size - 1) // size,
        )

    def communication(self, job: Columnwise, options: Options) -> Implementation:
        """Build only the communication of an order: the all-gather, or the peers in one chunk."""
        by_peers, order = options["implementation"] == P2P_COMM_ONLY, str(options["order"])
        size, most = self.rows.world_size, self.rows.most
        like = job.a if order == "AG_before" else job.c
        step: Step
        if by_peers and order == "AG_after":
            arriving = dict(enumerate(job.place(rank) for rank in range(size)))
            part = arriving[job.rank]
            step = rows_to_all_peers(job, 1, noop)
        elif by_peers:
            part = job.new(most, like)
            ring = replace(job, a=part)
            step = shards_round_the_ring(share_scratch(ring), 1, noop)
            # Of the shards that pass, the two spare buffers keep the last two, which came furthest.
            turns, spare = share_scratch(ring), range(max(0, size - 3), size - 1)
            buffers = [turns.new(most, like) for _ in range(2)]
            arriving = {(job.rank - turn - 1) % size: buffers[turn % 2] for turn in spare}
        else:
            part, whole = job.new(most, like), job.new(most * size, like)
            arriving = dict(enumerate(whole.chunk(size)))
            step = partial(job.gather, whole, part)
        sent = sendable(part)
        draw = self.drawing(verification.pattern, verification.PLAIN, sent.dtype, like.shape[1])

        def verify(turn: int, call: Call) -> None:
            drawn = [draw(turn=turn, rank=rank).to(sent.device, sent.dtype) for rank in range(size)]

            def prepare() -> None:
                for block in arriving.values():
                    block.view(torch.uint8).fill_(NAN_BYTE)
                verification.tile(sent.view(-1), drawn[job.rank])

            call(prepare)
            for owner, block in arriving.items():
                verification.require_tiled(sendable(block).view(-1), drawn[owner])

        part.zero_()
        work = Work(wire_bytes=self.work(order).wire_bytes)
        return Implementation(step, work, verify=verify)

    def probes(self, job: Columnwise) -> tuple[Probe, Probe, Probe]:
        size, most = self.rows.world_size, self.rows.most
        gathers_more_a = self.gathered_bytes("AG_before") > self.gathered_bytes("AG_after")
        wider = job.a if gathers_more_a else job.c
        trial = share_scratch(job)
        part, whole = trial.new(most, wider), trial.new(most * size, wider)

        def gather(rows: int) -> Probe:
            into = whole[: rows * size]
            return into.nbytes, partial(job.gather, into, part[:rows])

        return gather(1), gather(most), (self.flops / size, compute_sharded(job))

    def kinds(self, backend: str) -> Iterator[tuple[Options, float, float]]:
        """Yield what `auto` tries: options, operations and bytes of the collective."""
        for order, (name, chunked) in itertools.product(ORDERS, [(PYTORCH, {}), *overlapping()]):
            flops = self.flops if order == "AG_before" else self.flops / self.rows.world_size
            num_bytes = 0 if name == "p2p_pipeline" else self.gathered_bytes(order)
            options = {"implementation": name, "order": order, **chunked, "backend": backend}
            yield options, flops, num_bytes


def cases_of(config: TensorParallelConfig, rank: Rank) -> list[Case]:
    chosen = expand(config.implementations, config.allowed)
    return ColumnwiseCases(config, rank, chosen).cases()


def parts(options: Options) -> tuple[Options, Options]:
    order = options["order"]
    by_peers = options.get("implementation") == "p2p_pipeline"
    communication = "p2p_comm_only" if by_peers else "comm_only"
    size = "unsharded" if order == "AG_before" else "sharded"
    return (
        {"implementation": "compute_only", "size": size},
        {"implementation": communication, "order": order, "backend": options["backend"]},
    )

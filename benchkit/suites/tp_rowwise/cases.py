"""The rowwise product: each rank has columns of A and rows of B and needs its rows of C.

A rank's product is one summand of C, and ranks sum their summands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Call, Case, Details, Rank, Work
from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel import operands
from benchkit.suites.tensor_parallel.chooser import Probe, Step, overlapping
from benchkit.suites.tensor_parallel.config import (
    BOUNDS,
    COLLECTIVES,
    P2P_COMM_ONLY,
    PYTORCH,
    Options,
    TensorParallelConfig,
    expand,
)
from benchkit.suites.tensor_parallel.operands import Scratch, Shards
from benchkit.suites.tensor_parallel.primitive import (
    Handle,
    Implementation,
    Primitive,
    ProductBuffers,
    chunks_of,
    share_scratch,
)


@dataclass(frozen=True)
class Rowwise(ProductBuffers):
    """One rank's buffers.

    These are its columns of A [world_size x most, k_r], each rank's rows padded to the most, its
    rows of B [k_r, n], and its rows of C [most, n], padding last.
    """

    def block(self, rank: int, piece: slice | None = None) -> Tensor:
        most = self.rows.most
        piece = piece or slice(0, most)
        return self.a[rank * most + piece.start : rank * most + piece.stop]

    def new(self, rows: int) -> Tensor:
        return self.scratch.new(rows, self.c.shape[1], self.c.dtype)

    def start_scatter(self, into: Tensor, summands: Tensor) -> Handle:
        """Start to sum [world_size x rows, n] over ranks; each gets its rows."""
        work: Handle = dist.reduce_scatter_tensor(into, summands, group=self.group, async_op=True)
        return work

    def scatter(self, into: Tensor, summands: Tensor) -> None:
        with region(WAIT):
            dist.reduce_scatter_tensor(into, summands, group=self.group)

    def reduce(self, summands: Tensor) -> None:
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
    summand = job.new(len(job.a))
    most = job.rows.most

    def step() -> None:
        with region(COMPUTE):
            job.matmul(job.a, job.b, summand)
        job.reduce(summand)
        job.c.copy_(summand[job.rank * most : (job.rank + 1) * most])

    return step


def scatter_in_chunks(job: Rowwise, chunks: int) -> Step:
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


def sums_round_the_ring(job: Rowwise, chunks: int, multiplies: bool = True) -> Step:
    """Peer to peer: sums go round the ring in chunks, and each rank adds its summand.

    In turn t a rank multiplies the rows of rank - 1 - t, which the rank before it multiplied in
    turn t - 1. Its own rows come last and are complete. Without products every summand of a rank is
    the content of its rows of C.
    """
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
                summand = target if multiplies else job.c[piece]
                if multiplies:
                    with region(COMPUTE):
                        job.matmul(job.block(owner, piece), job.b, target)
                in_flight.wait(index)
                if turn:
                    torch.add(summand, arriving[(turn - 1) % 2][piece], out=target)
                if not last:
                    receives = [(arriving[turn % 2][piece], before)]
                    sends = [(target if turn else summand, after)]
                    in_flight.start(index, sends, receives, job.group)

    return step


class RowwiseCases(Primitive):
    baseline: ClassVar[Options] = {"implementation": PYTORCH, "collective": "reduce_scatter"}

    @property
    def inner(self) -> slice:
        return Shards(self.shape[2], self.rank.world_size).of(self.rank.index)

    def allocate(self) -> None:
        (m, n, k), width = self.shape, self.inner.stop - self.inner.start
        self.a = self.matmul.left(self.rank.world_size * self.rows.most, width)
        self.b = self.matmul.right(width, n)
        self.c = self.matmul.product(self.rows.most, n)
        if self.needs_whole:
            kind = self.matmul
            self.whole = kind.left(m, k), kind.right(k, n), kind.product(m, n)

    def load(self, a: Tensor, b: Tensor) -> None:
        for rank in range(self.rank.world_size):
            rows = a[self.rows.of(rank), self.inner]
            start = rank * self.rows.most
            self.a[start : start + len(rows)].copy_(rows)
        self.b.copy_(b[self.inner])
        if self.needs_whole:
            self.whole[0].copy_(a)
            self.whole[1].copy_(b)

    def job(self, group: dist.ProcessGroup | None) -> Rowwise:
        buffers = self.a, self.b, self.c, Scratch(self.scratch_memory)
        return Rowwise(self.rows, self.rank.index, group, *buffers, self.matmul.multiply)

    def product(self, job: Rowwise, options: Options, details: Details) -> Implementation:
        own_rows = self.rows.of(job.rank)
        return Implementation(
            step=self.step(options, job),
            work=self.work(str(options.get("collective", "reduce_scatter"))),
            output=lambda: self.c[: self.rows.sizes[job.rank]],
            factors=lambda a, b: (a[own_rows], b, own_rows.start),
            parts=parts(options),
            details=details,
        )

    def part(self, job: Rowwise) -> Implementation:
        summand = job.new(len(self.a))
        return Implementation(
            step=partial(job.matmul, self.a, self.b, summand),
            work=self.work_of_part(),
            output=lambda: summand[self.rows.unpadded],
            factors=lambda a, b: (a[:, self.inner], b[self.inner], 0),
        )

    def step(self, options: Options, job: Rowwise) -> Step:
        if options["implementation"] == "p2p_pipeline":
            return sums_round_the_ring(job, int(options["chunks"]))
        if options["implementation"] == "pipeline":
            return scatter_in_chunks(job, int(options["chunks"]))
        if options["collective"] == "reduce_scatter":
            return multiply_then_scatter(job)
        return multiply_then_all_reduce(job)

    def work(self, collective: str) -> Work:
        size = self.rank.world_size
        num_bytes = self.summand_bytes * (size - 1) // size
        if collective == "all_reduce":
            num_bytes *= 2
        return Work(useful_flops=self.flops, executed_flops=self.flops, wire_bytes=num_bytes)

    @property
    def summand_bytes(self) -> int:
        return int(self.rows.most * self.rank.world_size * self.shape[1] * self.c.dtype.itemsize)

    def describe_unchecked(self, options: Options) -> str:
        size = self.rank.world_size
        if size == 1 or options["implementation"] in BOUNDS:
            return super().describe_unchecked(options)
        if self.inputs == "exact":
            return operands.unseen_summand(self.shape[0], size)
        within = size * torch.finfo(self.c.dtype).eps ** 2 > operands.UNSEEN_FROM
        lost = "; whether a rank's summand is missing, which is less than rounding explains"
        return operands.UNSAMPLED + (lost if within else "")

    def communication(self, job: Rowwise, options: Options) -> Implementation:
        """Build only the sum over ranks, by a collective or by the ring of peers.

        The timed sums are of arbitrary memory and of earlier sums; overflow takes no longer.
        """
        if options["implementation"] == P2P_COMM_ONLY:
            return self.ring(job)
        collective = str(options["collective"])
        size, rank = self.rank.world_size, self.rank.index
        summand = job.new(len(self.a))
        blocks, results = summand.chunk(size), {rank: job.c}
        step: Step = partial(job.scatter, job.c, summand)
        if collective == "all_reduce":
            step = partial(job.reduce, summand)
            results = dict(enumerate(blocks))
        row_shape = "sum", self.c.dtype, self.shape[1]
        draw = self.drawing(verification.pattern, *row_shape)
        draw_sum = self.drawing(verification.expected_reduction, *row_shape)

        def verify(turn: int, call: Call) -> None:
            values = [draw(turn=turn * size + index, rank=rank) for index in range(size)]

            def prepare() -> None:
                if collective == "reduce_scatter":
                    job.c.fill_(float("nan"))
                for block, drawn in zip(blocks, values, strict=True):
                    verification.tile(block.view(-1), drawn.to(block))

            call(prepare)
            for index, result in results.items():
                expected = draw_sum(turn=turn * size + index)
                verification.require_tiled(result.view(-1), expected)

        work = Work(wire_bytes=self.work(collective).wire_bytes)
        return Implementation(step, work, verify=verify)

    def ring(self, job: Rowwise) -> Implementation:
        """Build the ring that only communicates."""
        step = sums_round_the_ring(share_scratch(job), 1, multiplies=False)
        row_shape = "sum", self.c.dtype, self.shape[1]
        draw = self.drawing(verification.pattern, *row_shape)
        draw_sum = self.drawing(verification.expected_reduction, *row_shape)

        def verify(turn: int, call: Call) -> None:
            mine = draw(turn=turn, rank=self.rank.index).to(job.c)
            call(lambda: verification.tile(job.c.view(-1), mine))
            verification.require_tiled(job.c.view(-1), draw_sum(turn=turn))

        work = Work(wire_bytes=self.work("reduce_scatter").wire_bytes)
        return Implementation(step, work, verify=verify)

    def probes(self, job: Rowwise) -> tuple[Probe, Probe, Probe]:
        size = self.rank.world_size
        summand = share_scratch(job).new(len(self.a))

        def scatter(rows: int) -> Probe:
            part = summand[: rows * size]
            return part.nbytes, partial(job.scatter, job.c[:rows], part)

        local = (self.flops / size, partial(job.matmul, self.a, self.b, summand))
        return scatter(1), scatter(self.rows.most), local

    def kinds(self, backend: str) -> Iterator[tuple[Options, float, float]]:
        """Yield what `auto` tries: options, operations and bytes of the collective."""
        plain = [(PYTORCH, {"collective": collective}) for collective in COLLECTIVES]
        for name, specific in (*plain, *overlapping()):
            num_bytes = 0 if name == "p2p_pipeline" else self.summand_bytes
            options = {"implementation": name, **specific, "backend": backend}
            yield options, self.flops / self.rank.world_size, num_bytes


def cases_of(config: TensorParallelConfig, rank: Rank) -> list[Case]:
    chosen = expand(config.implementations, config.allowed)
    return RowwiseCases(config, rank, chosen).cases()


def parts(options: Options) -> tuple[Options, Options]:
    computation: Options = {"implementation": "compute_only", "size": "sharded"}
    backend = options["backend"]
    if options["implementation"] == "p2p_pipeline":
        return computation, {"implementation": "p2p_comm_only", "backend": backend}
    collective = options.get("collective", "reduce_scatter")
    communication = {"implementation": "comm_only", "collective": collective, "backend": backend}
    return computation, communication

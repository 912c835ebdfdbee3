"""Every implementation of the rowwise product as a case: its memory, work, check and bounds."""

import functools
from typing import Any, ClassVar

import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Call, Work, noop
from benchkit.suites.tensor_parallel import rowwise
from benchkit.suites.tensor_parallel.autotune import choose, measure_costs, overlapping
from benchkit.suites.tensor_parallel.buffers import Step, in_turns
from benchkit.suites.tensor_parallel.config import COLLECTIVES
from benchkit.suites.tensor_parallel.implementation import Details, Implementation
from benchkit.suites.tensor_parallel.memory import rowwise_bytes
from benchkit.suites.tensor_parallel.names import AUTO, BOUNDS, COMPUTE_ONLY, PYTORCH
from benchkit.suites.tensor_parallel.operands import Scratch, Shards
from benchkit.suites.tensor_parallel.primitive import Primitive
from benchkit.suites.tensor_parallel.references import Options
from benchkit.suites.tensor_parallel.rowwise import Rowwise

PEERS = "p2p"
"""Stands for sums that go round the ring, in place of a collective."""


class RowwiseCases(Primitive):
    """One rank's part of a job of tp_rowwise."""

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

    def nbytes(self) -> tuple[int, int]:
        return rowwise_bytes(self.shape, self.dtype, self.rank.world_size, self.needs_whole)

    def load(self, a: Tensor, b: Tensor) -> None:
        """Copies this rank's columns of A, each rank's rows padded to the most, and rows of B."""
        for rank in range(self.rank.world_size):
            rows = a[self.rows.of(rank), self.inner]
            start = rank * self.rows.most
            self.a[start : start + len(rows)].copy_(rows)
        self.b.copy_(b[self.inner])
        if self.needs_whole:
            self.whole[0].copy_(a)
            self.whole[1].copy_(b)

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """Builds one implementation; except for the bounds, its output is this rank's rows of C."""
        scratch = Scratch(self.scratch_memory)
        buffers = self.a, self.b, self.c, scratch
        job = Rowwise(self.rows, self.rank.index, group, *buffers, self.matmul.multiply)
        kind = options["implementation"]
        if kind == COMPUTE_ONLY:
            return self.computation(job, str(options["size"]))
        if kind in BOUNDS:
            return self.communication(job, str(options.get("collective", PEERS)))
        details: Details = {}
        if kind == AUTO:
            options, details = self.choose(job, str(options["backend"]))
        own = self.rows.of(job.rank)
        return Implementation(
            step=self.step(options, job),
            work=self.work(str(options.get("collective", "reduce_scatter"))),
            output=lambda: self.c[: self.rows.sizes[job.rank]],
            factors=lambda a, b: (a[own], b, own.start),
            parts=parts(options),
            details=details,
        )

    def computation(self, job: Rowwise, size: str) -> Implementation:
        """Builds the matmul alone: the own summand if `size` is sharded, else whole A times B."""
        world_size = self.rank.world_size
        if size == "unsharded":
            step = functools.partial(job.matmul, *self.whole)
            work = Work(useful_flops=self.flops, executed_flops=self.flops * world_size)
            return Implementation(step, work, lambda: self.whole[2])
        summand = job.new(len(self.a))
        return Implementation(
            step=functools.partial(job.matmul, self.a, self.b, summand),
            work=Work(useful_flops=self.flops / world_size, executed_flops=self.flops),
            output=lambda: summand[self.rows.unpadded],
            factors=lambda a, b: (a[:, self.inner], b[self.inner], 0),
        )

    def step(self, options: Options, job: Rowwise) -> Step:
        """Builds the step of an implementation with fixed options."""
        if options["implementation"] == "p2p_pipeline":
            return rowwise.sums_round_the_ring(job, int(options["chunks"]))
        if options["implementation"] == "pipeline":
            return rowwise.scatter_in_chunks(job, int(options["chunks"]))
        if options["collective"] == "reduce_scatter":
            return rowwise.multiply_then_scatter(job)
        return rowwise.multiply_then_all_reduce(job)

    def work(self, collective: str) -> Work:
        """Returns the operations of all ranks, and the bytes that each rank must send at least."""
        size = self.rank.world_size
        num_bytes = self.summand_bytes * (size - 1) // size
        if collective == "all_reduce":
            num_bytes *= 2
        return Work(useful_flops=self.flops, executed_flops=self.flops, wire_bytes=num_bytes)

    @property
    def summand_bytes(self) -> int:
        """Size of the summand of every rank, padding included."""
        return int(self.rows.most * self.rank.world_size * self.shape[1] * self.c.dtype.itemsize)

    def communication(self, job: Rowwise, collective: str) -> Implementation:
        """Builds the sum over ranks alone, by a collective or by the ring of peers.

        Each rank checks all that it gets. The timed sums are of arbitrary memory contents and of
        earlier sums; they overflow, which takes no longer.
        """
        if collective == PEERS:
            return self.ring(job)
        size, rank = self.rank.world_size, self.rank.index
        summand = job.new(len(self.a))
        blocks, results = summand.chunk(size), {rank: job.c}
        step: Step = functools.partial(job.scatter, job.c, summand)
        if collective == "all_reduce":
            step = functools.partial(job.reduce, summand)
            results = dict(enumerate(blocks))
        draw: dict[str, Any] = {
            "seed": self.rank.seed,
            "world_size": size,
            "dtype": self.c.dtype,
            "op": "sum",
            "length": self.rows.most * self.shape[1],
        }

        def verify(turn: int, call: Call) -> None:
            values = [
                verification.pattern(turn=turn * size + index, rank=rank, **draw)
                for index in range(size)
            ]

            def prepare() -> None:
                if collective == "reduce_scatter":
                    job.c.fill_(float("nan"))
                for block, drawn in zip(blocks, values, strict=True):
                    verification.tile(block.view(-1), drawn.to(block))

            call(prepare)
            for index, result in results.items():
                expected = verification.reduced(turn=turn * size + index, **draw)
                verification.require_tiled(result.view(-1), expected)

        work = Work(wire_bytes=self.work(collective).wire_bytes)
        return Implementation(step, work, verify=verify)

    def ring(self, job: Rowwise) -> Implementation:
        """Builds the ring that only communicates: products are what its memory holds already."""
        size, rank, most = self.rank.world_size, self.rank.index, self.rows.most
        step = rowwise.sums_round_the_ring(in_turns(job), 1, noop)
        trial = in_turns(job)
        held = [trial.new(most), trial.new(most), job.c]  # two sums in turns, and the last one
        draw = functools.partial(
            verification.pattern,
            seed=self.rank.seed,
            world_size=size,
            dtype=self.c.dtype,
            op="sum",
            length=most * self.shape[1],
        )

        def verify(turn: int, call: Call) -> None:
            values = [
                [draw(turn=turn * len(held) + index, rank=each) for index in range(len(held))]
                for each in range(size)
            ]

            def prepare() -> None:
                for buffer, drawn in zip(held, values[rank], strict=True):
                    verification.tile(buffer.view(-1), drawn.to(buffer))

            call(prepare)
            expected = rowwise.ring_sum(values, rank)
            verification.require_tiled(job.c.view(-1), expected)

        work = Work(wire_bytes=self.work("reduce_scatter").wire_bytes)
        return Implementation(step, work, verify=verify)

    def choose(self, job: Rowwise, backend: str) -> tuple[Options, Details]:
        """Chooses the options that should be fastest, with details for the record."""
        size = self.rank.world_size
        summand = in_turns(job).new(len(self.a))

        def scatter(rows: int) -> tuple[int, Step]:
            part = summand[: rows * size]
            return part.nbytes, functools.partial(job.scatter, job.c[:rows], part)

        flops = self.flops / size
        local = (flops, functools.partial(job.matmul, self.a, self.b, summand))
        costs = measure_costs(self.rank.seconds_of, scatter(1), scatter(self.rows.most), local)
        plain = [(PYTORCH, {"collective": collective}) for collective in COLLECTIVES]
        kinds: list[tuple[Options, float]] = []
        for name, specific in (*plain, *overlapping()):
            num_bytes = 0 if name == "p2p_pipeline" else self.summand_bytes
            options = {"implementation": name, **specific, "backend": backend}
            kinds.append((options, costs.limit_s(flops, num_bytes)))
        return choose(costs, kinds, functools.partial(self.timed_s, job=job))


def parts(options: Options) -> tuple[Options, Options]:
    """Returns the options of an implementation's bounds: its computation and its communication."""
    computation: Options = {"implementation": "compute_only", "size": "sharded"}
    backend = options["backend"]
    if options["implementation"] == "p2p_pipeline":
        return computation, {"implementation": "p2p_comm_only", "backend": backend}
    collective = options.get("collective", "reduce_scatter")
    communication = {"implementation": "comm_only", "collective": collective, "backend": backend}
    return computation, communication

"""Every implementation of the columnwise product as a case: its memory, work, check and bounds."""

import functools
import itertools
from dataclasses import replace
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Call, Work, noop
from benchkit.api.p2p import sendable
from benchkit.suites.tensor_parallel import columnwise, columnwise_pipelines, symmetric_memory
from benchkit.suites.tensor_parallel.autotune import choose, measure_costs, overlapping
from benchkit.suites.tensor_parallel.buffers import Step, in_turns
from benchkit.suites.tensor_parallel.columnwise import Columnwise
from benchkit.suites.tensor_parallel.config import ORDERS
from benchkit.suites.tensor_parallel.implementation import Details, Implementation
from benchkit.suites.tensor_parallel.memory import columnwise_bytes
from benchkit.suites.tensor_parallel.names import AUTO, BOUNDS, COMPUTE_ONLY, P2P_COMM_ONLY, PYTORCH
from benchkit.suites.tensor_parallel.operands import Scratch
from benchkit.suites.tensor_parallel.primitive import NAN_BYTE, Primitive
from benchkit.suites.tensor_parallel.references import Options


class ColumnwiseCases(Primitive):
    """One rank's part of a job of tp_columnwise."""

    baseline: ClassVar[Options] = {"implementation": PYTORCH, "order": "AG_before"}

    def allocate(self) -> None:
        m, n, k = self.shape
        self.a = self.matmul.left(self.rows.most, k)
        self.b = self.matmul.right(k, n)
        self.c = self.matmul.product(m, n)
        if self.needs_whole:
            self.whole_a = self.matmul.left(m, k)

    def nbytes(self) -> tuple[int, int]:
        return columnwise_bytes(self.shape, self.dtype, self.rank.world_size, self.needs_whole)

    def load(self, a: Tensor, b: Tensor) -> None:
        """Copies this rank's rows of A, and B."""
        own = a[self.rows.of(self.rank.index)]
        self.a[: len(own)].copy_(own)
        self.b.copy_(b)
        if self.needs_whole:
            self.whole_a.copy_(a)

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """Builds one implementation, whose output is all of C, except for the bounds."""
        scratch = Scratch(self.scratch_memory)
        buffers = self.a, self.b, self.c, scratch
        job = Columnwise(self.rows, self.rank.index, group, *buffers, self.matmul.multiply)
        kind = options["implementation"]
        if kind == COMPUTE_ONLY:
            return self.computation(job, str(options["size"]))
        if kind in BOUNDS:
            return self.communication(job, kind == P2P_COMM_ONLY, str(options["order"]))
        if kind == "symmetric_memory":
            gathers_a: Options = {"order": "AG_before", **options, "backend": "default"}
            return symmetric_memory.all_gather_matmul(job, self.work("AG_before"), parts(gathers_a))
        details: Details = {}
        if kind == AUTO:
            options, details = self.choose(job, str(options["backend"]))
        step = self.step(options, job)
        work = self.work(str(options["order"]))
        return Implementation(step, work, lambda: self.c, parts=parts(options), details=details)

    def computation(self, job: Columnwise, size: str) -> Implementation:
        """Builds the matmul alone: own rows of A times B if `size` is sharded, else A times B."""
        world_size = self.rows.world_size
        if size == "unsharded":
            step: Step = functools.partial(job.matmul, self.whole_a, self.b, self.c)
            work = Work(useful_flops=self.flops, executed_flops=self.flops * world_size)
            return Implementation(step, work, lambda: self.c)
        own = self.rows.of(job.rank)
        return Implementation(
            step=columnwise.compute_sharded(job),
            work=Work(useful_flops=self.flops / world_size, executed_flops=self.flops),
            output=lambda: job.place(job.rank),
            factors=lambda a, b: (a[own], b, own.start),
        )

    def step(self, options: Options, job: Columnwise) -> Step:
        """Builds the step of an implementation with fixed options."""
        gathers_a = options["order"] == "AG_before"
        chunks = int(options.get("chunks", 1))
        if options["implementation"] == "p2p_pipeline":
            if gathers_a:
                return columnwise_pipelines.shards_round_the_ring(job, chunks)
            return columnwise_pipelines.rows_to_all_peers(job, chunks)
        if options["implementation"] == "pipeline":
            if gathers_a:
                return columnwise_pipelines.gather_in_chunks(job, chunks)
            return columnwise_pipelines.multiply_in_chunks(job, chunks)
        if gathers_a:
            return columnwise.gather_then_multiply(job)
        return columnwise.multiply_then_gather(job)

    def gathered_bytes(self, order: str) -> int:
        """Returns the size of the buffer of an order's all-gather, padding included."""
        like = self.a if order == "AG_before" else self.c
        return int(self.rows.most * self.rows.world_size * like.shape[1] * like.dtype.itemsize)

    def work(self, order: str) -> Work:
        """Returns the operations of all ranks, and the bytes that each rank must send at least."""
        size = self.rows.world_size
        return Work(
            useful_flops=self.flops,
            executed_flops=self.flops * (size if order == "AG_before" else 1),
            wire_bytes=self.gathered_bytes(order) * (size - 1) // size,
        )

    def communication(self, job: Columnwise, by_peers: bool, order: str) -> Implementation:
        """Builds the communication of an order alone: the all-gather, or the peers in one chunk."""
        size, most = self.rows.world_size, self.rows.most
        like = job.a if order == "AG_before" else job.c
        step: Step
        if by_peers and order == "AG_after":
            arriving = dict(enumerate(job.place(rank) for rank in range(size)))
            part = arriving[job.rank]
            step = columnwise_pipelines.rows_to_all_peers(job, 1, noop)
        elif by_peers:
            part = job.new(most, like)
            ring = replace(job, a=part)
            step = columnwise_pipelines.shards_round_the_ring(in_turns(ring), 1, noop)
            # Of the shards that pass, the two spare buffers keep the last two, which came furthest.
            turns, spare = in_turns(ring), range(max(0, size - 3), size - 1)
            buffers = [turns.new(most, like) for _ in range(2)]
            arriving = {(job.rank - turn - 1) % size: buffers[turn % 2] for turn in spare}
        else:
            part, whole = job.new(most, like), job.new(most * size, like)
            arriving = dict(enumerate(whole.chunk(size)))
            step = functools.partial(job.gather, whole, part)
        sent = sendable(part)
        draw = functools.partial(
            verification.pattern,
            seed=self.rank.seed,
            world_size=size,
            dtype=sent.dtype,
            op="max",
            length=most * like.shape[1],
        )

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

    def choose(self, job: Columnwise, backend: str) -> tuple[Options, Details]:
        """Chooses the options that should be fastest, with details for the record."""
        size, most = self.rows.world_size, self.rows.most
        gathers_more_a = self.gathered_bytes("AG_before") > self.gathered_bytes("AG_after")
        wider = job.a if gathers_more_a else job.c
        trial = in_turns(job)
        part, whole = trial.new(most, wider), trial.new(most * size, wider)

        def gather(rows: int) -> tuple[int, Step]:
            into = whole[: rows * size]
            return into.nbytes, functools.partial(job.gather, into, part[:rows])

        local = (self.flops / size, columnwise.compute_sharded(job))
        costs = measure_costs(self.rank.seconds_of, gather(1), gather(most), local)
        kinds: list[tuple[Options, float]] = []
        for order, (name, chunked) in itertools.product(ORDERS, [(PYTORCH, {}), *overlapping()]):
            flops = self.flops if order == "AG_before" else self.flops / size
            num_bytes = 0 if name == "p2p_pipeline" else self.gathered_bytes(order)
            options = {"implementation": name, "order": order, **chunked, "backend": backend}
            kinds.append((options, costs.limit_s(flops, num_bytes)))
        return choose(costs, kinds, functools.partial(self.timed_s, job=job))


def parts(options: Options) -> tuple[Options, Options]:
    """Returns the options of an implementation's bounds: its computation and its communication."""
    order = options["order"]
    by_peers = options.get("implementation") == "p2p_pipeline"
    communication = "p2p_comm_only" if by_peers else "comm_only"
    size = "unsharded" if order == "AG_before" else "sharded"
    return (
        {"implementation": "compute_only", "size": size},
        {"implementation": communication, "order": order, "backend": options["backend"]},
    )

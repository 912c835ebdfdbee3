"""Every implementation of the columnwise product as a case: its memory, its work, its check and its bounds."""

import functools
import itertools
from dataclasses import replace
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Work, noop
from benchkit.suites.tensor_parallel import columnwise, symmetric_memory
from benchkit.suites.tensor_parallel.autotune import choose, measure_costs, overlapping
from benchkit.suites.tensor_parallel.columnwise import Columnwise, Step
from benchkit.suites.tensor_parallel.primitive import Details, Implementation, Primitive
from benchkit.suites.tensor_parallel.references import Options

ORDERS = ("AG_before", "AG_after")


class ColumnwiseCases(Primitive):
    """One rank's side of a job."""

    baseline: ClassVar[Options] = {"implementation": "pytorch", "order": "AG_before"}

    def allocate(self) -> None:
        m, n, k = self.shape
        self.a, self.b, self.c = self.new(self.rows.most, k), self.new(k, n), self.new(m, n)
        if self.needs_whole:
            self.whole_a = self.new(m, k)

    def numbers(self) -> tuple[int, int]:
        m, n, k = self.shape
        most, size = self.rows.most, self.rank.world_size
        operands = most * k + k * n + m * n + (m * k if self.needs_whole else 0)
        return operands, max((size + 3) * most * k, (size + 1) * most * n)

    def load(self, a: Tensor, b: Tensor) -> None:
        """This rank's rows of A, and B."""
        own = a[self.rows.of(self.rank.index)]
        self.a[: len(own)].copy_(own)
        self.b.copy_(b)
        if self.needs_whole:
            self.whole_a.copy_(a)

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """One implementation with its output: all of C, but for the bounds."""
        job = Columnwise(self.rows, self.rank.index, group, self.a, self.b, self.c, self.scratch)
        kind, order = options["implementation"], str(options.get("order", ""))
        if kind in ("comm_only", "p2p_comm_only"):
            return self.communication(job, kind == "p2p_comm_only", order)
        size = self.rows.world_size
        if kind == "compute_only" and options["size"] == "sharded":
            own = self.rows.of(job.rank)
            work = Work(useful_flops=self.flops / size, executed_flops=self.flops)
            step = columnwise.compute_sharded(job)
            return Implementation(step, work, lambda: job.place(job.rank), lambda a, b: (a[own], b, own.start))
        if kind == "compute_only":
            step = functools.partial(torch.mm, self.whole_a, self.b, out=self.c)
            return Implementation(step, Work(useful_flops=self.flops, executed_flops=self.flops * size), lambda: self.c)
        if kind == "symmetric_memory":
            return symmetric_memory.all_gather_matmul(
                job, self.work("AG_before"), parts({"order": "AG_before", **options, "backend": "default"})
            )
        details: Details = {}
        if kind == "auto":
            options, details = self.choose(job, str(options["backend"]))
        order = str(options["order"])
        step = self.step(options, job)
        return Implementation(step, self.work(order), lambda: self.c, parts=parts(options), details=details)

    def step(self, options: Options, job: Columnwise) -> Step:
        """What a fixed choice does."""
        before, chunks = options["order"] == "AG_before", int(options.get("chunks", 1))
        if options["implementation"] == "p2p_pipeline":
            return (columnwise.shards_round_the_ring if before else columnwise.rows_to_all_peers)(job, chunks)
        if options["implementation"] == "pipeline":
            return (columnwise.gather_in_chunks if before else columnwise.multiply_in_chunks)(job, chunks)
        return (columnwise.gather_then_multiply if before else columnwise.multiply_then_gather)(job)

    def gathered_bytes(self, order: str) -> int:
        """The buffer of an order's all-gather, padding included."""
        width = self.shape[2 if order == "AG_before" else 1]
        return int(self.rows.most * self.rows.world_size * width * self.dtype.itemsize)

    def work(self, order: str) -> Work:
        """Useful and executed operations of all ranks, and what each rank sends at least."""
        size = self.rows.world_size
        return Work(
            useful_flops=self.flops,
            executed_flops=self.flops * (size if order == "AG_before" else 1),
            wire_bytes=self.gathered_bytes(order) * (size - 1) // size,
        )

    def communication(self, job: Columnwise, by_peers: bool, order: str) -> Implementation:
        """What an order sends, alone: by the all-gather, or by its peers in one chunk."""
        size, most, before = self.rows.world_size, self.rows.most, order == "AG_before"
        like = job.a if before else job.c
        if by_peers and not before:
            blocks = [job.place(rank) for rank in range(size)]
            step = check = columnwise.rows_to_all_peers(job, 1, noop)
            part = blocks[job.rank]
        else:
            part, whole = job.new(most, like), job.new(most * size, like)
            blocks = list(whole.chunk(size))
            step = check = functools.partial(job.gather, whole, part)
            if by_peers:
                used, keep = self.scratch.used, lambda rows, owner, first: blocks[owner].copy_(rows)
                step = columnwise.shards_round_the_ring(replace(job, a=part), 1, noop)
                self.scratch.used = used  # in the same memory, since it is one or the other
                check = columnwise.shards_round_the_ring(replace(job, a=part), 1, keep)

        def verify(turn: int) -> None:
            draw = functools.partial(verification.pattern, world_size=size, dtype=self.dtype, op="max", turn=turn)
            length = most * like.shape[1]
            drawn = [self.on_device(draw(seed=self.rank.seed, rank=rank, length=length)) for rank in range(size)]
            verification.tile(part.view(-1), drawn[job.rank])
            check()
            for block, expected in zip(blocks, drawn, strict=True):
                verification.require_tiled(block.view(-1), expected)

        part.zero_()
        return Implementation(step, Work(wire_bytes=self.work(order).wire_bytes), verify=verify)

    def choose(self, job: Columnwise, backend: str) -> tuple[Options, Details]:
        """What should be fastest, and what says so."""
        wider = job.a if self.gathered_bytes("AG_before") > self.gathered_bytes("AG_after") else job.c
        part, size = job.new(self.rows.most, wider), self.rows.world_size
        whole = job.new(self.rows.most * size, wider)

        def gather(rows: int) -> tuple[int, Step]:
            into = whole[: rows * size]
            return into.nbytes, functools.partial(job.gather, into, part[:rows])

        local = (self.flops / size, columnwise.compute_sharded(job))
        costs = measure_costs(self.rank.seconds_of, gather(1), gather(self.rows.most), local)
        kinds: list[tuple[Options, float]] = []
        for order, (name, chunked) in itertools.product(ORDERS, [("pytorch", {}), *overlapping()]):
            flops = self.flops if order == "AG_before" else self.flops / size
            limit_s = costs.limit_s(flops, 0 if name == "p2p_pipeline" else self.gathered_bytes(order))
            kinds.append(({"implementation": name, "order": order, **chunked, "backend": backend}, limit_s))
        return choose(costs, kinds, functools.partial(self.timed_s, job=job))


def parts(options: Options) -> tuple[Options, Options]:
    """The bounds of an implementation: its computation and its communication."""
    order, by_peers = options["order"], options.get("implementation") == "p2p_pipeline"
    communication = "p2p_comm_only" if by_peers else "comm_only"
    size = "unsharded" if order == "AG_before" else "sharded"
    return (
        {"implementation": "compute_only", "size": size},
        {"implementation": communication, "order": order, "backend": options["backend"]},
    )

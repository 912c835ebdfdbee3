"""Every implementation of the rowwise product as a case: its memory, its work, its check and its bounds."""

import functools
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Work, noop
from benchkit.suites.tensor_parallel import rowwise
from benchkit.suites.tensor_parallel.autotune import choose, measure_costs, overlapping
from benchkit.suites.tensor_parallel.columnwise import Step
from benchkit.suites.tensor_parallel.operands import Shards
from benchkit.suites.tensor_parallel.primitive import Details, Implementation, Primitive
from benchkit.suites.tensor_parallel.references import Options
from benchkit.suites.tensor_parallel.rowwise import Rowwise

COLLECTIVES = ("reduce_scatter", "all_reduce")
PEERS = "p2p"
"""Sums that go round the ring, in the place of a collective."""


class RowwiseCases(Primitive):
    """One rank's side of a job."""

    baseline: ClassVar[Options] = {"implementation": "pytorch", "collective": "reduce_scatter"}

    def allocate(self) -> None:
        m, n, k = self.shape
        self.inner = Shards(k, self.rank.world_size).of(self.rank.index)
        most, size, width = self.rows.most, self.rank.world_size, self.inner.stop - self.inner.start
        self.a, self.b, self.c = self.new(size * most, width), self.new(width, n), self.new(most, n)
        if self.needs_whole:
            self.whole = self.new(m, k), self.new(k, n), self.new(m, n)

    def numbers(self) -> tuple[int, int]:
        m, n, k = self.shape
        most, size = self.rows.most, self.rank.world_size
        width = -(-k // size)
        whole = m * k + k * n + m * n if self.needs_whole else 0
        return size * most * width + width * n + most * n + whole, (size + 4) * most * n

    def load(self, a: Tensor, b: Tensor) -> None:
        """This rank's columns of A, the rows that each rank wants padded to the most, and its rows of B."""
        for rank in range(self.rank.world_size):
            rows = a[self.rows.of(rank), self.inner]
            self.a[rank * self.rows.most : rank * self.rows.most + len(rows)].copy_(rows)
        self.b.copy_(b[self.inner])
        if self.needs_whole:
            self.whole[0].copy_(a)
            self.whole[1].copy_(b)

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """One implementation with its output: this rank's rows of C, but for the bounds."""
        job = Rowwise(self.rows, self.rank.index, group, self.a, self.b, self.c, self.scratch)
        kind, size = options["implementation"], self.rank.world_size
        if kind in ("comm_only", "p2p_comm_only"):
            return self.communication(job, str(options.get("collective", PEERS)))
        if kind == "compute_only" and options["size"] == "sharded":
            summand = job.new(len(self.a))
            step = functools.partial(torch.mm, self.a, self.b, out=summand)
            work = Work(useful_flops=self.flops / size, executed_flops=self.flops)
            return Implementation(
                step, work, lambda: summand[self.rows.unpadded], lambda a, b: (a[:, self.inner], b[self.inner], 0)
            )
        if kind == "compute_only":
            step = functools.partial(torch.mm, self.whole[0], self.whole[1], out=self.whole[2])
            return Implementation(
                step, Work(useful_flops=self.flops, executed_flops=self.flops * size), lambda: self.whole[2]
            )
        details: Details = {}
        if kind == "auto":
            options, details = self.choose(job, str(options["backend"]))
        collective = str(options.get("collective", "reduce_scatter"))
        own = self.rows.of(job.rank)
        output = lambda: self.c[: self.rows.sizes[job.rank]]  # noqa: E731
        factors = lambda a, b: (a[own], b, own.start)  # noqa: E731
        return Implementation(self.step(options, job), self.work(collective), output, factors, parts(options), details)

    def step(self, options: Options, job: Rowwise) -> Step:
        """What a fixed choice does."""
        if options["implementation"] == "p2p_pipeline":
            return rowwise.sums_round_the_ring(job, int(options["chunks"]))
        if options["implementation"] == "pipeline":
            return rowwise.scatter_in_chunks(job, int(options["chunks"]))
        scattered = options["collective"] == "reduce_scatter"
        return (rowwise.multiply_then_scatter if scattered else rowwise.multiply_then_all_reduce)(job)

    def work(self, collective: str) -> Work:
        """Useful and executed operations of all ranks, and what each rank sends at least."""
        size = self.rank.world_size
        num_bytes = self.summand_bytes * (size - 1) // size * (2 if collective == "all_reduce" else 1)
        return Work(useful_flops=self.flops, executed_flops=self.flops, wire_bytes=num_bytes)

    @property
    def summand_bytes(self) -> int:
        """What every rank has to be summed, padding included."""
        return int(self.rows.most * self.rank.world_size * self.shape[1] * self.dtype.itemsize)

    def communication(self, job: Rowwise, collective: str) -> Implementation:
        """The sum over ranks alone, by a collective or by the ring of peers; each rank checks all that it gets.

        Timed are sums of whatever is in memory, and of sums: they overflow, which takes no longer.
        """
        size, rank, most = self.rank.world_size, self.rank.index, self.rows.most
        summand = job.new(len(self.a))
        blocks, got = summand.chunk(size), {rank: job.c}
        step: Step = functools.partial(job.scatter, job.c, summand)
        check = step
        if collective == "all_reduce":
            step = check = functools.partial(job.reduce, summand)
            got = dict(enumerate(blocks))
        elif collective == PEERS:
            used, fill = self.scratch.used, lambda rows, into, owner: into.copy_(blocks[owner])
            step = rowwise.sums_round_the_ring(job, 1, noop)
            self.scratch.used = used  # in the same memory, since it is one or the other
            check = rowwise.sums_round_the_ring(job, 1, fill)
        draw: dict[str, Any] = {
            "seed": self.rank.seed, "world_size": size, "dtype": self.dtype, "op": "sum", "length": most * self.shape[1]
        }  # fmt: skip

        def verify(turn: int) -> None:
            for index, block in enumerate(blocks):
                values = verification.pattern(turn=turn * size + index, rank=rank, **draw)
                verification.tile(block.view(-1), self.on_device(values))
            check()
            for index, result in got.items():
                expected = verification.reduced(turn=turn * size + index, **draw)
                verification.require_tiled(result.view(-1), self.on_device(expected))

        return Implementation(step, Work(wire_bytes=self.work(collective).wire_bytes), verify=verify)

    def choose(self, job: Rowwise, backend: str) -> tuple[Options, Details]:
        """What should be fastest, and what says so."""
        size = self.rank.world_size
        summand = job.new(len(self.a))

        def scatter(rows: int) -> tuple[int, Step]:
            part = summand[: rows * size]
            return part.nbytes, functools.partial(job.scatter, job.c[:rows], part)

        local = (self.flops / size, functools.partial(torch.mm, self.a, self.b, out=summand))
        costs = measure_costs(self.rank.seconds_of, scatter(1), scatter(self.rows.most), local)
        plain: list[tuple[str, Options]] = [("pytorch", {"collective": collective}) for collective in COLLECTIVES]
        kinds: list[tuple[Options, float]] = []
        for name, chosen_of in (*plain, *overlapping()):
            limit_s = costs.limit_s(self.flops / size, 0 if name == "p2p_pipeline" else self.summand_bytes)
            kinds.append(({"implementation": name, **chosen_of, "backend": backend}, limit_s))
        return choose(costs, kinds, functools.partial(self.timed_s, job=job))


def parts(options: Options) -> tuple[Options, Options]:
    """The bounds of an implementation: its computation and its communication."""
    communication: Options = {"implementation": "p2p_comm_only"}
    if options["implementation"] != "p2p_pipeline":
        communication = {"implementation": "comm_only", "collective": options.get("collective", "reduce_scatter")}
    return {"implementation": "compute_only", "size": "sharded"}, {**communication, "backend": options["backend"]}

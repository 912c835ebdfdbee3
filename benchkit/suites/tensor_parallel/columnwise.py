"""The columnwise product: each rank has rows of A, and all ranks have B and need all of C.

Ranks gather A and multiply, or multiply and gather C. The implementations in this module do one
after the other; those in `columnwise_pipelines` overlap them.
"""

from dataclasses import dataclass
from functools import partial

import torch.distributed as dist
from torch import Tensor

from benchkit.api.p2p import sendable
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel.buffers import Buffers, Step, Work


@dataclass(frozen=True)
class Columnwise(Buffers):
    """One rank's buffers.

    Attributes:
        a: its rows of A, padded to [most, k].
        b: B [k, n].
        c: C [m, n].
        scratch: memory for everything else.
    """

    def place(self, rank: int, first: int = 0, count: int | None = None) -> Tensor:
        """Returns the rows of C that a rank's rows [first, first + count) give, without padding."""
        start, size = self.rows.of(rank).start, self.rows.sizes[rank]
        stop = size if count is None else min(first + count, size)
        return self.c[start + min(first, size) : start + stop]

    def multiply(self, source: Tensor, rank: int, first: int = 0) -> None:
        """Multiplies rows of a rank's A by B and writes the product to its place in C.

        Args:
            source: rows [first, first + len(source)) of the rank's A, padding included.
            rank: the owner of the rows.
            first: number of the first row.
        """
        target = self.place(rank, first, len(source))
        if len(target):
            self.matmul(source[: len(target)], self.b, target)

    def start_gather(self, into: Tensor, part: Tensor) -> Work:
        """Starts to gather all ranks' parts in order of rank, and returns the handle."""
        into, part = sendable(into), sendable(part)
        work: Work = dist.all_gather_into_tensor(into, part, group=self.group, async_op=True)
        return work

    def gather(self, into: Tensor, part: Tensor) -> None:
        """Gathers all ranks' parts in order of rank."""
        with region(WAIT):
            dist.all_gather_into_tensor(sendable(into), sendable(part), group=self.group)

    def new(self, rows: int, like: Tensor) -> Tensor:
        """Allocates scratch memory as wide as another buffer, and of its dtype."""
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

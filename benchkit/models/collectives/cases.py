"""A collective as a case: filled, called, waited for and checked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from benchkit import verification
from benchkit.case import Case, Rank, Work, nothing
from benchkit.errors import InvalidResult, Unavailable
from benchkit.models.collectives.operations import Collective, Drawn, Operation
from benchkit.models.collectives.sizes import bus_factor, part_sizes
from benchkit.regions import WAIT, region

if TYPE_CHECKING:
    from benchkit.suites.collective import CollectiveConfig

ISSUE = "issue_on_host"
"""Region: until an asynchronous call has returned, by the host's clock on a GPU, too."""
LATE_S = 0.02
"""How long one rank keeps the others waiting where a barrier is checked."""
POISON = -77
TIMED = -1
"""The turn whose inputs are timed; checks draw others."""


def case_of(config: "CollectiveConfig", rank: Rank) -> Case:
    """The one case of a job; says why where it does not fit the memory."""
    dtype, name, size = getattr(torch, config.dtype), config.collective, rank.world_size
    num_elements = max(1, round(float(config.data_size) * 2**20 / dtype.itemsize))
    parts = part_sizes(name, size, num_elements, config.ragged)
    payload_bytes = sum(parts) * dtype.itemsize
    if shortage := rank.memory_shortage(2 * payload_bytes if name != "all_to_all" else 3 * payload_bytes):
        return Case(skip=shortage)
    collective = Collective(name, parts, rank.index, size, dtype, rank.device, config.reduce_op, config.ragged)
    try:
        operation = collective.operation()
    except Unavailable as error:
        return Case(unavailable=str(error))
    step = partial(asynchronously if config.async_op else synchronously, operation)
    return Case(
        step=step,
        reset=partial(fill, collective, operation, TIMED, rank.seed) if operation.renews else nothing,
        verify=Check(collective, operation, step, rank.seed),
        work=work_of(name, payload_bytes, size),
        max_calls_per_reset=verification.max_repeats(size, dtype, config.reduce_op) if operation.renews else None,
        regions=(ISSUE, WAIT) if config.async_op else (),
        ranks=2 if name == "send_recv" else None,
    )


def synchronously(operation: Operation) -> None:
    operation.start(False)


def asynchronously(operation: Operation) -> None:
    """The time to return beside the time to finish."""
    with region(ISSUE):
        work = operation.start(True)
    if work is not None:
        with region(WAIT):
            work.wait()


def work_of(name: str, payload_bytes: int, world_size: int) -> Work:
    """The payload S of nccl-tests' table, per call; there and back again for send_recv."""
    if name == "barrier":
        return Work()
    return Work(payload_bytes * (2 if name == "send_recv" else 1), bus_factor=bus_factor(name, world_size))


def fill(collective: Collective, operation: Operation, turn: int, seed: int) -> None:
    """Puts a turn's inputs into the buffers."""
    for held in operation.gives:
        verification.tile(held.buffer, collective.inputs(held, turn, seed))


@dataclass
class Check:
    """Each time on inputs of its own: every element of every buffer that the call is to fill."""

    collective: Collective
    operation: Operation
    step: Callable[[], None]
    seed: int
    turns: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        fill(self.collective, self.operation, TIMED, self.seed)

    def __call__(self) -> None:
        turn = next(self.turns)
        if self.collective.name == "barrier":
            return self.nobody_leaves_early(turn)
        for buffer in self.operation.poisoned:
            buffer.fill_(float("nan") if buffer.is_floating_point() else POISON)
        fill(self.collective, self.operation, turn, self.seed)
        try:
            self.step()
            for held in self.operation.gets:
                self.require(held, turn)
        finally:
            fill(self.collective, self.operation, TIMED, self.seed)
        return None

    def require(self, held: Drawn, turn: int) -> None:
        """Raises InvalidResult where a stretch of a buffer is not what it should be."""
        collective, reduced = self.collective, held.rank is None
        atol = verification.tolerance(collective.world_size, collective.dtype, collective.op) if reduced else 0.0
        try:
            verification.require_tiled(held.buffer, collective.inputs(held, turn, self.seed), atol)
        except InvalidResult as error:
            source = "all ranks" if reduced else f"rank {held.rank}"
            raise InvalidResult(f"part {held.part} of {source}: {error}") from None

    def nobody_leaves_early(self, turn: int) -> None:
        """All ranks count themselves in before the barrier, the last one late; who leaves it must find all there.

        The last one waits until the others are in, so that those have all of LATE_S to leave a barrier that holds none.
        """
        store, size = dist.distributed_c10d._get_default_store(), self.collective.world_size
        if self.collective.rank == size - 1:
            while store.add(f"barrier/{turn}", 0) < size - 1:
                time.sleep(1e-3)
            time.sleep(LATE_S)
        store.add(f"barrier/{turn}", 1)
        self.step()
        if (entered := store.add(f"barrier/{turn}", 0)) < size:
            raise InvalidResult(f"rank {self.collective.rank} left after {entered} of {size} ranks had entered")

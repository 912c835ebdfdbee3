"""A collective as a case: filled, called, waited for and checked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import torch
import torch.distributed as dist

from benchkit.api import verification
from benchkit.api.case import Case, Rank, Work
from benchkit.api.regions import WAIT, region
from benchkit.errors import InvalidResult, Unavailable
from benchkit.statistics.estimators import BACK_TO_BACK, LAST_ARRIVAL, LATENCY, SLOWEST_RANK
from benchkit.suites.collective.config import CollectiveConfig
from benchkit.suites.collective.operations import Collective, Drawn, Operation
from benchkit.suites.collective.sizes import bus_factor, part_sizes

ISSUE = "issue_on_host"
"""Region: until an asynchronous call has returned, by the host's clock on a GPU, too."""
LATE_S = 0.02
"""How long one rank keeps the others waiting where a barrier is checked."""
POISON = -77
SHORT_S = 0.01
"""Calls shorter than this are asked both; of longer ones, the answers are alike."""
TIMED = -1
"""The turn whose inputs are timed; checks draw others."""


def cases_of(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """The cases of a job: back to back, and where a call is short also the latency of one by itself.

    One case says why where the collective does not fit the memory, or is not there.
    """
    dtype, name, size = getattr(torch, config.dtype), config.collective, rank.world_size
    num_elements = max(1, round(float(config.data_size) * 2**20 / dtype.itemsize))
    parts = part_sizes(name, size, num_elements, config.ragged)
    payload_bytes = sum(parts) * dtype.itemsize
    if shortage := rank.memory_shortage(2 * payload_bytes if name != "all_to_all" else 3 * payload_bytes):
        return [Case(skip=shortage)]
    collective = Collective(name, parts, rank.index, size, dtype, rank.device, config.reduce_op, config.ragged)
    try:
        operation = collective.operation()
    except Unavailable as error:
        return [Case(unavailable=str(error))]
    step = partial(asynchronously if config.async_op else synchronously, operation)
    alone = Case(
        step=step,
        labels={"timing": LATENCY},
        verify=Check(collective, operation, step, rank.seed),
        work=Work(payload_bytes=work_of(name, payload_bytes, size).payload_bytes),
        regions=(ISSUE, WAIT) if config.async_op else (),
        ranks=2 if name == "send_recv" else None,
        estimator=LAST_ARRIVAL if rank.device.type == "cpu" else SLOWEST_RANK,
    )
    in_a_row = replace(
        alone,
        labels={"timing": BACK_TO_BACK},
        work=work_of(name, payload_bytes, size),
        fill_seconds=SHORT_S if config.measure.mode == "per_iteration" else 0.0,
        estimator=SLOWEST_RANK,
    )
    if config.measure.mode == "loop":
        return [in_a_row]
    return [alone, in_a_row] if is_short(step, rank) else [in_a_row]


def is_short(step: Callable[[], None], rank: Rank) -> bool:
    """Whether a call takes less than SHORT_S on the slowest rank; of a long one, few are made to find out."""
    [seconds] = rank.seconds_of(step, turns=1)
    if max(seconds) < 5 * SHORT_S:
        [seconds] = rank.seconds_of(step)
    return max(seconds) < SHORT_S


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
    """Puts a turn's inputs into the buffers; those that are timed are left as they are by any number of calls."""
    for held in operation.gives:
        values = collective.inputs(held, turn, seed)
        verification.tile(held.buffer, collective.repeatable(values) if turn == TIMED else values)


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

"""A collective as a case: its buffers are filled, it is called, waited for and checked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import torch

from benchkit.api import verification
from benchkit.api.capture import CapturableStep
from benchkit.api.case import Case, Rank, Work
from benchkit.api.regions import WAIT, region
from benchkit.api.torch_internals import default_store
from benchkit.errors import InvalidResult, Unavailable
from benchkit.statistics.estimators import BACK_TO_BACK, LAST_ARRIVAL, LATENCY, SLOWEST_RANK
from benchkit.suites.collective.call import ExpectedSlice, Operation
from benchkit.suites.collective.config import CollectiveConfig
from benchkit.suites.collective.names import ALL_TO_ALL, BARRIER, SEND_RECV, TIMING
from benchkit.suites.collective.operations import Collective
from benchkit.suites.collective.sizes import bus_factor, part_sizes

ISSUE = "issue_on_host"
"""Region of an asynchronous call until it returns, by the host's clock even on a GPU."""
LATE_S = 0.02
"""How long one rank keeps the others waiting when a barrier is checked."""
POISON = -77
SHORT_S = 0.01
"""Calls shorter than this are timed alone and back to back; longer ones take as long either way."""
Step = Callable[[], object]
TIMED = -1
"""The turn whose inputs are timed; checks draw others."""


def cases_of(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """Returns the cases of a job, or one that says why it cannot run here."""
    name = config.collective
    dtype = getattr(torch, config.dtype)
    num_elements = max(1, round(float(config.data_size) * 2**20 / dtype.itemsize))
    parts = part_sizes(name, rank.world_size, num_elements, config.ragged)
    payload_bytes = sum(parts) * dtype.itemsize
    num_buffers = 3 if name == ALL_TO_ALL else 2
    if shortage := rank.memory_shortage(num_buffers * payload_bytes):
        return [Case(skip=shortage)]
    size, op = rank.world_size, config.reduce_op
    collective = Collective(name, parts, rank.index, size, dtype, rank.device, op, config.ragged)
    try:
        operation = collective.operation()
    except Unavailable as error:
        return [Case(unavailable=str(error))]
    start = partial(asynchronously if config.async_op else synchronously, operation)
    step = CapturableStep(start, over="default")
    check = Check(collective, operation, step, rank.seed)
    return timed_cases(config, rank, payload_bytes, step, check)


def timed_cases(
    config: CollectiveConfig, rank: Rank, payload_bytes: int, step: Step, check: "Check"
) -> list[Case]:
    """Returns the case of calls back to back, and first the latency of one call if it is short."""
    name = config.collective
    work = work_of(name, payload_bytes, rank.world_size)
    alone = Case(
        step=step,
        labels={TIMING: LATENCY},
        verify=check,
        work=Work(payload_bytes=work.payload_bytes),
        regions=(ISSUE, WAIT) if config.async_op else (),
        ranks=2 if name == SEND_RECV else None,
        estimator=LAST_ARRIVAL if rank.device.type == "cpu" else SLOWEST_RANK,
    )
    in_a_row = replace(
        alone,
        labels={TIMING: BACK_TO_BACK},
        work=work,
        fill_seconds=0.0 if config.measure.mode == "loop" else SHORT_S,
        estimator=SLOWEST_RANK,
    )
    if config.measure.mode == "loop" or not is_short(step, rank):
        return [in_a_row]
    return [alone, in_a_row]


def is_short(step: Step, rank: Rank) -> bool:
    """Whether a call takes less than SHORT_S on the slowest rank.

    One turn is enough to recognize a long call.
    """
    [seconds] = rank.seconds_of(step, turns=1)
    if max(seconds) < 5 * SHORT_S:
        [seconds] = rank.seconds_of(step)
    return max(seconds) < SHORT_S


def synchronously(operation: Operation) -> None:
    operation.start(False)


def asynchronously(operation: Operation) -> None:
    """Times the return of a call and the wait for its end as separate regions."""
    with region(ISSUE):
        work = operation.start(True)
    if work is not None:
        with region(WAIT):
            work.wait()


def work_of(name: str, payload_bytes: int, world_size: int) -> Work:
    """Returns the payload S of nccl-tests' table per call, in both directions for send_recv."""
    if name == BARRIER:
        return Work()
    directions = 2 if name == SEND_RECV else 1
    return Work(payload_bytes * directions, bus_factor=bus_factor(name, world_size))


def fill(collective: Collective, operation: Operation, turn: int, seed: int) -> None:
    """Writes a turn's inputs into the buffers; timed inputs keep their size over any calls."""
    for held in operation.inputs:
        values = collective.values_of(held, turn, seed)
        if turn == TIMED:
            values = collective.repeatable(values)
        verification.tile(held.buffer, values)


@dataclass
class Check:
    """Checks every element of every buffer that the call must fill, with new inputs each time."""

    collective: Collective
    operation: Operation
    step: Step
    seed: int
    turns: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        fill(self.collective, self.operation, TIMED, self.seed)

    def __call__(self) -> None:
        turn = next(self.turns)
        if self.collective.name == BARRIER:
            return self.nobody_leaves_early(turn)
        for buffer in self.operation.poisoned:
            buffer.fill_(float("nan") if buffer.is_floating_point() else POISON)
        fill(self.collective, self.operation, turn, self.seed)
        try:
            self.step()
            for held in self.operation.outputs:
                self.require(held, turn)
        finally:
            fill(self.collective, self.operation, TIMED, self.seed)
        return None

    def require(self, held: ExpectedSlice, turn: int) -> None:
        """Raises InvalidResult where a slice of a buffer differs from its expected values."""
        collective = self.collective
        source, atol = f"rank {held.rank}", 0.0
        if held.rank is None:
            source = "all ranks"
            atol = verification.tolerance(collective.world_size, collective.dtype, collective.op)
        expected = collective.values_of(held, turn, self.seed)
        try:
            verification.require_tiled(held.buffer, expected, atol)
        except InvalidResult as error:
            raise InvalidResult(f"part {held.part} of {source}: {error}") from None

    def nobody_leaves_early(self, turn: int) -> None:
        """Raises InvalidResult where this rank leaves the barrier before all ranks entered it.

        All ranks count themselves in before the barrier. The last rank waits until the others are
        in and then for LATE_S more, which is the time that the others have to leave a barrier that
        does not hold them. Earlier points in the same processes have counted every rank in, too.
        """
        store = default_store()
        rank, size = self.collective.rank, self.collective.world_size
        entry = f"barrier/{turn}"
        before = store.add(entry, 0) // size * size
        if rank == size - 1:
            while store.add(entry, 0) - before < size - 1:
                time.sleep(1e-3)
            time.sleep(LATE_S)
        store.add(entry, 1)
        self.step()
        if (entered := store.add(entry, 0) - before) < size:
            raise InvalidResult(f"rank {rank} left after {entered} of {size} ranks had entered")

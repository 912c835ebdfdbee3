"""A collective as cases: which sizes run here, how calls are timed and checked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, takewhile

import torch
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import ONE_CALL, Call, CapturableStep, Case, Rank, Work
from benchkit.api.keys import COLD, LOOP
from benchkit.api.memory import wait_for_device
from benchkit.api.regions import WAIT, region
from benchkit.api.torch_internals import default_store
from benchkit.errors import InvalidResult, Unavailable
from benchkit.statistics import BACK_TO_BACK, LAST_ARRIVAL, LATENCY, SLOWEST_RANK
from benchkit.suites.collective.operations import Collective, ExpectedSlice, Operation
from benchkit.suites.collective.suite import (
    BARRIER,
    REDUCTIONS,
    SEND_RECV,
    SHORT_S,
    TIMING,
    CollectiveConfig,
    bus_factor,
)

LATE_S = 0.02
"""Seconds for which one rank keeps the others waiting when a barrier is checked."""
ONE_RANK = "one rank sends nothing: world_size=2, on one GPU with hardware=cuda_shared"
TIMED = -1


@dataclass
class CollectiveCheck:
    """Check every element of every buffer that the call must fill, with new inputs each time.

    `turns` numbers the checks of all operations that share buffers, so none finds what another
    left.
    """

    collective: Collective
    operation: Operation
    seed: int
    turns: Iterator[int]
    renewed: bool = False

    def renew(self) -> None:
        """Write the inputs that are timed; once, since they keep their size over any calls."""
        if not self.renewed:
            self.fill(TIMED)
            self.renewed = True

    def __call__(self, call: Call) -> None:
        if self.collective.name == BARRIER:
            return self.nobody_leaves_early(call)
        turn = next(self.turns)

        def prepare() -> None:
            self.renewed = False
            for buffer in self.operation.poisoned:
                buffer.fill_(float("nan") if buffer.is_floating_point() else verification.POISON)
            self.fill(turn)

        call(prepare)
        for held in self.operation.outputs:
            self.require(held, turn)
        return None

    def fill(self, turn: int) -> None:
        for held in self.operation.inputs:
            values = values_of(held, self.collective, turn, self.seed)
            if turn == TIMED:
                values = repeatable(values, self.collective)
            verification.tile(held.buffer, values)

    def require(self, held: ExpectedSlice, turn: int) -> None:
        wait_for_device(held.buffer)
        collective = self.collective
        source, atol = f"rank {held.rank}", 0.0
        if held.rank is None:
            source = "all ranks"
            shape = collective.world_size, collective.dtype, collective.op, len(held.buffer)
            atol = verification.tolerance(*shape)
        expected = values_of(held, collective, turn, self.seed)
        try:
            verification.require_tiled(held.buffer, expected, atol)
        except InvalidResult as error:
            raise InvalidResult(f"part {held.part} of {source}: {error}") from None

    def nobody_leaves_early(self, call: Call) -> None:
        """Raise InvalidResult where this rank leaves the barrier before all ranks entered it.

        All ranks count themselves in before the barrier. The last rank waits until the others are
        in, and then for LATE_S, in which they could leave a broken barrier. Earlier points in the
        same processes have counted every rank in, too.
        """
        store = default_store()
        rank, size = self.collective.rank, self.collective.world_size
        entry, before = "", 0

        def enter() -> None:
            nonlocal entry, before
            entry = f"barrier/{next(self.turns)}"
            before = store.add(entry, 0) // size * size
            if rank == size - 1:
                while store.add(entry, 0) - before < size - 1:
                    time.sleep(1e-3)
                time.sleep(LATE_S)
            store.add(entry, 1)

        call(enter)
        if (entered := store.add(entry, 0) - before) < size:
            raise InvalidResult(f"rank {rank} left after {entered} of {size} ranks had entered")


def values_of(held: ExpectedSlice, collective: Collective, turn: int, seed: int) -> Tensor:
    draw: Callable[..., Tensor] = verification.expected_reduction
    if held.rank is not None:
        draw = partial(verification.pattern, rank=held.rank)
    values = draw(
        seed=seed,
        turn=turn * collective.world_size + held.part,
        world_size=collective.world_size,
        dtype=collective.dtype,
        op=drawn_op(collective),
        length=len(held.buffer),
    )
    return values.to(collective.device, collective.dtype)


def repeatable(values: Tensor, collective: Collective) -> Tensor:
    """Return inputs that keep their size when a call reduces its own results repeatedly.

    Sums and averages of zeros and products of signs keep it; minima and maxima keep it for any
    inputs. An average of others shrinks in half precision where ranks are many. So inputs are not
    renewed between timed calls, which would disturb them.
    """
    op = drawn_op(collective)
    if op in ("sum", "avg"):
        return torch.zeros_like(values)
    return values.sign() if op == "product" else values


def drawn_op(collective: Collective) -> str:
    return collective.op if collective.name in REDUCTIONS else verification.PLAIN


ISSUE = "issue_on_host"
"""Region of an asynchronous call until it returns, by the host's clock even on a GPU."""


@dataclass(frozen=True)
class Shared:
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    turns: Iterator[int] = field(default_factory=count)


def cases_of(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """Return the cases of every size, in the order given.

    All sizes share the buffers of the largest one and use them from the first element on, as in
    nccl-tests and OSU. So sizes differ only in their length: pages, alignment and what a network
    card has mapped are the same. A job takes the memory of its largest size alone, and a size finds
    as much of its data in the caches as it does alone.
    """
    sizes = config.sizes_mib
    shared = Shared()
    cases = {size: case_of(config, rank, size, shared) for size in sorted(sizes, reverse=True)}
    if len(sizes) > 1:
        for size, case in cases.items():
            cases[size] = replace(case, labels={"data_size": size, **case.labels})
    if config.measure.mode == COLD:
        return [latency_of(cases[size], rank) for size in sizes]
    short = set(short_cases(config, rank, list(cases.values())))
    found = []
    for case in (cases[size] for size in sizes):
        if case in short:
            found.append(latency_of(case, rank))
        found.append(case)
    return found


def case_of(config: CollectiveConfig, rank: Rank, size: float, shared: Shared) -> Case:
    name = config.collective
    if rank.world_size == 1:
        return Case(skip=ONE_RANK)
    dtype = getattr(torch, config.dtype)
    parts = config.parts(size, rank.world_size)
    payload_bytes = sum(parts) * dtype.itemsize
    if shortage := rank.memory_shortage(config.buffer_bytes(size, rank.world_size)):
        return Case(skip=shortage)
    collective = Collective(
        name, parts, rank.index, rank.world_size, dtype, rank.device, config.reduce_op,
        config.ragged, shared.buffers,
    )  # fmt: skip
    try:
        operation = collective.operation()
    except Unavailable as error:
        return Case(unavailable=str(error))
    start = partial(asynchronously if config.async_op else synchronously, operation)
    step = CapturableStep(start, over="default")
    check = CollectiveCheck(collective, operation, rank.seed, shared.turns)
    return Case(
        step=step,
        labels={TIMING: BACK_TO_BACK},
        reset=check.renew,
        verify=check,
        work=work_of(name, payload_bytes, rank.world_size),
        regions=(ISSUE, WAIT) if config.async_op else (),
        ranks=2 if name == SEND_RECV else None,
        calls=config.calls(),
        unchecked=unshown_ranks(collective),
    )


def unshown_ranks(collective: Collective) -> str:
    """Return that a message is too short to show each rank's part of a reduction, or ""."""
    length = min(collective.parts)
    shape = collective.world_size, collective.dtype, collective.op, length
    if collective.name not in REDUCTIONS or verification.witnesses(*shape):
        return ""
    shown = length * verification.window(*shape)
    return (
        f"whether a rank is missing: so short a message shows {shown} of "
        f"{collective.world_size} ranks, others in each check"
    )


def latency_of(in_a_row: Case, rank: Rank) -> Case:
    return replace(
        in_a_row,
        labels={**in_a_row.labels, TIMING: LATENCY},
        work=Work(payload_bytes=in_a_row.work.payload_bytes),
        calls=ONE_CALL,
        estimator=LAST_ARRIVAL if rank.device.type == "cpu" else SLOWEST_RANK,
    )


def short_cases(config: CollectiveConfig, rank: Rank, descending: list[Case]) -> Iterator[Case]:
    """Yield the cases of short calls; beyond the first long size all count as long."""
    ready = [case for case in reversed(descending) if not (case.skip or case.unavailable)]
    if config.measure.mode != LOOP:
        yield from takewhile(lambda case: is_short(case, rank), ready)


def is_short(case: Case, rank: Rank) -> bool:
    """Time one turn, which is enough for a call that is far from SHORT_S; else several."""
    case.reset()
    [seconds] = rank.seconds_of(case.step, turns=1)
    if SHORT_S / 5 < max(seconds) < 5 * SHORT_S:
        [seconds] = rank.seconds_of(case.step)
    return max(seconds) < SHORT_S


def synchronously(operation: Operation) -> None:
    operation.start(False)


def asynchronously(operation: Operation) -> None:
    with region(ISSUE):
        work = operation.start(True)
    if work is not None:
        with region(WAIT):
            work.wait()


def work_of(name: str, payload_bytes: int, world_size: int) -> Work:
    """Return the payload S of nccl-tests' table, in both directions for send_recv."""
    if name == BARRIER:
        return Work()
    directions = 2 if name == SEND_RECV else 1
    return Work(payload_bytes * directions, bus_factor=bus_factor(name, world_size))

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

    `turns` numbers the checks of all operations that share buffers, so that none accepts values of
    another.
    """

    collective: Collective
    operation: Operation
    seed: int
    turns: Iterator[int]
    renewed: bool = False

    def renew(self) -> None:
        """Write the inputs that are timed; once, since calls keep their magnitude."""
        if not self.renewed:
            self.fill(TIMED)
            self.renewed = True

    def __call__(self, call: Call) -> None:
        if self.collective.name == BARRIER:
            return self.check_barrier(call)
        turn = next(self.turns)

        def prepare() -> None:
            self.renewed = False
            for buffer in self.operation.poisoned:
                buffer.fill_(float("nan") if buffer.is_floating_point() else verification.POISON)
            self.fill(turn)

        call(prepare)
        for output in self.operation.outputs:
            self.require(output, turn)
        return None

    def fill(self, turn: int) -> None:
        for item in self.operation.inputs:
            values = values_of(item, self.collective, turn, self.seed)
            if turn == TIMED:
                values = repeatable(values, self.collective)
            verification.tile(item.buffer, values)

    def require(self, item: ExpectedSlice, turn: int) -> None:
        wait_for_device(item.buffer)
        collective = self.collective
        source, atol = f"rank {item.rank}", 0.0
        if item.rank is None:
            source = "all ranks"
            shape = collective.world_size, collective.dtype, collective.op, len(item.buffer)
            atol = verification.tolerance(*shape)
        expected = values_of(item, collective, turn, self.seed)
        try:
            verification.require_tiled(item.buffer, expected, atol)
        except InvalidResult as error:
            raise InvalidResult(f"part {item.part} of {source}: {error}") from None

    def check_barrier(self, call: Call) -> None:
        """Raise InvalidResult if this rank leaves the barrier before all ranks have entered it.

        Each rank increments a counter before the barrier. The last rank enters LATE_S after the
        others, which would leave a broken barrier in the meantime. Earlier points in the same
        processes have incremented the counter, too.
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


def values_of(item: ExpectedSlice, collective: Collective, turn: int, seed: int) -> Tensor:
    draw: Callable[..., Tensor] = verification.expected_reduction
    if item.rank is not None:
        draw = partial(verification.pattern, rank=item.rank)
    values = draw(
        seed=seed,
        turn=turn * collective.world_size + item.part,
        world_size=collective.world_size,
        dtype=collective.dtype,
        op=drawn_op(collective),
        length=len(item.buffer),
    )
    return values.to(collective.device, collective.dtype)


def repeatable(values: Tensor, collective: Collective) -> Tensor:
    """Return inputs that keep their magnitude when a call reduces its own results repeatedly.

    Sums and averages of zeros and products of signs keep it; minima and maxima keep it for any
    inputs. An average of others shrinks in half precision on many ranks. Therefore inputs are not
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
class SharedBuffers:
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    turns: Iterator[int] = field(default_factory=count)


def cases_of(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """Return the cases of every size, in the order given.

    All sizes share the buffers of the largest one and use them from the first element on, as in
    nccl-tests and OSU. Sizes differ only in their length: pages, alignment and what a network
    card has mapped are the same. A job needs only the memory of its largest size, and as much
    of a size's data is in the caches as in a job of its own.
    """
    sizes = config.sizes_mib
    shared = SharedBuffers()
    cases = {size: case_of(config, rank, size, shared) for size in sorted(sizes, reverse=True)}
    if len(sizes) > 1:
        for size, case in cases.items():
            cases[size] = replace(case, labels={"data_size": size, **case.labels})
    if config.measure.mode == COLD:
        return [latency_of(cases[size], rank) for size in sizes]
    short = set(short_cases(config, rank, list(cases.values())))
    ordered = []
    for case in (cases[size] for size in sizes):
        if case in short:
            ordered.append(latency_of(case, rank))
        ordered.append(case)
    return ordered


def case_of(config: CollectiveConfig, rank: Rank, size: float, shared: SharedBuffers) -> Case:
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
    start = partial(call_async if config.async_op else call_blocking, operation)
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
    """Return a remark if a message is too short to show each rank's part of a reduction, or ""."""
    length = min(collective.parts)
    shape = collective.world_size, collective.dtype, collective.op, length
    if collective.name not in REDUCTIONS or verification.witnesses(*shape):
        return ""
    shown = length * verification.window(*shape)
    return (
        f"whether a rank is missing: so short a message shows {shown} of "
        f"{collective.world_size} ranks, others in each check"
    )


def latency_of(back_to_back: Case, rank: Rank) -> Case:
    return replace(
        back_to_back,
        labels={**back_to_back.labels, TIMING: LATENCY},
        work=Work(payload_bytes=back_to_back.work.payload_bytes),
        calls=ONE_CALL,
        estimator=LAST_ARRIVAL if rank.device.type == "cpu" else SLOWEST_RANK,
    )


def short_cases(config: CollectiveConfig, rank: Rank, descending: list[Case]) -> Iterator[Case]:
    """Yield the cases of short calls; sizes above the first long one count as long."""
    ready = [case for case in reversed(descending) if not (case.skip or case.unavailable)]
    if config.measure.mode != LOOP:
        yield from takewhile(lambda case: is_short(case, rank), ready)


def is_short(case: Case, rank: Rank) -> bool:
    """Time one call, which suffices if it is far from SHORT_S; otherwise several."""
    case.reset()
    [seconds] = rank.seconds_of(case.step, turns=1)
    if SHORT_S / 5 < max(seconds) < 5 * SHORT_S:
        [seconds] = rank.seconds_of(case.step)
    return max(seconds) < SHORT_S


def call_blocking(operation: Operation) -> None:
    operation.start(False)


def call_async(operation: Operation) -> None:
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

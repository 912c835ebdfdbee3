"""A collective as cases: which sizes run here, and how calls of each are timed."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, takewhile

import torch

from benchkit.api.capture import CapturableStep
from benchkit.api.case import Case, Rank, Work
from benchkit.api.groups import COLD
from benchkit.api.keys import as_list
from benchkit.api.regions import WAIT, region
from benchkit.errors import Unavailable
from benchkit.statistics.estimators import BACK_TO_BACK, LAST_ARRIVAL, LATENCY, SLOWEST_RANK
from benchkit.suites.collective.call import Operation
from benchkit.suites.collective.check import Check
from benchkit.suites.collective.config import CollectiveConfig
from benchkit.suites.collective.names import BARRIER, SEND_RECV, TIMING
from benchkit.suites.collective.operations import Collective
from benchkit.suites.collective.sizes import bus_factor

ISSUE = "issue_on_host"
"""Region of an asynchronous call until it returns, by the host's clock even on a GPU."""
SHORT_S = 0.01
"""Calls shorter than this are timed alone and back to back; longer ones take as long either way."""


@dataclass(frozen=True)
class Shared:
    """What the operations of a job share.

    Attributes:
        buffers: by role, see `Collective.buffer`.
        turns: numbers the checks.
    """

    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    turns: Iterator[int] = field(default_factory=count)


def cases_of(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """Returns the cases of every size, in the order given; those that cannot run here say why.

    All sizes share the buffers of the largest one and use them from the first element on, as in
    nccl-tests and OSU. Thus sizes differ in nothing but their length: they are on the same pages,
    at the same alignment, and a network card has mapped the same memory for them. A job takes the
    memory, and the caches, that its largest size takes alone; separate buffers would take those of
    all sizes together, and a size would find less of its data in the caches than it does alone.
    """
    sizes = as_list(config.data_size)
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
    """Returns the case of calls back to back of one size in MiB, or why there is none."""
    name = config.collective
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
    check = Check(collective, operation, rank.seed, shared.turns)
    return Case(
        step=step,
        labels={TIMING: BACK_TO_BACK},
        reset=check.renew,
        verify=check,
        work=work_of(name, payload_bytes, rank.world_size),
        regions=(ISSUE, WAIT) if config.async_op else (),
        ranks=2 if name == SEND_RECV else None,
        fill_seconds=0.0 if config.measure.mode == "loop" else SHORT_S,
    )


def latency_of(in_a_row: Case, rank: Rank) -> Case:
    """Returns the case of single calls, of which one case has calls back to back."""
    return replace(
        in_a_row,
        labels={**in_a_row.labels, TIMING: LATENCY},
        work=Work(payload_bytes=in_a_row.work.payload_bytes),
        fill_seconds=0.0,
        estimator=LAST_ARRIVAL if rank.device.type == "cpu" else SLOWEST_RANK,
    )


def short_cases(config: CollectiveConfig, rank: Rank, descending: list[Case]) -> Iterator[Case]:
    """Yields the cases of short calls, whose latency is timed, too.

    Beyond the first size whose calls are long, all are taken for long without a look.
    """
    ready = [case for case in reversed(descending) if not (case.skip or case.unavailable)]
    if config.measure.mode != "loop":
        yield from takewhile(lambda case: is_short(case, rank), ready)


def is_short(case: Case, rank: Rank) -> bool:
    """Whether a call takes less than SHORT_S on the slowest rank.

    One turn is enough for a call that is far from that.
    """
    case.reset()
    [seconds] = rank.seconds_of(case.step, turns=1)
    if SHORT_S / 5 < max(seconds) < 5 * SHORT_S:
        [seconds] = rank.seconds_of(case.step)
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

"""Checks a collective call: what its buffers hold before it, and what they must hold after it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchkit.api import verification
from benchkit.api.case import Call
from benchkit.api.device_wait import wait_for_device
from benchkit.api.torch_internals import default_store
from benchkit.errors import InvalidResult
from benchkit.suites.collective.call import ExpectedSlice, Operation
from benchkit.suites.collective.names import BARRIER, REDUCTIONS
from benchkit.suites.collective.operations import Collective

LATE_S = 0.02
"""How long one rank keeps the others waiting when a barrier is checked."""
PLAIN = "max"
"""Reduction whose inputs every rank draws in full, for collectives that reduce nothing."""
POISON = -77
TIMED = -1
"""The turn whose inputs are timed; checks draw others."""


@dataclass
class Check:
    """Checks every element of every buffer that the call must fill, with new inputs each time.

    Attributes:
        collective: that is called.
        operation: its call and its buffers.
        seed: of the inputs.
        turns: numbers the checks. Those of operations that share buffers are numbered together, so
            that none finds what another one left there.
        renewed: whether the buffers hold the inputs that are timed.
    """

    collective: Collective
    operation: Operation
    seed: int
    turns: Iterator[int]
    renewed: bool = False

    def renew(self) -> None:
        """Writes the inputs that are timed; once, since they keep their size over any calls.

        Here and not at the end of a check: after the last check nothing is timed.
        """
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
                buffer.fill_(float("nan") if buffer.is_floating_point() else POISON)
            self.fill(turn)

        call(prepare)
        for held in self.operation.outputs:
            self.require(held, turn)
        return None

    def fill(self, turn: int) -> None:
        """Writes a turn's inputs into the buffers."""
        for held in self.operation.inputs:
            values = values_of(held, self.collective, turn, self.seed)
            if turn == TIMED:
                values = repeatable(values, self.collective)
            verification.tile(held.buffer, values)

    def require(self, held: ExpectedSlice, turn: int) -> None:
        """Raises InvalidResult where a slice of a buffer differs from its expected values."""
        wait_for_device(held.buffer)
        collective = self.collective
        source, atol = f"rank {held.rank}", 0.0
        if held.rank is None:
            source = "all ranks"
            atol = verification.tolerance(collective.world_size, collective.dtype, collective.op)
        expected = values_of(held, collective, turn, self.seed)
        try:
            verification.require_tiled(held.buffer, expected, atol)
        except InvalidResult as error:
            raise InvalidResult(f"part {held.part} of {source}: {error}") from None

    def nobody_leaves_early(self, call: Call) -> None:
        """Raises InvalidResult where this rank leaves the barrier before all ranks entered it.

        All ranks count themselves in before the barrier. The last rank waits until the others are
        in and then for LATE_S more, which is the time that the others have to leave a barrier that
        does not hold them. Earlier points in the same processes have counted every rank in, too.
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
    """Returns one period of the values that a slice holds in this turn."""
    drawn: dict[str, Any] = {
        "seed": seed,
        "turn": turn * collective.world_size + held.part,
        "world_size": collective.world_size,
        "dtype": collective.dtype,
        "op": drawn_op(collective),
        "length": len(held.buffer),
    }
    if held.rank is None:
        values = verification.reduced(**drawn)
    else:
        values = verification.pattern(rank=held.rank, **drawn)
    return values.to(collective.device, collective.dtype)


def repeatable(values: Tensor, collective: Collective) -> Tensor:
    """Returns inputs that keep their size when a call reduces its own results repeatedly.

    Sums of zeros and products of signs keep it; averages, minima and maxima keep it for any inputs.
    So no input must be renewed between timed calls, which would disturb them. Inputs of several
    sizes in one buffer keep it, too.
    """
    op = drawn_op(collective)
    if op == "sum":
        return torch.zeros_like(values)
    return values.sign() if op == "product" else values


def drawn_op(collective: Collective) -> str:
    """Returns the reduction for which inputs are drawn."""
    return collective.op if collective.name in REDUCTIONS else PLAIN

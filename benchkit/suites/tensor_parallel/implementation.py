"""One implementation of a product: its step, its work and how its output is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from benchkit.api.case import Call, Work, noop
from benchkit.suites.tensor_parallel.references import Options

Details = Mapping[str, Any]
Factors = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, int]]


def whole_factors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, int]:
    """Returns A and B themselves, whose product begins with row 0 of C."""
    return a, b, 0


@dataclass(frozen=True)
class Implementation:
    """One implementation, ready to run.

    Attributes:
        step: the timed call.
        work: what the call computes and communicates.
        output: returns the tensor that is checked, where `step` leaves it.
        factors: returns, for whole A and B, the two matrices whose product the output is, and the
            first of its rows in C.
        parts: the options of its bounds, computation and communication.
        details: what the record says of the implementation.
        verify: checks a turn by itself, instead of by `output` and `factors`; its call is prepared
            further, after scratch memory was poisoned.
        prepare: called after new operands were loaded.
    """

    step: Callable[[], object]
    work: Work
    output: Callable[[], Tensor] | None = None
    factors: Factors = whole_factors
    parts: tuple[Options, Options] | None = None
    details: Details = field(default_factory=dict)
    verify: Callable[[int, Call], None] | None = None
    prepare: Callable[[], object] = noop

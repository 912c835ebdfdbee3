"""A collective call on one rank: how it starts, and what its buffers hold before and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Work = Any
"""The handle of an asynchronous call of torch.distributed."""
Step = Callable[[], object]
"""Makes one call and returns when its result is there."""


@dataclass(frozen=True)
class ExpectedSlice:
    """The values that a slice of a buffer holds, as drawn for one part.

    Attributes:
        buffer: the slice.
        part: number of the part whose values it holds.
        rank: whose input it is; None for the reduction of all ranks' inputs.
    """

    buffer: Tensor
    part: int
    rank: int | None


@dataclass(frozen=True)
class Operation:
    """A call of this rank with its buffers.

    Attributes:
        start: starts the call on buffers that `inputs` filled; true makes it asynchronous. It
            returns a handle to wait for, or None.
        inputs: what the buffers must hold before the call.
        outputs: what the buffers must hold after the call.
        poisoned: buffers that the call overwrites, in which no earlier value may remain.
    """

    start: Callable[[bool], Work | None]
    inputs: Sequence[ExpectedSlice] = ()
    outputs: Sequence[ExpectedSlice] = ()
    poisoned: Sequence[Tensor] = ()


def started(call: Callable[..., Work | None]) -> Callable[[bool], Work | None]:
    """Returns a call of torch.distributed as a function of whether it is asynchronous."""
    return lambda asynchronous: call(async_op=asynchronous)

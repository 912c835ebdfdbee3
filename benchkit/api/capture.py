"""Steps that a CUDA graph can hold."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class CapturableStep:
    """A step whose place a CUDA graph can take, both in its timing and in its check.

    With `measure=graph` the harness replaces `call` by the replay of a graph. Thus the check of the
    case must call this step, write its inputs to the memory that they always have, and read the
    outputs from there.

    Attributes:
        call: what the step does.
        over: the backend that it communicates over, `default` for the job's; "" for none.
        refusal: why it was not captured; "" if `call` replays its graph, None if none was tried.
    """

    call: Callable[[], object]
    over: str = ""
    refusal: str | None = None

    def __call__(self) -> object:
        return self.call()

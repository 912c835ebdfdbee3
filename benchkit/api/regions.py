"""Named regions of a step: `with region("comm_wait"):`.

The harness chooses what a region does. While a case is timed, its regions are timed too. While it
is profiled, they are labels in the trace. At any other time they do nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

COMPUTE, WAIT = "compute_block", "comm_wait"  # regions that several suites have
FORWARD, BACKWARD = "forward", "backward"  # regions of a training step, which analysis reads
QUEUEING = "queueing_on_host"
"""The host queues the calls of a sample on a GPU; timed by the host's clock."""
Marker = Callable[[str], AbstractContextManager[object]]


def mark_nothing(name: str) -> AbstractContextManager[object]:
    return nullcontext()


_marker: list[Marker] = [mark_nothing]
"""The last decides. It is process-wide: a step marks regions deep inside its own calls."""


def region(name: str) -> AbstractContextManager[object]:
    """Mark a region of a step; only the regions that `Case.regions` names reach the record."""
    return _marker[-1](name)


@contextmanager
def use_marker(marker: Marker) -> Iterator[None]:
    """Let `marker` decide, within this context, what the regions of this process do."""
    _marker.append(marker)
    try:
        yield
    finally:
        _marker.pop()

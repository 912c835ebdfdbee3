"""Marks named regions of a step: `with region("comm_wait"):`.

The harness chooses what a region does. While a case is timed, its regions are timed too. While it
is profiled, they are labels in the trace. At any other time they do nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

COMPUTE, WAIT = "compute_block", "comm_wait"
"""Regions that several suites have."""
FORWARD, BACKWARD = "forward", "backward"
"""Regions of a training step, which analysis reads of any suite."""
QUEUEING = "queueing_on_host"
"""Region in which the host queues the calls of a sample on a GPU, by the host's clock."""
Marker = Callable[[str], AbstractContextManager[object]]


def unmarked(name: str) -> AbstractContextManager[object]:
    return nullcontext()


_marker: list[Marker] = [unmarked]
"""What regions do now, last; process-wide, since a step marks regions deep inside its own calls."""


def region(name: str) -> AbstractContextManager[object]:
    """Mark a region of a step; only the regions that `Case.regions` names reach the record."""
    return _marker[-1](name)


@contextmanager
def marked_by(marker: Marker) -> Iterator[None]:
    """Make `marker` decide, within this context, what the regions of this process do."""
    _marker.append(marker)
    try:
        yield
    finally:
        _marker.pop()

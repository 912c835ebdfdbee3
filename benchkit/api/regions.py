"""Named regions of a step: `with region("comm_wait"):`.

The harness chooses the effect of a region. While a case is timed, its regions are timed, too. While
it is profiled, they are labels in the trace. At any other time they have no effect.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

COMPUTE, WAIT = "compute_block", "comm_wait"  # regions that several suites have
FORWARD, BACKWARD = "forward", "backward"  # regions of a training step, which analysis reads
QUEUEING = "queueing_on_host"
"""Region in which the host queues the calls of a sample on a GPU; timed by the host's clock."""
Marker = Callable[[str], AbstractContextManager[object]]


def mark_nothing(name: str) -> AbstractContextManager[object]:
    return nullcontext()


_marker: list[Marker] = [mark_nothing]
"""Stack of markers; the last is in use. Process-wide: a step marks regions deep inside calls."""


def region(name: str) -> AbstractContextManager[object]:
    """Mark a region of a step; only regions named in `Case.regions` reach the record."""
    return _marker[-1](name)


@contextmanager
def use_marker(marker: Marker) -> Iterator[None]:
    """Use `marker` for the regions of this process in this context."""
    _marker.append(marker)
    try:
        yield
    finally:
        _marker.pop()

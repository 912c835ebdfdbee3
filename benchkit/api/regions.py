"""Named stretches of a step: `with region("comm_wait"):`. What that does is the harness's choice, not the suite's.

While a case is timed each region is, too; while it is profiled, it is a label in the trace; else it is nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

COMPUTE, WAIT = "compute_block", "comm_wait"
"""Regions that several suites have."""
Marker = Callable[[str], AbstractContextManager[object]]


def unmarked(name: str) -> AbstractContextManager[object]:
    """What a region is where nobody looks."""
    return nullcontext()


_marker: list[Marker] = [unmarked]


def region(name: str) -> AbstractContextManager[object]:
    """Marks a stretch of a step; a case names its regions in `Case.regions`, lest they be measured in vain."""
    return _marker[-1](name)


@contextmanager
def marked_by(marker: Marker) -> Iterator[None]:
    """Within, regions of this process are what `marker` makes of their names."""
    _marker.append(marker)
    try:
        yield
    finally:
        _marker.pop()

"""What times calls and their regions: the protocol of clocks, and the host's monotonic clock."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Clock(Protocol):
    """Times calls and the regions of calls.

    Attributes:
        name: how the calls are timed, for the record.
        own_regions: regions that time() adds to those that calls mark.
    """

    name: str
    own_regions: tuple[str, ...]

    def now(self) -> float:
        """Returns seconds on the monotonic clock that the starts of all ranks refer to."""
        ...

    def time(
        self, call: Callable[[], object], repeat: int, lead_s: float | None = 0.0
    ) -> tuple[float, float]:
        """Makes a call several times.

        Args:
            call: what to time.
            repeat: number of calls.
            lead_s: seconds for which a GPU is kept busy before, while the host queues the calls.
                None times them by the host, until the GPU has done what they queued. A CPU needs
                neither.

        Returns:
            now() before the first call and the duration of all calls together, in seconds.
        """
        ...

    def region(self, name: str) -> AbstractContextManager[object]:
        """Times a region of a call."""
        ...

    def take_regions(self) -> dict[str, float]:
        """Returns the seconds in each region since the last take_regions().

        It is called after time(), so all work is done.
        """
        ...

    def forget_regions(self) -> None:
        """Discards the regions since the last take_regions(), whose work may still go on."""
        ...


class HostClock:
    """Times calls that return when their work is done, by perf_counter (CLOCK_MONOTONIC on Linux).

    Args:
        shift: returns the seconds to add to a start on this host's clock, so that it is on the
            clock that the starts of all ranks refer to.
    """

    name = "perf_counter"
    own_regions: tuple[str, ...] = ()

    def __init__(self, shift: Callable[[float], float] = lambda start: 0.0) -> None:
        self._shift = shift
        self._regions_s: dict[str, float] = defaultdict(float)

    def now(self) -> float:
        on_this_host = time.perf_counter()
        return on_this_host + self._shift(on_this_host)

    def time(
        self, call: Callable[[], object], repeat: int, lead_s: float | None = 0.0
    ) -> tuple[float, float]:
        if repeat == 1:
            start = time.perf_counter()
            call()
            duration = time.perf_counter() - start
        else:
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            duration = time.perf_counter() - start
        return start + self._shift(start), duration

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._regions_s[name] += time.perf_counter() - start

    def take_regions(self) -> dict[str, float]:
        taken = dict(self._regions_s)
        self._regions_s.clear()
        return taken

    def forget_regions(self) -> None:
        self._regions_s.clear()

"""Times one call by the host's monotonic clock, or by events on the GPU's stream."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

ON_HOST = "_on_host"
"""Ending of the names of regions that the host's clock times, on a GPU too."""


class Clock(Protocol):
    """Times calls and the regions of calls.

    Attributes:
        name: how the calls are timed, for the record.
    """

    name: str

    def now(self) -> float:
        """Returns seconds on the monotonic clock that the starts of all ranks refer to."""
        ...

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        """Makes a call several times.

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


class HostClock:
    """Times calls that return when their work is done, by perf_counter (CLOCK_MONOTONIC on Linux).

    Args:
        shift: returns the seconds to add to a start on this host's clock, so that it is on the
            clock that the starts of all ranks refer to.
    """

    name = "perf_counter"

    def __init__(self, shift: Callable[[float], float] = lambda start: 0.0) -> None:
        self._shift = shift
        self._regions_s: dict[str, float] = defaultdict(float)

    def now(self) -> float:
        on_this_host = time.perf_counter()
        return on_this_host + self._shift(on_this_host)

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
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


class CudaClock:
    """Times calls by a pair of events on the current stream.

    A tiny collective on the measured group is queued before the first event. Thus all GPUs begin
    together, and the call is queued before they begin. Without the collective the event would fire
    on an idle stream, and the launch latency and the skew of the hosts would be counted.
    """

    name = "cuda_event"
    now = staticmethod(time.perf_counter)

    def __init__(self, cuda: Any, align: Callable[[], object]) -> None:
        """Creates the events.

        Args:
            cuda: torch.cuda, or what replaces it in a test.
            align: queues the tiny collective.
        """
        self._align = align
        self._event: Callable[[], Any] = lambda: cuda.Event(enable_timing=True)
        self._begin = self._event()
        self._end = self._event()
        self._synchronize = cuda.synchronize
        self._regions: list[tuple[str, Any, Any]] = []
        self._host = HostClock()

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        self._synchronize()  # what reset() queued must not be counted
        start = time.perf_counter()
        self._align()
        self._begin.record()
        for _ in range(repeat):
            call()
        self._end.record()
        self._synchronize()
        return start, self._begin.elapsed_time(self._end) / 1e3

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Times a region by events.

        Where its name ends with ON_HOST, the host's clock times what the host does in it.
        """
        if name.endswith(ON_HOST):
            with self._host.region(name):
                yield
            return
        begin = self._event()
        end = self._event()
        begin.record()
        try:
            yield
        finally:
            end.record()
            self._regions.append((name, begin, end))

    def take_regions(self) -> dict[str, float]:
        taken: dict[str, float] = defaultdict(float, self._host.take_regions())
        for name, begin, end in self._regions:
            taken[name] += begin.elapsed_time(end) / 1e3
        self._regions.clear()
        return dict(taken)

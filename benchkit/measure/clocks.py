"""How one call is timed: by the host's monotonic clock, or by events on the GPU's stream."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

ON_HOST = "_on_host"


class Clock(Protocol):
    """Times a call; `name` says in the record by what means."""

    name: str

    def now(self) -> float:
        """Seconds on the monotonic clock by which all ranks' starts are told."""
        ...

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        """Calls `repeat` times; returns now() before (s) and the duration of them all (s)."""
        ...

    def region(self, name: str) -> AbstractContextManager[object]:
        """Times a stretch of a call."""
        ...

    def take_regions(self) -> dict[str, float]:
        """Seconds in each region since this was last asked; after time(), hence with all work done."""
        ...


class HostClock:
    """perf_counter: CLOCK_MONOTONIC on Linux. For calls that return when their work is done.

    `shift` gives what to add to a start here (s) to have it on the clock by which all ranks' starts are told.
    """

    name = "perf_counter"

    def __init__(self, shift: Callable[[float], float] = lambda start: 0.0) -> None:
        self._shift = shift
        self._regions_s: dict[str, float] = defaultdict(float)

    def now(self) -> float:
        here = time.perf_counter()
        return here + self._shift(here)

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
    """A pair of events on the current stream.

    `align` is queued before the first event: a tiny collective on the measured group, so that all GPUs begin together
    and have the call queued before they begin. Without it the event would fire on an idle stream, and the launch
    latency and the hosts' skew would be counted.
    """

    name = "cuda_event"
    now = staticmethod(time.perf_counter)

    def __init__(self, cuda: Any, align: Callable[[], object]) -> None:
        """`cuda` is torch.cuda, or what stands in for it in a test."""
        self._align = align
        self._event: Callable[[], Any] = lambda: cuda.Event(enable_timing=True)
        self._begin, self._end = self._event(), self._event()
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
        """By events; where its name ends with ON_HOST, by the host's clock: what the host does there is meant."""
        if name.endswith(ON_HOST):
            with self._host.region(name):
                yield
            return
        begin, end = self._event(), self._event()
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

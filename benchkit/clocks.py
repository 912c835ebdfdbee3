"""How one call is timed: by the host's monotonic clock, or by events on the GPU's stream."""

import time
from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    """Times a call; `name` says in the record by what means."""

    name: str

    def now(self) -> float:
        """Seconds on the host's monotonic clock, shared by all processes of the host."""
        ...

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        """Calls `repeat` times; returns the host's time before (s) and the duration of them all (s)."""
        ...


class HostClock:
    """perf_counter: CLOCK_MONOTONIC on Linux. For calls that return when their work is done."""

    name = "perf_counter"
    now = staticmethod(time.perf_counter)

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        if repeat == 1:
            start = time.perf_counter()
            call()
            return start, time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        return start, time.perf_counter() - start


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
        self._begin = cuda.Event(enable_timing=True)
        self._end = cuda.Event(enable_timing=True)
        self._synchronize = cuda.synchronize

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

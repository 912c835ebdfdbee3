"""How one call is timed: by the host's monotonic clock, or by events on the GPU's stream."""

import time
from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    """Times a call; `name` says in the record by what means."""

    name: str

    def now(self) -> float:
        """Seconds on the monotonic clock by which all ranks' starts are told."""
        ...

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        """Calls `repeat` times; returns now() before (s) and the duration of them all (s)."""
        ...


class HostClock:
    """perf_counter: CLOCK_MONOTONIC on Linux. For calls that return when their work is done.

    `shift` gives what to add to a start here (s) to have it on the clock by which all ranks' starts are told.
    """

    name = "perf_counter"

    def __init__(self, shift: Callable[[float], float] = lambda start: 0.0) -> None:
        self._shift = shift

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

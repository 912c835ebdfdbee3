"""Time calls and their regions: by the host's monotonic clock, or by events of a GPU."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from benchkit.api.case import noop
from benchkit.api.regions import QUEUEING


class Clock(Protocol):
    """Times calls and their regions.

    Attributes:
        name: name of the clock in the record.
        own_regions: regions that time() adds to those marked by calls.
    """

    name: str
    own_regions: tuple[str, ...]

    def now(self) -> float:
        """Return seconds on the monotonic clock of the starts of all ranks."""
        ...

    def time(
        self, call: Callable[[], object], repeat: int, delay_s: float | None = 0.0
    ) -> tuple[float, float]:
        """Make a call several times; return now() before the first one and the seconds of all.

        A GPU is kept busy for `delay_s` seconds before, while the host queues the calls. With None
        the host times the calls until the GPU is done. CPUs ignore it.
        """
        ...

    def region(self, name: str) -> AbstractContextManager[object]: ...

    def take_regions(self) -> dict[str, float]:
        """Return the seconds in each region since the last call, after time() has returned."""
        ...

    def forget_regions(self) -> None:
        """Discard the regions since the last take_regions(), which may not be complete."""
        ...


class HostClock:
    """Times synchronous calls by perf_counter (CLOCK_MONOTONIC on Linux).

    Args:
        shift: returns the offset in seconds from this host's clock to that of the starts of all
            ranks.
    """

    name = "perf_counter"
    own_regions: tuple[str, ...] = ()

    def __init__(self, shift: Callable[[float], float] = lambda start: 0.0) -> None:
        self._shift = shift
        self._regions_s: dict[str, float] = defaultdict(float)

    def now(self) -> float:
        local = time.perf_counter()
        return local + self._shift(local)

    def time(
        self, call: Callable[[], object], repeat: int, delay_s: float | None = 0.0
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
        regions_s = dict(self._regions_s)
        self._regions_s.clear()
        return regions_s

    def forget_regions(self) -> None:
        self._regions_s.clear()


ON_HOST = "_on_host"  # ends the names of regions that the host's clock times
SPIN_CYCLES = 10_000_000
"""Cycles of a spin that measures the GPU's frequency: some milliseconds."""
SPINS = 5
"""Number of spins; the fastest counts, since the frequency rises under load."""


class CudaClock:
    """Times calls by a pair of events on the current stream.

    The GPU is kept busy before the first event (`delay_s`), until the host has queued the calls.
    Otherwise the event would fire on an idle stream, and the latency of launches would count. The
    hidden queueing time is the region QUEUEING. A tiny collective on the measured group makes all
    GPUs begin together. If the host's own work counts, the host times the calls until the GPU is
    done.
    """

    name = "cuda_event"
    own_regions: tuple[str, ...] = (QUEUEING,)
    now = staticmethod(time.perf_counter)

    def __init__(
        self,
        cuda: Any,
        align: Callable[[], object],
        spin: Callable[[int], object],
        align_blocks: bool,
        while_busy: Callable[[], object] = noop,
    ) -> None:
        """Create the events and measure the frequency of the GPU.

        Args:
            spin: keeps the stream busy for a number of cycles.
            align: queues the aligning collective.
            align_blocks: whether `align` blocks until the GPU is done, as gloo's does. Then the
                delay follows it, and else precedes it, so that GPUs begin together.
            while_busy: called while the GPU executes the queued calls; not part of a sample.
        """
        self._align = align
        self._align_blocks = align_blocks
        self._spin = spin
        self._while_busy = while_busy
        self._event: Callable[[], Any] = lambda: cuda.Event(enable_timing=True)
        self._begin = self._event()
        self._end = self._event()
        self._synchronize = cuda.synchronize
        self._nvtx = cuda.nvtx
        self._regions: list[tuple[str, Any, Any]] = []
        self._queueing_s = 0.0
        self._host = HostClock()
        self._cycles_per_s = max(self._frequency() for _ in range(SPINS))

    def _frequency(self) -> float:
        """Return the cycles per second of one spin."""
        self._begin.record()
        self._spin(SPIN_CYCLES)
        self._end.record()
        self._synchronize()
        return float(SPIN_CYCLES / self._begin.elapsed_time(self._end) * 1e3)

    def time(
        self, call: Callable[[], object], repeat: int, delay_s: float | None = 0.0
    ) -> tuple[float, float]:
        self._synchronize()  # work queued by reset() must not count
        if delay_s is None:
            return self._time_by_host(call, repeat)
        start = time.perf_counter()
        cycles = int(delay_s * self._cycles_per_s)
        if self._align_blocks:
            self._align()
        if cycles:
            self._spin(cycles)
        if not self._align_blocks:
            self._align()
        self._begin.record()
        queueing_from = time.perf_counter()
        for _ in range(repeat):
            call()
        queued = time.perf_counter()
        self._end.record()
        self._while_busy()
        self._synchronize()
        self._queueing_s = queued - queueing_from
        return start, self._begin.elapsed_time(self._end) / 1e3

    def _time_by_host(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
        self._align()
        self._synchronize()
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        self._synchronize()
        return start, time.perf_counter() - start

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Time a region by events, and name it in the traces of nsys.

        If its name ends with ON_HOST, it is timed by the host's clock.
        """
        self._nvtx.range_push(name)
        try:
            with self._host.region(name) if name.endswith(ON_HOST) else self._between_events(name):
                yield
        finally:
            self._nvtx.range_pop()

    @contextmanager
    def _between_events(self, name: str) -> Iterator[None]:
        begin = self._event()
        end = self._event()
        begin.record()
        try:
            yield
        finally:
            end.record()
            self._regions.append((name, begin, end))

    def take_regions(self) -> dict[str, float]:
        regions_s: dict[str, float] = defaultdict(float, self._host.take_regions())
        for name, begin, end in self._regions:
            regions_s[name] += begin.elapsed_time(end) / 1e3
        if self._queueing_s:
            regions_s[QUEUEING] = self._queueing_s
        self.forget_regions()
        return dict(regions_s)

    def forget_regions(self) -> None:
        self._regions.clear()
        self._host.forget_regions()
        self._queueing_s = 0.0

"""A world without processes and without time: virtual ranks whose clock moves only when a case says so."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

from benchkit.api.keys import MeasureConfig
from benchkit.measure.clocks import CudaClock


@dataclass
class FakeClock:
    """Durations are handed out one after another per call; time stands still otherwise."""

    durations: Callable[[], float]
    name: str = "fake"
    own_regions: tuple[str, ...] = ()
    seconds: float = 0.0
    repeats: list[int] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def time(self, call: Callable[[], object], repeat: int, delay_s: float = 0.0) -> tuple[float, float]:
        start = self.seconds
        self.repeats.append(repeat)
        for _ in range(repeat):
            call()
            self.seconds += self.durations()
        return start, self.seconds - start

    def region(self, name: str) -> AbstractContextManager[object]:
        return nullcontext()

    def take_regions(self) -> dict[str, float]:
        return {}

    def forget_regions(self) -> None:
        pass


def alone(values: list[float]) -> list[list[float]]:
    """The exchange of a world of one rank."""
    return [values]


def plan(**changes: object) -> MeasureConfig:
    """A measure configuration, fixed unless told otherwise."""
    settings: dict[str, object] = {
        "mode": "per_iteration",
        "calls_per_sample": 1,
        "warmup_iterations": 3,
        "max_warmup_seconds": 0.0,
        "target_rel_ci": None,
        "max_iterations": 100,
        "max_seconds": 1e9,
        "min_blocks": 10,
        "block_seconds": 1e9,
        "probe_seconds": 1.0,
        "cold_l2": False,
        "alone": "never",
    }
    return MeasureConfig(**(settings | changes))


def cycle(values: Sequence[float]) -> Callable[[], float]:
    """Hands out the values over and over."""
    position = iter(range(10**9))
    return lambda: values[next(position) % len(values)]


def noise(seed: int, low: float, high: float) -> Callable[[], float]:
    generator = random.Random(seed)
    return lambda: generator.uniform(low, high)


L2_BYTES = 1024
CYCLES_PER_MS = 1_000_000
"""Of the fake GPU's clock: 1 GHz."""


class FakeCuda:
    """torch.cuda as far as benchkit needs it: a stream that does what was queued when it is synchronised.

    `calls` names in order what was called; a range of nsys shows as "push NAME" and "pop".
    """

    def __init__(self):
        self.calls, self.stream_ms, self.done_ms = [], 0.0, 0.0
        self.nvtx = self.profiler = self

    def synchronize(self):
        self.calls.append("synchronize")
        self.done_ms = self.stream_ms

    def Event(self, enable_timing):
        assert enable_timing
        return FakeEvent(self)

    def kernel(self, milliseconds):
        self.queue("kernel", milliseconds)

    def spin(self, cycles):
        self.queue("spin", cycles / CYCLES_PER_MS)

    def queue(self, name, milliseconds):
        self.calls.append(name)
        self.stream_ms += milliseconds

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")

    def current_device(self):
        return 0

    def get_device_properties(self, device):
        return SimpleNamespace(L2_cache_size=L2_BYTES)

    def range_push(self, name):
        self.calls.append(f"push {name}")

    def range_pop(self):
        self.calls.append("pop")


class FakeStream:
    """A stream of a FakeGraphs, by name."""

    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def wait_stream(self, other):
        self.cuda.calls.append(f"{self.name} waits for {other.name}")


class FakeGraphs:
    """torch.cuda as far as capturing needs it: `queue` does its work at once, or when the graph is replayed."""

    def __init__(self):
        self.calls, self.captured, self.current = [], None, FakeStream(self, "main")

    def queue(self, work):
        if self.captured is None:
            work()
        else:
            self.captured.append(work)

    def current_stream(self):
        return self.current

    def Stream(self, device=None):
        return FakeStream(self, "side")

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        self.calls.append(f"on {stream.name}")
        try:
            yield
        finally:
            self.current = before

    def CUDAGraph(self):
        graph = SimpleNamespace(work=[])
        graph.replay = lambda: [work() for work in graph.work]
        return graph

    @contextmanager
    def graph(self, graph, stream, capture_error_mode):
        """Like torch's, raises another error at the end of a capture that failed, and stays on its stream."""
        assert capture_error_mode == "thread_local"
        before, self.captured, self.current = self.current, graph.work, stream
        self.calls.append("capture")
        try:
            yield
        except Exception:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture") from None
        finally:
            self.captured = None
        self.current = before


class FakeEvent:
    def __init__(self, cuda):
        self.cuda, self.at = cuda, None

    def record(self):
        self.cuda.calls.append("record")
        self.at = self.cuda.stream_ms

    def elapsed_time(self, end):
        if end.at > self.cuda.done_ms:
            raise RuntimeError("CUDA error: device not ready")
        return end.at - self.at


def cuda_clock(cuda, align=lambda: None, align_blocks=False, while_busy=lambda: None):
    """A CudaClock on a fake GPU, after the spins by which it learns the frequency."""
    clock = CudaClock(cuda, align, cuda.spin, align_blocks, while_busy)
    cuda.calls.clear()
    return clock


def verify(running):
    """Verifies a case, or what has its step and its check, as before timing."""

    def call(prepare=lambda: None):
        prepare()
        return running.step()

    running.verify(call)

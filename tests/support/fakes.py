"""A world without processes and without time: virtual ranks whose clock moves only when a case says so."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from benchkit.api.schema import MeasureConfig


@dataclass
class FakeClock:
    """Durations are handed out one after another per call; time stands still otherwise."""

    durations: Callable[[], float]
    name: str = "fake"
    seconds: float = 0.0
    repeats: list[int] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def time(self, call: Callable[[], object], repeat: int) -> tuple[float, float]:
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


class FakeCuda:
    """torch.cuda as far as a clock needs it: a stream that runs what was queued when it is synchronised."""

    def __init__(self):
        self.calls, self.stream_ms = [], 0.0

    def synchronize(self):
        self.calls.append("synchronize")

    def Event(self, enable_timing):
        assert enable_timing
        return FakeEvent(self)

    def kernel(self, milliseconds):
        self.calls.append("kernel")
        self.stream_ms += milliseconds


class FakeEvent:
    def __init__(self, cuda):
        self.cuda, self.at = cuda, None

    def record(self):
        self.cuda.calls.append("record")
        self.at = self.cuda.stream_ms

    def elapsed_time(self, end):
        return end.at - self.at

"""Measures the noise of the operating system by a fixed work quantum on each core.

The same amount of work is timed over and over (FWQ of the ASC Sequoia benchmarks): what takes
longer than undisturbed work was taken away by other processes, interrupts, or the hypervisor.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchkit.measure.disturbance import COUNTERS, read_counters
from launch.topology import usable_cores

QUANTUM_S = 1e-4
UNDISTURBED = 0.1
"""Quantile of the times that counts as undisturbed; the minimum may be of a higher frequency."""
LONGER = 1.1
"""A quantum that takes longer than this multiple of an undisturbed one was disturbed."""
KERNEL_TELLS = ("steal_s", "throttled_s", "pressure_s")
"""Counters that are reported beside."""


@dataclass(frozen=True)
class CoreNoise:
    """What a core lost.

    Attributes:
        core: its number.
        longer_share: share of quanta that were disturbed.
        lost_share: share of the time that was lost, beyond undisturbed quanta.
        longest_s: the longest quantum, in seconds.
    """

    core: int
    longer_share: float
    lost_share: float
    longest_s: float


@dataclass(frozen=True)
class Noise:
    """What all cores lost, and by KERNEL_TELLS the seconds that the kernel counted meanwhile."""

    cores: list[CoreNoise]
    seconds: float
    counted_s: dict[str, float] = field(default_factory=dict)


def work(count: int) -> None:
    """Does a fixed amount of work."""
    for _ in range(count):
        pass


def calibrated(now: Callable[[], float] = time.perf_counter) -> int:
    """Returns the count for which `work` takes about QUANTUM_S."""
    count = 1000
    fastest = min(timed(count, now) for _ in range(20))
    return max(1, round(count * QUANTUM_S / fastest)) if fastest > 0 else count


def timed(count: int, now: Callable[[], float]) -> float:
    """Returns the seconds that `work` took."""
    start = now()
    work(count)
    return now() - start


def measure_cores(
    seconds: float,
    now: Callable[[], float] = time.perf_counter,
    bind: Callable[[set[int]], None] = lambda cores: os.sched_setaffinity(0, cores),
) -> Noise:
    """Times quanta on each usable core in turn.

    Args:
        seconds: for all cores together.
        now: returns seconds on the clock.
        bind: restricts this process to cores.
    """
    cores = usable_cores()
    before, began = read_counters(), now()
    found = []
    try:
        for core in cores:
            bind({core})
            count, times, until = calibrated(now), list[float](), now() + seconds / len(cores)
            while not times or now() < until:
                times.append(timed(count, now))
            found.append(noise_of(core, times))
    finally:
        bind(set(cores))
    growth = dict(zip(COUNTERS, np.subtract(read_counters(), before).tolist(), strict=True))
    return Noise(found, now() - began, {name: growth[name] for name in KERNEL_TELLS})


def noise_of(core: int, times: Sequence[float]) -> CoreNoise:
    """Returns what quanta of these seconds tell of a core."""
    quanta = np.asarray(times, dtype=np.float64)
    undisturbed = np.quantile(quanta, UNDISTURBED)
    lost = np.maximum(quanta - undisturbed, 0).sum()
    return CoreNoise(
        core=core,
        longer_share=float((quanta > LONGER * undisturbed).mean()),
        lost_share=float(lost / quanta.sum()),
        longest_s=float(quanta.max()),
    )

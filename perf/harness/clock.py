"""Tells how finely the host's clock resolves, what reading it costs, and whether ranks share it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from benchkit.statistics.intervals import Array

READINGS = 20_000
EXCHANGES = 30
NANOSECONDS = 1e9


@dataclass(frozen=True)
class Clock:
    """What pairs of readings of the clock show, in seconds.

    Attributes:
        resolution_s: smallest step between two readings.
        pair_s: median time between the two readings of a pair, which every sample contains.
        pair_p99_s: its 99th percentile.
    """

    resolution_s: float
    pair_s: float
    pair_p99_s: float


def read_pairs(now_ns: Callable[[], int] = time.perf_counter_ns) -> Clock:
    """Reads the clock many times in a row."""
    readings = np.array([now_ns() for _ in range(READINGS)])
    steps = np.diff(readings)
    forward = steps[steps > 0]
    return Clock(
        resolution_s=float(forward.min()) / NANOSECONDS if len(forward) else 0.0,
        pair_s=float(np.median(steps)) / NANOSECONDS,
        pair_p99_s=float(np.quantile(steps, 0.99)) / NANOSECONDS,
    )


def note_exchanges(
    all_gather: Callable[[list[float]], list[list[float]]],
    now: Callable[[], float] = time.perf_counter,
) -> tuple[list[list[float]], list[list[float]]]:
    """Reads the clock before and after exchanges that all ranks make together.

    Args:
        all_gather: returns every rank's list for one's own.
        now: returns seconds on this rank's clock.

    Returns:
        The readings before and after each exchange, [rank][exchange].
    """
    before, after = [], []
    for _ in range(EXCHANGES):
        before.append(now())
        all_gather([0.0])
        after.append(now())
    return all_gather(before), all_gather(after)


def offset_bounds(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Returns between which offsets the clocks of all ranks differ from rank 0's, in seconds.

    No rank leaves an exchange before every rank has entered it. So the offset of a rank's clock is
    at least its reading before an exchange less rank 0's reading after it, and at most its reading
    after less rank 0's reading before. Clocks agree where 0 is within both bounds.

    Args:
        before: readings before each all_gather, [rank][exchange].
        after: readings after each exchange, [rank][exchange].

    Returns:
        The highest lower bound and the lowest upper bound of any rank.
    """
    entered: Array = np.asarray(before, dtype=np.float64)
    left: Array = np.asarray(after, dtype=np.float64)
    return float((entered - left[0]).max()), float((left - entered[0]).min())

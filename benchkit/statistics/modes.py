"""Finds two modes in times, such as those of calls with and without a tick of the scheduler."""

from dataclasses import dataclass

import numpy as np

from benchkit.statistics.intervals import Array
from benchkit.statistics.quantiles import median, quantile

FEWEST, PER_BIN, MOST_BINS = 100, 10, 40
"""Fewest samples that can show two modes, average samples per bin of the histogram, most bins."""
LEAST_RATIO = 1.1
"""Smallest ratio of two modes; for short times the resolution of the clock alone makes peaks."""
VALLEY, LEAST_SHARE = 0.5, 0.1
"""Two peaks are two modes where the valley between them is below VALLEY times the lower peak, and
each side holds at least LEAST_SHARE of all samples."""


@dataclass(frozen=True)
class Modes:
    """Two modes of the times of a case.

    Attributes:
        fast_s: median of the faster times, in seconds.
        slow_s: median of the slower times, in seconds.
        slow_share: share of the slower times among all, from 0 to 1.
    """

    fast_s: float
    slow_s: float
    slow_share: float


def find_modes(times: Array) -> Modes | None:
    """Returns the two modes of times; None where there is one, or too few times to tell.

    The modes are peaks of the smoothed histogram of the times' logarithms, separated at the lowest
    bin between them.

    Args:
        times: [n], in seconds.
    """
    edge = valley_between_modes(times)
    if edge is None:
        return None
    slow = times > edge
    found = Modes(median(times[~slow]), median(times[slow]), float(slow.mean()))
    return found if found.slow_s >= LEAST_RATIO * found.fast_s else None


def valley_between_modes(times: Array) -> float | None:
    """Returns the time in seconds that separates two modes; None where there is one mode."""
    ordered = np.sort(times)
    if len(ordered) < FEWEST or ordered[0] <= 0:
        return None
    logs = np.log(ordered)
    first = logs.searchsorted(quantile(logs, 0.005), side="left")
    last = logs.searchsorted(quantile(logs, 0.995), side="right")
    inside = logs[first:last]
    if inside[-1] - inside[0] < 1e-9:
        return None
    edges = np.linspace(inside[0], inside[-1], min(MOST_BINS, len(inside) // PER_BIN) + 1)
    below = [0, *inside.searchsorted(edges[1:-1]).tolist(), len(inside)]
    smooth = (np.convolve(np.diff(below), [1, 4, 6, 4, 1], mode="same") / 16).tolist()
    highest = smooth.index(max(smooth))
    valleys: list[tuple[float, int]] = []
    for peak in range(len(smooth)):
        low, high = sorted((highest, peak))
        if high - low < 2:
            continue
        between = smooth[low : high + 1]
        valley = low + between.index(min(between))
        if smooth[valley] < VALLEY * smooth[peak]:
            num_below = int(inside.searchsorted(edges[valley + 1], side="right"))
            above = (len(inside) - num_below) / len(inside)
            if min(above, 1 - above) >= LEAST_SHARE:
                valleys.append((smooth[peak], valley))
    if not valleys:
        return None
    _, valley = max(valleys)  # the valley before the highest of the other peaks
    return float(np.exp(edges[valley + 1]))

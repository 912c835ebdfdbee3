"""Times that come in two kinds, as where a call meets the scheduler's tick or not."""

from dataclasses import dataclass

import numpy as np

from benchkit.statistics.intervals import Array

FEWEST, PER_BIN, MOST_BINS = 100, 10, 40
"""Samples that tell two modes apart, samples per bin of the histogram on average, bins at most."""
LEAST_RATIO = 1.1
"""Modes that differ by less are one: of short times, the clock's resolution alone makes peaks."""
VALLEY, LEAST_SHARE = 0.5, 0.1
"""Two peaks are two modes where the valley between them is below this share of the lower peak and
each side holds so large a share of all samples."""


@dataclass(frozen=True)
class Modes:
    """The medians of the faster and of the slower times (s), and the share of the slower ones."""

    fast_s: float
    slow_s: float
    slow_share: float


def find_modes(times: Array) -> Modes | None:
    """The two modes of times [n] in seconds; None where there is one, or too few times to tell.

    Peaks of the smoothed histogram of the logarithms, and the lowest bin between them.
    """
    edge = valley_between_modes(times)
    if edge is None:
        return None
    slow = times > edge
    found = Modes(float(np.median(times[~slow])), float(np.median(times[slow])), float(slow.mean()))
    return found if found.slow_s >= LEAST_RATIO * found.fast_s else None


def valley_between_modes(times: Array) -> float | None:
    """The time in seconds that parts two modes; None where there is one."""
    if len(times) < FEWEST or times.min() <= 0:
        return None
    logs = np.log(times)
    inside = logs[(logs >= np.quantile(logs, 0.005)) & (logs <= np.quantile(logs, 0.995))]
    if inside.max() - inside.min() < 1e-9:
        return None
    counts, edges = np.histogram(inside, bins=min(MOST_BINS, len(inside) // PER_BIN))
    smooth = np.convolve(counts, [1, 4, 6, 4, 1], mode="same") / 16
    first = int(smooth.argmax())
    valleys: list[tuple[float, int]] = []
    for peak in range(len(smooth)):
        low, high = sorted((first, peak))
        if high - low < 2:
            continue
        valley = low + int(smooth[low : high + 1].argmin())
        above = len(inside[inside > edges[valley + 1]]) / len(inside)
        deep = smooth[valley] < VALLEY * smooth[peak]
        if deep and min(above, 1 - above) >= LEAST_SHARE:
            valleys.append((float(smooth[peak]), valley))
    return float(np.exp(edges[max(valleys)[1] + 1])) if valleys else None

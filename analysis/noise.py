"""What disturbs the samples of a case: spikes that hit all ranks or only some, and times that come in two kinds."""

from typing import Any

import numpy as np

from benchkit.statistics import Array, slowest_rank

SPIKE = 5.0
"""A rank's sample beyond so many times its median."""
FEWEST, PER_BIN, MOST_BINS = 100, 10, 40
"""Samples that tell two kinds apart, how many of them to a bin of the histogram on average, and bins at most."""
VALLEY, LEAST_SHARE = 0.5, 0.1
"""Two peaks are two kinds where the valley between them is below this share of the lower one and each side holds so
large a share of all samples."""
FIGURES = ("spikes_all_share", "spikes_some_share", "slow_mode_ratio", "slow_mode_share")


def figures(samples: Any) -> dict[str, float | None]:
    """From samples[rank][iteration] in seconds.

    spikes_all_share: of the iterations, in which every rank had a spike, as when the machine was busy;
    spikes_some_share: in which some had, but not all. slow_mode_ratio: where times come in two kinds, how many times
    as long the slower take, and slow_mode_share how many they are.
    """
    times = np.asarray(samples, dtype=np.float64)
    spikes = times > SPIKE * np.median(times, axis=1, keepdims=True)
    everywhere = spikes.all(axis=0)
    ratio, share = modes(slowest_rank(times))
    return {
        "spikes_all_share": float(everywhere.mean()),
        "spikes_some_share": float((spikes.any(axis=0) & ~everywhere).mean()),
        "slow_mode_ratio": ratio,
        "slow_mode_share": share,
    }


def modes(times: Array) -> tuple[float | None, float | None]:
    """Ratio of the two most frequent times, and the share of samples around the slower; None where there is but one.

    Peaks of the smoothed histogram of their logarithms.
    """
    if len(times) < FEWEST or times.min() <= 0:
        return None, None
    logs = np.log(times)
    inside = logs[(logs >= np.quantile(logs, 0.005)) & (logs <= np.quantile(logs, 0.995))]
    if inside.max() - inside.min() < 1e-9:
        return None, None
    counts, edges = np.histogram(inside, bins=min(MOST_BINS, len(inside) // PER_BIN))
    smooth = np.convolve(counts, [1, 4, 6, 4, 1], mode="same") / 16
    first = int(smooth.argmax())
    best: tuple[float, int, int] | None = None
    for peak in range(len(smooth)):
        low, high = sorted((first, peak))
        if high - low < 2:
            continue
        valley = low + int(smooth[low : high + 1].argmin())
        above = len(inside[inside > edges[valley + 1]]) / len(inside)
        deep = smooth[valley] < VALLEY * smooth[peak]
        if deep and min(above, 1 - above) >= LEAST_SHARE and (best is None or smooth[peak] > best[0]):
            best = float(smooth[peak]), peak, valley
    if best is None:
        return None, None
    _, peak, valley = best
    slow, fast = max(first, peak), min(first, peak)
    centres = (edges[:-1] + edges[1:]) / 2
    return float(np.exp(centres[slow] - centres[fast])), float((logs > edges[valley + 1]).mean())

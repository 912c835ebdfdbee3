"""Medians and quantiles of sorted values, with numpy's results in a fraction of its time.

`np.median` and `np.quantile` take 20 to 60 µs for a few hundred values, nearly all of it before
they touch one. Of each case some twenty are needed, most of them of the same values.
"""

import math
from typing import Any

import numpy as np

from benchkit.statistics.intervals import Array


def median(values: Any) -> float:
    """Returns the median of values, [n] in any order; exactly that of `np.median`."""
    return float(medians(values))


def medians(values: Any) -> Array:
    """Returns the medians along the last axis: [..., n] -> [...]; exactly those of `np.median`."""
    return middle(np.sort(np.asarray(values, dtype=np.float64)))


def middle(ordered: Array) -> Array:
    """Returns the medians of values in ascending order: [..., n] -> [...]."""
    n = ordered.shape[-1]
    return np.asarray((ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2)


def quantile(ordered: Array, share: float) -> float:
    """Returns a quantile between the two nearest values, exactly that of `np.quantile`.

    Args:
        ordered: [n], in ascending order.
        share: of the values that are smaller, from 0 to 1.
    """
    place = (len(ordered) - 1) * share
    before = math.floor(place)
    low, high = float(ordered[before]), float(ordered[min(before + 1, len(ordered) - 1)])
    weight = place - before
    if weight < 0.5:
        return low + (high - low) * weight
    return high - (high - low) * (1 - weight)

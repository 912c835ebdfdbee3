"""Finds where a line over sizes is best split in two, in time proportional to the number of sizes.

For a known ratio of latency to time per byte, the squared error of the best line through some sizes
follows from the sum and the sum of squares of what is left of their logarithms. Running sums give
both for the sizes below and above every place at once, for each ratio of a grid; one step of
Gauss-Newton, whose sums run just as well, then tells the error between the points of the grid.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.suites.collective.line import BEYOND, Array

Places = npt.NDArray[np.intp]
STEP = 0.25
"""Between ratios of the grid, as logarithms."""
FEWEST = 3
"""Fewer sizes than this say nothing of a line."""
CANDIDATES, CLOSE, ROUNDING = 4, 1.5, 1e-6
"""The errors are nearly exact, so at most this many places are returned whose errors are at most
this multiple of the least one, plus what the grid may miss of lines without noise."""
PAYS = 20.0
"""A second line is believed where it divides the sum of squared errors by more than this.

It brings three parameters and the choice of where to split. At 6 to 12 sizes these divide the
squared errors of mere noise by this much in some 3 % of trials (test).
"""
CLEARLY = 0.9
"""Where the error of one line is less than this share of PAYS times that of two, one is enough."""


class Splits:
    """The errors of all splits of some sizes.

    Args:
        sizes: in ascending order.
        times_s: the measured times in seconds.
    """

    def __init__(self, sizes: Sequence[float], times_s: Sequence[float]) -> None:
        size = np.asarray(sizes, dtype=float)
        low = math.log(size[0]) - BEYOND
        high = math.log(size[-1]) + BEYOND
        ratios = np.exp(np.linspace(low, high, math.ceil((high - low) / STEP) + 1))[:, None]
        model = ratios + size
        left = np.log(times_s) - np.log(model)
        left -= left.mean(axis=1, keepdims=True)
        share = ratios / model  # The derivative of the model's logarithm by that of the ratio.
        terms = np.stack([left, left * left, share, share * share, share * left])
        self._sums = np.concatenate([np.zeros((*terms.shape[:2], 1)), terms.cumsum(axis=2)], axis=2)

    def best(self, without: int | None = None) -> list[int]:
        """Return the places of the best splits: the number of sizes below each.

        Args:
            without: the index of a size that is left out; it is not counted either.

        Returns:
            At most CANDIDATES; none where one line is clearly enough.
        """
        sums = self._sums
        if without is not None:
            term = sums[:, :, [without + 1]] - sums[:, :, [without]]
            parts = (sums[:, :, : without + 1], sums[:, :, without + 2 :] - term)
            sums = np.concatenate(parts, axis=2)
        count = sums.shape[2] - 1
        places = np.arange(FEWEST, count - FEWEST + 1)
        if not len(places):
            return []
        below, whole = sums[:, :, FEWEST : count - FEWEST + 1], sums[:, :, [count]]
        errors = least(below, places) + least(whole - below, count - places)
        if float(least(whole, np.array([count]))[0]) < CLEARLY * PAYS * errors.min():
            return []
        in_order = np.argsort(errors, kind="stable")[:CANDIDATES]
        is_close = errors[in_order] <= CLOSE * errors.min() + ROUNDING
        return [int(place) for place in places[in_order[is_close]]]


def least(sums: Array, counts: Places) -> Array:
    """Return the least squared errors of lines, each through some sizes: [line].

    Args:
        sums: over the sizes of each line: [term][ratio][line].
        counts: numbers of sizes: [line].
    """
    errors = sums[1] - sums[0] ** 2 / counts
    nearest = errors.argmin(axis=0)
    lines = np.arange(len(counts))
    left, _, share, squares, products = sums[:, nearest, lines]
    steepness = squares - share**2 / counts
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (products - share * left / counts) ** 2 / steepness
    found = errors[nearest, lines] - np.where(steepness > 0, gain, 0.0)
    return np.asarray(np.maximum(found, 0.0))

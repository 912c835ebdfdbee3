"""Figures of groups of rows, where tables have a thousand groups of a few rows, or few of many."""

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit.statistics.intervals import Array, order_statistic_rank

Numbers = npt.NDArray[np.intp]


class Groups:
    """Rows in groups that are numbered from 0 on; of each number there is a row.

    Attributes:
        codes: of each row's group.
    """

    def __init__(self, number: Numbers) -> None:
        self.codes = number
        self.sizes: Numbers = np.bincount(number)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def order(self) -> Numbers:
        """The places of the rows, those of a group beside each other, each in its order."""
        return np.argsort(self.codes, kind="stable")

    @property
    def starts(self) -> Numbers:
        """Where each group starts in `order`."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def last_positions(self) -> Numbers:
        """The place of the last row of each group."""
        found: Numbers = self.order[self.starts + self.sizes - 1]
        return found

    def extremes(self, values: Array) -> tuple[Array, Array]:
        """Return the least and the highest value of each group by column, NaN of no value."""
        if not len(self):
            return values, values
        ordered, starts = values[self.order], self.starts
        return np.fmin.reduceat(ordered, starts), np.fmax.reduceat(ordered, starts)

    def sums(self, values: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Numbers:
        return np.bincount(self.codes, values, len(self)).astype(int)

    def medians(self, values: Array) -> Array:
        """Return the median of each group by column, NaN of no value."""
        found: Array = pd.DataFrame(values).groupby(self.codes).median().to_numpy(copy=True)
        return found

    def intervals(self, values: Array) -> tuple[Array, Array]:
        """Return the ends of the interval of each group's median; NaN where values are too few."""
        low, high = np.full(len(self), np.nan), np.full(len(self), np.nan)
        known = ~np.isnan(values)
        counts = np.bincount(self.codes[known], minlength=len(self))
        below = np.array(
            [order_statistic_rank(count) for count in range(counts.max(initial=0) + 1)]
        )[counts]
        enough = below > 0
        if enough.any():
            ordered = values[known][np.lexsort((values[known], self.codes[known]))]
            start = np.cumsum(counts) - counts
            low[enough] = ordered[(start + below - 1)[enough]]
            high[enough] = ordered[(start + counts - below)[enough]]
        return low, high

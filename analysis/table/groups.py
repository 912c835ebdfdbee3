"""Statistics of groups of rows, fast for many groups of a few rows and for few of many."""

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit.statistics.intervals import Array, order_statistic_rank

Numbers = npt.NDArray[np.intp]


class Groups:
    """Rows in groups that are numbered from 0 on, without gaps.

    Attributes:
        codes: group number of each row.
    """

    def __init__(self, codes: Numbers) -> None:
        self.codes = codes
        self.sizes: Numbers = np.bincount(codes)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def order(self) -> Numbers:
        """Stable argsort of the rows by group."""
        return np.argsort(self.codes, kind="stable")

    @property
    def starts(self) -> Numbers:
        """Where each group starts in `order`."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def last_positions(self) -> Numbers:
        """The position of the last row of each group."""
        positions: Numbers = self.order[self.starts + self.sizes - 1]
        return positions

    def extremes(self, values: Array) -> tuple[Array, Array]:
        """Return the minimum and maximum of each group by column; NaN without values."""
        if not len(self):
            return values, values
        ordered, starts = values[self.order], self.starts
        return np.fmin.reduceat(ordered, starts), np.fmax.reduceat(ordered, starts)

    def sums(self, values: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Numbers:
        return np.bincount(self.codes, values, len(self)).astype(int)

    def medians(self, values: Array) -> Array:
        """Return the median of each group by column; NaN without values."""
        medians: Array = pd.DataFrame(values).groupby(self.codes).median().to_numpy(copy=True)
        return medians

    def intervals(self, values: Array) -> tuple[Array, Array]:
        """Return the bounds of the interval of each group's median; NaN for too few values."""
        low, high = np.full(len(self), np.nan), np.full(len(self), np.nan)
        is_known = ~np.isnan(values)
        counts = np.bincount(self.codes[is_known], minlength=len(self))
        below = np.array(
            [order_statistic_rank(count) for count in range(counts.max(initial=0) + 1)]
        )[counts]
        has_interval = below > 0
        if has_interval.any():
            ordered = values[is_known][np.lexsort((values[is_known], self.codes[is_known]))]
            start = np.cumsum(counts) - counts
            low[has_interval] = ordered[(start + below - 1)[has_interval]]
            high[has_interval] = ordered[(start + counts - below)[has_interval]]
        return low, high

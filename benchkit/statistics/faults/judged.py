"""Judges all candidates of a family: how slow, how clearly, and whether it persists."""

import math

import numpy as np

from benchkit.statistics.faults.cells import Family, Fault, Ints, Limits
from benchkit.statistics.faults.healthy import healthy
from benchkit.statistics.intervals import Array

MEDIAN_SE = math.sqrt(math.pi / 2)
"""Standard error of a median of normal values over that of their mean."""
FEWEST = 5
"""Candidates of a family from which their own spread is known."""
LEAST_Z = 2.0
"""Each half of the samples must show a fault at least so clearly."""
LEAST_SHARE = 0.5
"""A candidate is not judged once more than this share of its cells is explained."""


class Judged:
    """The candidates of a family, judged.

    Args:
        of: the family.
        residuals: see `standardize`; the last cell is empty.
        sd: of a healthy cell.
        critical: quantile that a single test must exceed.
        limits: what counts.
        num_families: over which alpha is shared.
    """

    def __init__(
        self,
        of: Family,
        residuals: Array,
        sd: Array,
        critical: float,
        limits: Limits,
        num_families: int,
    ) -> None:
        self.family = of
        both = np.stack([residuals.mean(axis=0), *residuals])[:, of.cells]
        self.excess = both[0]
        self.count = np.isfinite(self.excess).sum(axis=1)
        judged = self.count > LEAST_SHARE * (of.cells >= 0).sum(axis=1)
        self.middle, *halves = (median_of_finite(table, self.count) for table in both)
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.nansum(sd[of.cells] ** 2, axis=1) / self.count
            factor = np.where(self.count > 1, MEDIAN_SE, 1.0)
            error = factor * np.sqrt(variance / self.count)
        error = np.maximum(error, spread_of(self.middle[judged]))
        with np.errstate(invalid="ignore", divide="ignore"):
            self.z = self.middle / error
            z_halves = np.sort(np.stack(halves) / error / math.sqrt(2), axis=0)
        least = persistent(z_halves[:, judged], limits.alpha / num_families)
        self.is_fault = (
            judged
            & (self.middle >= math.log1p(limits.tolerance))
            & (self.z >= critical)
            & (z_halves[0] >= least)
        )

    def best(self) -> tuple[float, Fault | None]:
        """Returns the fault that explains most excess, and how much; -inf and None without one."""
        if not self.is_fault.any():
            return -math.inf, None
        left = np.abs(self.excess - self.middle[:, None])
        gains = np.nansum(np.abs(self.excess) - left, axis=1)
        position = int(np.argmax(np.where(self.is_fault, gains, -math.inf)))
        return float(gains[position]), Fault(
            family=self.family.name,
            subject=int(self.family.subjects[position]),
            ratio=math.exp(float(self.middle[position])),
            z=float(self.z[position]),
            num_cells=int(self.count[position]),
        )


def median_of_finite(table: Array, count: Ints) -> Array:
    """Returns the median of the finite values of each row: [row]; NaN where there is none."""
    ordered = np.sort(table, axis=1)  # NaN comes last
    rows = np.arange(len(table))
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, table.shape[1] - 1)
    return np.asarray((ordered[rows, low] + ordered[rows, high]) / 2)


def spread_of(middles: Array) -> float:
    """Returns the standard deviation of healthy candidates; 0 where they are few."""
    finite = middles[np.isfinite(middles)]
    return healthy(finite).sd if len(finite) >= FEWEST else 0.0


def persistent(z_halves: Array, alpha: float) -> float:
    """Returns how clearly both halves must show a fault.

    If noise takes a candidate beyond t in a half with probability p, then it takes about 2 N p of N
    candidates beyond t in one half only, and N p^2 in both. So with D candidates beyond t in one
    half only, (D + 1)^2 / (4 N) <= alpha makes a false one unlikely. It returns the smallest such t
    from LEAST_Z on.

    Args:
        z_halves: the smaller and the larger one of both halves: [2][candidate].
        alpha: chance of a false one.
    """
    lower, higher = (np.sort(row[np.isfinite(row)]) for row in z_halves)
    most = max(0.0, 2 * math.sqrt(alpha * len(higher)) - 1)
    trials = np.append(LEAST_Z, np.nextafter(higher[higher >= LEAST_Z], math.inf))
    beyond = [len(row) - np.searchsorted(row, trials) for row in (higher, lower)]
    return float(trials[np.argmax(beyond[0] - beyond[1] <= most)])

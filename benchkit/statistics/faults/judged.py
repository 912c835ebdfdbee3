"""Judges all candidates of a family: how slow, how clearly, and whether it persists."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchkit.statistics.faults.cells import Family, Fault, Ints, Limits
from benchkit.statistics.faults.healthy import healthy, t_quantile
from benchkit.statistics.intervals import Array

MEDIAN_SE = math.sqrt(math.pi / 2)
"""Standard error of a median of normal values over that of their mean."""
FEWEST = 5
"""Candidates of a family from which their own spread is known."""
LEAST_Z = 2.0
"""Each half of the samples must show a fault at least so clearly."""
MOST = 0.9
"""Share of the candidates that is meant where most of them are."""
LASTING = 0.5
"""Each half must show this share of the logarithm of the ratio at least; else the fault passed."""
LEAST_SHARE = 0.5
"""A candidate is not judged once more than this share of its cells is explained."""
MOSTLY, BOTH_MOSTLY = 1.6449, 1.9545
"""Standard normal quantiles of 0.95, and of its square root."""


@dataclass(frozen=True)
class Residuals:
    """How far each cell of a table is from the healthy cells of its kind.

    The last cell is empty. What has no peers, or is explained, is NaN.

    Attributes:
        halves: difference to the centre in each half: [2][cell + 1].
        sd: standard deviation of a healthy cell, over both halves: [cell + 1].
        df: degrees of freedom of that: [cell + 1].
        kinds: of each cell: [cell + 1].
    """

    halves: Array
    sd: Array
    df: Array
    kinds: Ints


class Judged:
    """The candidates of a family, judged.

    Args:
        of: the family.
        residuals: of the table.
        level: chance of a false fault that each candidate has.
        limits: what counts.
        num_families: over which alpha is shared.
    """

    def __init__(
        self, of: Family, residuals: Residuals, level: float, limits: Limits, num_families: int
    ) -> None:
        self.family, self.limits, self.level = of, limits, level
        self.residuals = residuals.halves.mean(axis=0)
        both = np.stack([self.residuals, *residuals.halves])[:, of.shows]
        self.count = np.isfinite(both[0]).sum(axis=1)
        self.judged = self.count > LEAST_SHARE * (of.shows >= 0).sum(axis=1)
        self.middle, *halves = (median_of_finite(table, self.count) for table in both)
        self.weaker = np.minimum(*halves)
        error, self.df = error_of(of.shows, residuals, self.count)
        self.error = np.maximum(error, spread_of(self.middle[self.judged]))
        with np.errstate(invalid="ignore", divide="ignore"):
            z_halves = np.sort(np.stack(halves) / self.error / math.sqrt(2), axis=0)
        self.least_z = persistent(z_halves[:, self.judged], limits.alpha / num_families)

    @cached_property
    def critical(self) -> Array:
        """The z that each candidate must exceed: [candidate]; NaN without peers."""
        return t_quantile(self.level, self.df)

    @cached_property
    def z(self) -> Array:
        """The logarithm of each candidate's ratio over its standard error: [candidate]."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.middle / self.error)

    @cached_property
    def is_fault(self) -> Array:
        return np.asarray(
            self.judged
            & (self.middle >= math.log1p(self.limits.tolerance))
            & (self.z >= self.critical)
            & (self.weaker >= self.least_z * math.sqrt(2) * self.error)
            & (self.weaker >= LASTING * self.middle)
        )

    def best(self) -> tuple[float, Fault | None]:
        """Returns the fault that explains most excess, and how much; -inf and None without one."""
        if not self.is_fault.any():
            return -math.inf, None
        excess = self.residuals[self.family.cells]
        gain = np.abs(excess) - np.abs(excess - self.middle[:, None])
        # Cells that a candidate need not slow count only where it explains them.
        gains = np.nansum(np.where(self.family.shows < 0, np.maximum(gain, 0.0), gain), axis=1)
        position = int(np.argmax(np.where(self.is_fault, gains, -math.inf)))
        return float(gains[position]), Fault(
            family=self.family.name,
            subject=int(self.family.subjects[position]),
            ratio=math.exp(float(self.middle[position])),
            z=float(self.z[position]),
            num_cells=int(self.count[position]),
        )

    def least_found(self) -> float:
        """Returns the logarithm of the ratio at which most candidates are found nine times in ten.

        NaN where they have no peers.
        """
        clear = (self.critical + MOSTLY) * self.error
        lasting = (self.least_z + BOTH_MOSTLY) * math.sqrt(2) * self.error
        large = math.log1p(self.limits.tolerance) + MOSTLY * self.error
        every = np.maximum(np.maximum(clear, lasting), large)[self.judged]
        return (
            float(np.quantile(np.nan_to_num(every, nan=math.inf), MOST)) if len(every) else math.nan
        )


def error_of(cells: Ints, residuals: Residuals, count: Ints) -> tuple[Array, Array]:
    """Returns the standard error of the median of each candidate's cells, and its freedom.

    The degrees of freedom of cells of several kinds are those of Welch and Satterthwaite.

    Args:
        cells: of each candidate: [candidate][place].
        residuals: of the table.
        count: of the finite cells of each candidate.
    """
    by_cell = np.where(np.isfinite(residuals.halves[0]), residuals.sd**2, np.nan)
    if cells.shape[1] == 1:
        [single] = cells.T
        return np.sqrt(by_cell[single]), residuals.df[single]
    variance = np.nansum(by_cell[cells], axis=1)
    candidate, place = np.nonzero(np.isfinite(by_cell[cells]))
    owned = cells[candidate, place]
    by_kind = candidate * (residuals.kinds.max() + 1) + residuals.kinds[owned]
    _, first, counts = np.unique(by_kind, return_index=True, return_counts=True)
    of_kind = (counts * by_cell[owned[first]]) ** 2 / residuals.df[owned[first]]
    part = np.bincount(candidate[first], of_kind, minlength=len(cells))
    factor = np.where(count > 1, MEDIAN_SE, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = np.where(part > 0, variance**2 / part, np.where(count > 0, np.inf, np.nan))
        return factor * np.sqrt(variance) / count, df


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
    half only, D^2 / (4 N) <= alpha makes a false one unlikely. It returns the smallest such t from
    LEAST_Z on. One candidate may always be: what was disturbed once hides no lasting fault.

    Args:
        z_halves: the smaller and the larger one of both halves: [2][candidate].
        alpha: chance of a false one.
    """
    lower, higher = (np.sort(row[np.isfinite(row)]) for row in z_halves)
    most = max(1.0, 2 * math.sqrt(alpha * len(higher)))
    trials = np.append(LEAST_Z, np.nextafter(higher[higher >= LEAST_Z], math.inf))
    beyond = [len(row) - np.searchsorted(row, trials) for row in (higher, lower)]
    return float(trials[np.argmax(beyond[0] - beyond[1] <= most)])

"""Explains slow cells of a table by the fewest causes: one cell, a row, a column, a block.

Cells are logarithms of times, of ranks or of pairs of ranks. A family lists candidates of one kind,
each with its cells: a rank as sender, a link in both directions, all that leaves a node. The
candidate that explains most of the excess is found first, and its cells are set aside.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchkit.statistics.faults.healthy import healthy, t_quantile
from benchkit.statistics.intervals import Array

Ints = npt.NDArray[np.int64]
MEDIAN_SE = math.sqrt(math.pi / 2)
"""Standard error of a median of normal values over that of their mean."""
FEWEST = 5
"""Candidates of a family from which their own spread is known."""
LEAST_Z = 2.0
"""Each half of the samples must show a fault at least so clearly."""
LEAST_SHARE = 0.5
"""A candidate is not judged once more than this share of its cells is explained."""
MOST_FAULTS = 50


@dataclass(frozen=True)
class Cells:
    """The table.

    Attributes:
        halves: logarithm of the median time over the first and over the second half of the
            samples: [2][cell].
        kinds: number of the kind of each cell; only cells of one kind are compared: [cell].
    """

    halves: Array
    kinds: Ints


@dataclass(frozen=True)
class Family:
    """Candidates of one kind.

    Attributes:
        name: of the kind.
        subjects: number of each candidate among its like, such as a rank: [candidate].
        cells: the cells of each candidate, -1 for no further one: [candidate][place].
    """

    name: str
    subjects: Ints
    cells: Ints


@dataclass(frozen=True)
class Fault:
    """A candidate that is slower than its peers.

    Attributes:
        family: name of its family.
        subject: its number there.
        ratio: how many times as long it takes as its peers.
        z: the logarithm of the ratio over its standard error.
        num_cells: cells that it explains.
    """

    family: str
    subject: int
    ratio: float
    z: float
    num_cells: int


@dataclass(frozen=True)
class Limits:
    """What counts as a fault.

    Attributes:
        tolerance: smallest slowdown that matters, as a share.
        floor: standard deviation of logarithms of identical runs; smaller spreads are not trusted.
        alpha: chance of any false fault in a healthy table.
    """

    tolerance: float = 0.1
    floor: float = 0.0
    alpha: float = 0.05


def family(name: str, *keys: Ints) -> Family:
    """Returns the candidates of a family.

    Args:
        name: of the family.
        keys: for each cell the candidate that it belongs to, -1 for none: [cell]. A cell may belong
            to one candidate per array.
    """
    owners = np.concatenate(keys)
    cells = np.tile(np.arange(len(keys[0])), len(keys))
    kept = owners >= 0
    order = np.argsort(owners[kept], kind="stable")
    owners, cells = owners[kept][order], cells[kept][order]
    subjects, starts, counts = np.unique(owners, return_index=True, return_counts=True)
    table = np.full((len(subjects), max(counts, default=0)), -1)
    places = np.arange(len(owners)) - np.repeat(starts, counts)
    table[np.repeat(np.arange(len(subjects)), counts), places] = cells
    return Family(name, subjects, table)


def explain(cells: Cells, families: Sequence[Family], limits: Limits) -> list[Fault]:
    """Returns the faults of a table, the one that explains most first; none where all are alike.

    A fault is at least `tolerance` slower than its peers, clear against the spread of the healthy
    cells at a level of `alpha` over the number of candidates (Bonferroni), and persistent: both
    halves of the samples show it. How clearly they must follows from the candidates that only one
    half shows, which noise explains; so spikes raise the limit and make no faults.
    """
    values = np.append(cells.halves.astype(np.float64), [[np.nan], [np.nan]], axis=1)
    tests = sum(len(each.subjects) for each in families)
    level = limits.alpha / max(1, tests)
    found: list[Fault] = []
    while len(found) < MOST_FAULTS:
        residuals, sd, df = standardize(values, cells.kinds, limits.floor)
        if df < 1:
            break
        critical = t_quantile(level, df)
        judged = [
            Judged(each, residuals, sd, critical, limits, len(families)).best() for each in families
        ]
        gains = [gain for gain, _ in judged]
        best = int(np.argmax(gains))
        fault = judged[best][1]
        if fault is None:
            break
        found.append(fault)
        position = int(np.flatnonzero(families[best].subjects == fault.subject)[0])
        values[:, families[best].cells[position]] = np.nan
    return found


def standardize(values: Array, kinds: Ints, floor: float) -> tuple[Array, Array, float]:
    """Returns how far each cell is from the healthy cells of its kind.

    Returns:
        Differences to the centre of each half: [2][cell + 1]; the standard deviation of a healthy
        cell, over both halves: [cell + 1]; the degrees of freedom of the kind with fewest.
    """
    residuals, sd = np.full_like(values, np.nan), np.full(values.shape[1], np.nan)
    fewest = math.inf
    for kind in np.unique(kinds):
        own = np.flatnonzero((kinds == kind) & np.isfinite(values[0, :-1]))
        if not len(own):
            continue
        halves = values[:, own]
        whole = healthy(halves.mean(axis=0))
        between = healthy(halves[0] - halves[1])
        sd[own] = max(whole.sd, between.sd / 2, floor)
        usual = np.abs(halves.mean(axis=0) - whole.centre) <= 3 * sd[own]
        centres = halves[:, usual].mean(axis=1) if usual.any() else np.full(2, whole.centre)
        residuals[:, own] = halves - centres[:, None]
        if len(own) > 2:  # two can only differ from each other
            fewest = min(fewest, whole.count - 1)
        else:
            residuals[:, own] = np.nan
    return residuals, sd, 0.0 if math.isinf(fewest) else fewest


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

"""Find faults, such as slow ranks or nodes, in a table of measurements, by the fewest causes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from benchkit.statistics.intervals import Array, t_quantile

HALF = 0.5
NEAR = 1.5
"""Largest ratio of the healthy half's width to the shortest half's; the lowest such half counts."""
WINDOW = 2.0  # standard deviations from the centre within which values are healthy
TRUNCATED = 0.8796
"""Standard deviation of normal values within WINDOW, over that of all."""
ROUNDS = 20


@dataclass(frozen=True)
class HealthyEstimate:
    centre: float
    sd: float
    count: int


def estimate_healthy(values: Array, share: float = HALF) -> HealthyEstimate:
    """Estimate the healthy values among some values.

    Start from the shortest half (Rousseeuw, Least Median of Squares Regression, 1984; small-sample
    factor: Rousseeuw and Leroy, 1987). Faults only make cells slower, so the lowest of the halves
    about as short is taken, and a half below a gap wider than itself: one slow node of four is in
    half of all pairs across nodes, and a slow cable is less noisy than healthy ones. Then mean and
    standard deviation of the values nearby are iterated until they no longer change.

    Args:
        values: finite logarithms of times: [n], n >= 1.
        share: least share of healthy values; a third where one slow node of three is in two thirds
            of all pairs.
    """
    ordered = np.sort(values)
    count = len(ordered)
    subset_size = min(count, max(3, int(count * share)))
    widths = ordered[subset_size - 1 :] - ordered[: count - subset_size + 1]
    gaps = np.append(np.diff(ordered)[subset_size - 1 :], 0.0)  # above each half
    first = int(np.argmax((widths <= NEAR * widths.min()) | (gaps > widths)))
    inside = ordered[first : first + subset_size]
    centre = float(np.median(inside))
    half_width = NormalDist().inv_cdf(HALF + share / 2)  # of that share of normal values
    sd = (1 + 5 / count) * float(widths[first]) / 2 / half_width
    previous = np.zeros(count, dtype=bool)
    for _ in range(ROUNDS):
        near = np.abs(ordered - centre) <= WINDOW * sd
        if not near.any() or (near == previous).all():
            break
        previous, inside = near, ordered[near]
        centre = float(inside.mean())
        sd = float(inside.std(ddof=1)) / TRUNCATED if len(inside) > 1 else 0.0
    return HealthyEstimate(centre, sd, len(inside))


Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Family:
    """Candidates of one kind, such as ranks or nodes.

    Attributes:
        subjects: number of each candidate, such as a rank: [candidate].
        cells: cells of each candidate, padded by -1: [candidate][place].
        showing_cells: cells that a faulty candidate always slows; -1 elsewhere. Only they enter the
            test. All cells of a detected candidate are excluded.
    """

    name: str
    subjects: Ints
    cells: Ints
    showing_cells: Ints


@dataclass(frozen=True)
class Fault:
    """A candidate that is slower than its peers.

    Attributes:
        subject: number in its family.
        ratio: its time over that of its peers.
        z: the logarithm of the ratio over its standard error.
    """

    family: str
    subject: int
    ratio: float
    z: float
    num_cells: int


@dataclass(frozen=True)
class FaultLimits:
    """Limits of a fault.

    Attributes:
        tolerance: smallest slowdown that matters, as a share.
        floor: standard deviation of logarithms of identical runs; lower bound of the noise.
        alpha: probability of any false fault in a healthy table.
    """

    tolerance: float = 0.1
    floor: float = 0.0
    alpha: float = 0.05


def make_family(name: str, *keys: Ints, shows: Sequence[Mask] = ()) -> Family:
    """Make a family.

    Args:
        keys: candidate of each cell, -1 for none: [cell]. A cell may belong to one candidate per
            array.
        shows: for each array of keys, whether a faulty candidate always slows the cell; by default
            all: [cell].
    """
    owners = np.concatenate(keys)
    cells = np.tile(np.arange(len(keys[0])), len(keys))
    is_owned = owners >= 0
    order = np.argsort(owners[is_owned], kind="stable")
    owners, cells = owners[is_owned][order], cells[is_owned][order]
    subjects, starts, counts = np.unique(owners, return_index=True, return_counts=True)
    table = np.full((len(subjects), max(counts, default=0)), -1)
    places = np.arange(len(owners)) - np.repeat(starts, counts)
    rows = np.repeat(np.arange(len(subjects)), counts)
    table[rows, places] = cells
    if not shows:
        return Family(name, subjects, table, table)
    showing = np.full_like(table, -1)
    showing[rows, places] = np.where(np.concatenate(shows)[is_owned][order], cells, -1)
    return Family(name, subjects, table, showing)


MOST_SHARE = 0.75
"""Largest share of a kind's cells for which a candidate has peers there."""


@dataclass(frozen=True)
class PeerGroups:
    """Kinds of comparable cells, and the families of candidates.

    Attributes:
        kinds: kind of each cell: [cell]. Only cells of one kind are compared.
    """

    kinds: Ints
    families: Sequence[Family]

    @property
    def healthy_shares(self) -> Array:
        """Share of healthy cells of each kind if one candidate is slow: [kind]."""
        return self.shares_and_families[0]

    @property
    def testable_families(self) -> Sequence[Family]:
        """The families, with only cells that have peers as `showing_cells`.

        A candidate with nearly all cells of a kind has too few others to compare with.
        """
        return self.shares_and_families[1]

    @cached_property
    def shares_and_families(self) -> tuple[Array, Sequence[Family]]:
        total = np.bincount(self.kinds)
        largest_shares, families = np.full(len(total), HALF), []
        for family in self.families:
            if family.cells.shape[1] < 2:
                families.append(family)
                continue
            candidate, place = np.nonzero(family.cells >= 0)
            owned = candidate * len(total) + self.kinds[family.cells[candidate, place]]
            owned_kinds, counts = np.unique(owned, return_counts=True)
            shares = counts / total[owned_kinds % len(total)]
            has_peers = shares <= MOST_SHARE
            np.maximum.at(largest_shares, owned_kinds[has_peers] % len(total), shares[has_peers])
            if not has_peers.all():
                lacks_peers = np.isin(owned, owned_kinds[~has_peers])
                shows = family.showing_cells.copy()
                shows[candidate[lacks_peers], place[lacks_peers]] = -1
                family = replace(family, showing_cells=shows)
            families.append(family)
        return 1.0 - largest_shares, families


MEDIAN_SE = math.sqrt(math.pi / 2)
"""Standard error of a median of normal values over that of their mean."""
FEWEST = 5  # candidates of a family for an estimate of their standard deviation
LEAST_Z = 2.0  # least z of a fault in each half of the samples
MOST = 0.9  # share of the candidates that `detectable_log_ratio` is for
LASTING = 0.5
"""Share of the logarithm of the ratio that each half must show; else the fault was transient."""
LEAST_SHARE = 0.5
"""Least share of unexplained cells for which a candidate is tested."""
MOSTLY, BOTH_MOSTLY = 1.6449, 1.9545
"""Standard normal quantiles of 0.95, and of its square root."""


@dataclass(frozen=True)
class Residuals:
    """Residuals of the cells of a table, relative to the healthy cells of their kind.

    The last cell is empty. A cell without peers, or one explained by a fault, is NaN.

    Attributes:
        halves: difference from the centre in each half: [2][cell + 1].
        sd: standard deviation of a healthy cell, over both halves: [cell + 1].
        df: degrees of freedom of `sd`: [cell + 1].
        kinds: kind of each cell: [cell + 1].
    """

    halves: Array
    sd: Array
    df: Array
    kinds: Ints


class FamilyTest:
    """Tests of the candidates of a family.

    Args:
        alpha: probability of a false fault of each candidate.
        num_families: number of families that share alpha.
    """

    def __init__(
        self,
        family: Family,
        residuals: Residuals,
        alpha: float,
        limits: FaultLimits,
        num_families: int,
    ) -> None:
        self.family, self.limits, self.alpha = family, limits, alpha
        self.residuals = residuals.halves.mean(axis=0)
        tables = np.stack([self.residuals, *residuals.halves])[:, family.showing_cells]
        self.count = np.isfinite(tables[0]).sum(axis=1)
        self.is_tested = self.count > LEAST_SHARE * (family.showing_cells >= 0).sum(axis=1)
        self.middle, *halves = (median_of_finite(table, self.count) for table in tables)
        self.weaker = np.minimum(*halves)
        error, self.df = standard_error(family.showing_cells, residuals, self.count)
        self.error = np.maximum(error, robust_deviation(self.middle[self.is_tested]))
        with np.errstate(invalid="ignore", divide="ignore"):
            z_halves = np.sort(np.stack(halves) / self.error / math.sqrt(2), axis=0)
        self.least_z = persistence_threshold(
            z_halves[:, self.is_tested], limits.alpha / num_families
        )

    @cached_property
    def critical(self) -> Array:
        """The z that each candidate must exceed: [candidate]; NaN without peers."""
        return t_quantile(self.alpha, self.df)

    @cached_property
    def z(self) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.middle / self.error)

    @cached_property
    def is_fault(self) -> Array:
        return np.asarray(
            self.is_tested
            & (self.middle >= math.log1p(self.limits.tolerance))
            & (self.z >= self.critical)
            & (self.weaker >= self.least_z * math.sqrt(2) * self.error)
            & (self.weaker >= LASTING * self.middle)
        )

    def best_fault(self) -> tuple[float, Fault | None]:
        """Return the largest gain in explained excess, and its fault; -inf and None without one."""
        if not self.is_fault.any():
            return -math.inf, None
        excess = self.residuals[self.family.cells]
        gain = np.abs(excess) - np.abs(excess - self.middle[:, None])
        # Cells that a fault does not always slow count only if it explains them.
        gains = np.nansum(
            np.where(self.family.showing_cells < 0, np.maximum(gain, 0.0), gain), axis=1
        )
        position = int(np.argmax(np.where(self.is_fault, gains, -math.inf)))
        return float(gains[position]), Fault(
            family=self.family.name,
            subject=int(self.family.subjects[position]),
            ratio=math.exp(float(self.middle[position])),
            z=float(self.z[position]),
            num_cells=int(self.count[position]),
        )

    def detectable_log_ratio(self) -> float:
        """Return the log ratio at which MOST candidates are detected with probability 0.9.

        NaN without peers.
        """
        clear = (self.critical + MOSTLY) * self.error
        lasting = (self.least_z + BOTH_MOSTLY) * math.sqrt(2) * self.error
        large = math.log1p(self.limits.tolerance) + MOSTLY * self.error
        every = np.maximum(np.maximum(clear, lasting), large)[self.is_tested]
        return (
            float(np.quantile(np.nan_to_num(every, nan=math.inf), MOST)) if len(every) else math.nan
        )


def standard_error(cells: Ints, residuals: Residuals, count: Ints) -> tuple[Array, Array]:
    """Return the standard error, and its degrees of freedom, of the median of a candidate's cells.

    Cells of several kinds have the degrees of freedom of Welch and Satterthwaite. `cells` is
    [candidate][place].
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
    ordered = np.sort(table, axis=1)  # NaN comes last
    rows = np.arange(len(table))
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, table.shape[1] - 1)
    return np.asarray((ordered[rows, low] + ordered[rows, high]) / 2)


def robust_deviation(middles: Array) -> float:
    finite = middles[np.isfinite(middles)]
    return estimate_healthy(finite).sd if len(finite) >= FEWEST else 0.0


def persistence_threshold(z_halves: Array, alpha: float) -> float:
    """Return the z that both halves must exceed: the smallest t that rules out noise.

    If noise exceeds t in one half with probability p, about 2 N p of N candidates exceed it in one
    half only, and N p^2 in both. So with D candidates beyond t in one half only, D^2 / (4 N) <=
    alpha makes a false one unlikely. One candidate is always allowed: one disturbance hides no
    lasting fault.

    Args:
        z_halves: the smaller and the larger z of the two halves: [2][candidate].
    """
    lower, higher = (np.sort(row[np.isfinite(row)]) for row in z_halves)
    most_in_one_half = max(1.0, 2 * math.sqrt(alpha * len(higher)))
    trials = np.append(LEAST_Z, np.nextafter(higher[higher >= LEAST_Z], math.inf))
    beyond = [len(row) - np.searchsorted(row, trials) for row in (higher, lower)]
    return float(trials[np.argmax(beyond[0] - beyond[1] <= most_in_one_half)])


MOST_FAULTS = 50


def find_faults(halves: Array, peers: PeerGroups, limits: FaultLimits) -> list[Fault]:
    """Return the faults of a table, the one that explains most first.

    A fault is at least `tolerance` slower than its peers. It is significant against the noise of
    the healthy cells, at an error rate of `alpha` over the number of candidates (Bonferroni). It is
    persistent: both halves of the samples show it. Candidates in one half only are noise, and raise
    the limit of both halves; so spikes are no faults.

    Args:
        halves: log of the median time over the first and over the second half of the samples:
            [2][cell].
    """
    values = append_empty_cell(halves)
    faults: list[Fault] = []
    while len(faults) < MOST_FAULTS:
        best_faults = [test.best_fault() for test in test_families(values, peers, limits)]
        best = int(np.argmax([gain for gain, _ in best_faults])) if best_faults else 0
        fault = best_faults[best][1] if best_faults else None
        if fault is None:
            break
        faults.append(fault)
        family = peers.families[best]
        position = int(np.flatnonzero(family.subjects == fault.subject)[0])
        values[:, family.cells[position]] = np.nan
    return faults


def find_fast_outliers(halves: Array, peers: PeerGroups, limits: FaultLimits) -> list[Fault]:
    """Return fast outliers; if they are many, the remaining cells may be the faulty ones."""
    return find_faults(-halves, peers, limits)


def detectable_ratio(halves: Array, peers: PeerGroups, limits: FaultLimits) -> float | None:
    """Return the ratio of `detectable_log_ratio` for the first family; None without peers."""
    log_ratio = test_families(append_empty_cell(halves), peers, limits)[0].detectable_log_ratio()
    return None if math.isnan(log_ratio) else math.exp(min(700.0, log_ratio))


def append_empty_cell(halves: Array) -> Array:
    """Append an empty cell, to which -1 in `Family.cells` points: [2][cell + 1]."""
    return np.append(halves.astype(np.float64), [[np.nan], [np.nan]], axis=1)


def test_families(values: Array, peers: PeerGroups, limits: FaultLimits) -> list[FamilyTest]:
    families = peers.testable_families
    alpha = limits.alpha / max(1, sum(len(family.subjects) for family in families))  # Bonferroni
    residual_table = residuals(values, peers, limits.floor)
    return [FamilyTest(family, residual_table, alpha, limits, len(families)) for family in families]


def residuals(values: Array, peers: PeerGroups, floor: float) -> Residuals:
    differences, sd = np.full_like(values, np.nan), np.full(values.shape[1], np.nan)
    df = np.full(values.shape[1], np.nan)
    kinds = np.append(peers.kinds, -1)
    filled = np.flatnonzero(np.isfinite(values[0]))
    filled = filled[np.argsort(kinds[filled], kind="stable")]
    starts = np.flatnonzero(np.diff(kinds[filled])) + 1
    for kind_cells in np.split(filled, starts):
        if len(kind_cells) < 3:  # of two, either may be the slow one
            continue
        share = float(peers.healthy_shares[kinds[kind_cells[0]]])
        halves = values[:, kind_cells]
        overall = estimate_healthy(halves.mean(axis=0), share)
        between = estimate_healthy(halves[0] - halves[1])
        sd[kind_cells] = max(overall.sd, between.sd / 2, floor)
        df[kind_cells] = overall.count - 1
        usual = np.abs(halves.mean(axis=0) - overall.centre) <= 3 * sd[kind_cells]
        centres = halves[:, usual].mean(axis=1) if usual.any() else np.full(2, overall.centre)
        differences[:, kind_cells] = halves - centres[:, None]
    return Residuals(differences, sd, df, kinds)

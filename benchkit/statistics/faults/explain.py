"""Explains slow cells of a table by the fewest causes: one cell, a row, a column, a block.

Cells are logarithms of times, of ranks or of pairs of ranks. A family lists candidates of one kind,
each with its cells: a rank as sender, a link in both directions, all that leaves a node. The
candidate that explains most of the excess is found first, and its cells are set aside.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchkit.statistics.faults.cells import Cells, Family, Fault, Limits
from benchkit.statistics.faults.healthy import HALF, healthy
from benchkit.statistics.faults.judged import Judged, Residuals
from benchkit.statistics.intervals import Array

MOST_FAULTS = 50
MOST_SHARE = 0.7
"""A candidate with a larger share of the cells of a kind leaves it without peers."""


@dataclass(frozen=True)
class Peers:
    """A table with what may be slow in it.

    Attributes:
        cells: of the table.
        families: of candidates.
        limits: what counts as a fault; `alpha` is that of the table.
    """

    cells: Cells
    families: Sequence[Family]
    limits: Limits

    @cached_property
    def level(self) -> float:
        """The chance of a false fault that each candidate has (Bonferroni)."""
        return self.limits.alpha / max(1, sum(len(each.subjects) for each in self.families))

    @cached_property
    def values(self) -> Array:
        """The cells, and an empty one for the places of candidates that have fewer: [2][cell]."""
        return np.append(self.cells.halves.astype(np.float64), [[np.nan], [np.nan]], axis=1)

    @cached_property
    def healthy_shares(self) -> Array:
        """The share of cells of each kind that is healthy where one candidate is slow: [kind]."""
        kinds, total = self.cells.kinds, np.bincount(self.cells.kinds)
        most = np.full(len(total), HALF)
        for each in self.families:
            if each.cells.shape[1] < 2:
                continue
            candidate, place = np.nonzero(each.cells >= 0)
            owned = candidate * len(total) + kinds[each.cells[candidate, place]]
            found, counts = np.unique(owned, return_counts=True)
            shares = counts / total[found % len(total)]
            fits = shares <= MOST_SHARE
            np.maximum.at(most, found[fits] % len(total), shares[fits])
        return np.asarray(1.0 - most)

    def judged(self, values: Array) -> list[Judged]:
        """Judges every family by what is not explained yet."""
        residuals = self.residuals(values)
        level, limits, num = self.level, self.limits, len(self.families)
        return [Judged(each, residuals, level, limits, num) for each in self.families]

    def residuals(self, values: Array) -> Residuals:
        """Returns how far each cell is from the healthy cells of its kind."""
        found, sd = np.full_like(values, np.nan), np.full(values.shape[1], np.nan)
        df = np.full(values.shape[1], np.nan)
        kinds = np.append(self.cells.kinds, -1)
        known = np.flatnonzero(np.isfinite(values[0]))
        known = known[np.argsort(kinds[known], kind="stable")]
        starts = np.flatnonzero(np.diff(kinds[known])) + 1
        for own in np.split(known, starts):
            if len(own) < 3:  # two can only differ from each other
                continue
            share = float(self.healthy_shares[kinds[own[0]]])
            halves = values[:, own]
            whole = healthy(halves.mean(axis=0), share)
            between = healthy(halves[0] - halves[1])
            sd[own] = max(whole.sd, between.sd / 2, self.limits.floor)
            df[own] = whole.count - 1
            usual = np.abs(halves.mean(axis=0) - whole.centre) <= 3 * sd[own]
            centres = halves[:, usual].mean(axis=1) if usual.any() else np.full(2, whole.centre)
            found[:, own] = halves - centres[:, None]
        return Residuals(found, sd, df, kinds)


def explain(cells: Cells, families: Sequence[Family], limits: Limits) -> list[Fault]:
    """Returns the faults of a table, the one that explains most first; none where all are alike.

    A fault is at least `tolerance` slower than its peers, clear against the spread of the healthy
    cells at a level of `alpha` over the number of candidates (Bonferroni), and persistent: both
    halves of the samples show it. How clearly they must follows from the candidates that only one
    half shows, which noise explains; so spikes raise the limit and make no faults.
    """
    peers = Peers(cells, families, limits)
    values = peers.values
    found: list[Fault] = []
    while len(found) < MOST_FAULTS:
        judged = [each.best() for each in peers.judged(values)]
        best = int(np.argmax([gain for gain, _ in judged])) if judged else 0
        fault = judged[best][1] if judged else None
        if fault is None:
            break
        found.append(fault)
        position = int(np.flatnonzero(families[best].subjects == fault.subject)[0])
        values[:, families[best].cells[position]] = np.nan
    return found


def faster(cells: Cells, families: Sequence[Family], limits: Limits) -> list[Fault]:
    """Returns what is faster than its peers, which may be most of them that are slow."""
    return explain(replace(cells, halves=-cells.halves), families, limits)


def detectable(cells: Cells, families: Sequence[Family], limits: Limits) -> float | None:
    """Returns from which ratio on most candidates of the first family are found nine times in ten.

    None where they have no peers.
    """
    peers = Peers(cells, families, limits)
    least = peers.judged(peers.values)[0].least_found()
    return None if math.isnan(least) else math.exp(min(700.0, least))

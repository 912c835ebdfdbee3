"""Explains slow cells of a table by the fewest causes: one cell, a row, a column, a block.

Cells are logarithms of times, of ranks or of pairs of ranks. A family lists candidates of one kind,
each with its cells: a rank as sender, a link in both directions, all that leaves a node. The
candidate that explains most of the excess is found first, and its cells are set aside.
"""

import math

import numpy as np

from benchkit.statistics.faults.cells import Fault, Limits
from benchkit.statistics.faults.healthy import healthy
from benchkit.statistics.faults.judged import Judged, Residuals
from benchkit.statistics.faults.peers import Peers
from benchkit.statistics.intervals import Array

MOST_FAULTS = 50


def explain(halves: Array, peers: Peers, limits: Limits) -> list[Fault]:
    """Returns the faults of a table, the one that explains most first; none where all are alike.

    A fault is at least `tolerance` slower than its peers, clear against the spread of the healthy
    cells at a level of `alpha` over the number of candidates (Bonferroni), and persistent: both
    halves of the samples show it. How clearly they must follows from the candidates that only one
    half shows, which noise explains; so spikes raise the limit and make no faults.

    Args:
        halves: logarithm of the median time over the first and over the second half of the
            samples: [2][cell].
        peers: what is compared with what.
        limits: what counts as a fault.
    """
    values = padded(halves)
    found: list[Fault] = []
    while len(found) < MOST_FAULTS:
        judged = [each.best() for each in judge(values, peers, limits)]
        best = int(np.argmax([gain for gain, _ in judged])) if judged else 0
        fault = judged[best][1] if judged else None
        if fault is None:
            break
        found.append(fault)
        family = peers.families[best]
        position = int(np.flatnonzero(family.subjects == fault.subject)[0])
        values[:, family.cells[position]] = np.nan
    return found


def faster(halves: Array, peers: Peers, limits: Limits) -> list[Fault]:
    """Returns what is faster than its peers; where it is much, perhaps the others are slow."""
    return explain(-halves, peers, limits)


def detectable(halves: Array, peers: Peers, limits: Limits) -> float | None:
    """Returns from which ratio on most candidates of the first family are found nine times in ten.

    None where they have no peers.
    """
    least = judge(padded(halves), peers, limits)[0].least_found()
    return None if math.isnan(least) else math.exp(min(700.0, least))


def padded(halves: Array) -> Array:
    """Returns a copy with an empty cell for the places of candidates that have fewer: [2][cell]."""
    return np.append(halves.astype(np.float64), [[np.nan], [np.nan]], axis=1)


def judge(values: Array, peers: Peers, limits: Limits) -> list[Judged]:
    """Returns every family, judged by what is not explained yet."""
    families = peers.judged
    level = limits.alpha / max(1, sum(len(each.subjects) for each in families))  # Bonferroni
    found = residuals(values, peers, limits.floor)
    return [Judged(each, found, level, limits, len(families)) for each in families]


def residuals(values: Array, peers: Peers, floor: float) -> Residuals:
    """Returns how far each cell is from the healthy cells of its kind."""
    found, sd = np.full_like(values, np.nan), np.full(values.shape[1], np.nan)
    df = np.full(values.shape[1], np.nan)
    kinds = np.append(peers.kinds, -1)
    known = np.flatnonzero(np.isfinite(values[0]))
    known = known[np.argsort(kinds[known], kind="stable")]
    starts = np.flatnonzero(np.diff(kinds[known])) + 1
    for own in np.split(known, starts):
        if len(own) < 3:  # two can only differ from each other
            continue
        share = float(peers.healthy_shares[kinds[own[0]]])
        halves = values[:, own]
        whole = healthy(halves.mean(axis=0), share)
        between = healthy(halves[0] - halves[1])
        sd[own] = max(whole.sd, between.sd / 2, floor)
        df[own] = whole.count - 1
        usual = np.abs(halves.mean(axis=0) - whole.centre) <= 3 * sd[own]
        centres = halves[:, usual].mean(axis=1) if usual.any() else np.full(2, whole.centre)
        found[:, own] = halves - centres[:, None]
    return Residuals(found, sd, df, kinds)

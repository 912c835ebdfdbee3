"""Explains slow cells of a table by the fewest causes: one cell, a row, a column, a block.

Cells are logarithms of times, of ranks or of pairs of ranks. A family lists candidates of one kind,
each with its cells: a rank as sender, a link in both directions, all that leaves a node. The
candidate that explains most of the excess is found first, and its cells are set aside.
"""

import math
from collections.abc import Sequence

import numpy as np

from benchkit.statistics.faults.cells import Cells, Family, Fault, Ints, Limits
from benchkit.statistics.faults.healthy import healthy, t_quantile
from benchkit.statistics.faults.judged import Judged
from benchkit.statistics.intervals import Array

MOST_FAULTS = 50


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


def detectable(cells: Cells, families: Sequence[Family], limits: Limits) -> float | None:
    """Returns from which ratio on a single slow cell is found; None where it has no peers."""
    values = np.append(cells.halves.astype(np.float64), [[np.nan], [np.nan]], axis=1)
    _, sd, df = standardize(values, cells.kinds, limits.floor)
    if df < 1:
        return None
    tests = sum(len(each.subjects) for each in families)
    clear = t_quantile(limits.alpha / max(1, tests), df) * float(np.nanmax(sd))
    return math.exp(min(700.0, max(clear, math.log1p(limits.tolerance))))

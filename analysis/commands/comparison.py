"""Compares the points of two places by the figures of their runs.

Each run gives one figure per point. The ratio is the shift of the logarithms of these figures, with
its interval by the rank sum: the runs of the two places are no pairs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.environments import ENVIRONMENT
from analysis.report.naming import settings
from analysis.table import combine, identity_columns
from benchkit.statistics.compare.rank_sum import RankSum
from benchkit.statistics.compare.spread import standard_deviation
from benchkit.statistics.compare.verdicts import SAME, Limits, limits_of, word_for
from benchkit.statistics.intervals import Array

INDICATIVE = "unpaired, indicative"
"""Stands in place of a word where a side has a single run: how much runs differ is not known."""
LEVEL = 0.05
SIDES = ("A", "B")
Row = Mapping[str, Any]
Figures = dict[str, Array]
"""Of a point, by side: the logarithm of each run's figure."""


@dataclass
class Comparison:
    """The points of two places, A and B.

    Attributes:
        points: one row for each point that both have measured: settings and results.
        settings: the columns of `points` that are settings.
        unmatched: the points that only one place has measured, or none, each with the reason.
    """

    points: pd.DataFrame
    settings: list[str]
    unmatched: list[str]

    @property
    def words(self) -> list[str]:
        """The words of points with several runs on both sides."""
        return [word for word in self.points.get("verdict", ()) if word != INDICATIVE]


def compare(
    first: Sequence[Row], second: Sequence[Row], *, statistic: str, fail_on: float
) -> Comparison:
    """Match the points of two places by settings and labels, and compare their figures.

    Args:
        first: rows of the place A, the baseline.
        second: rows of the place B, the candidate.
        statistic: the column of the figure.
        fail_on: the least change that matters, as a share.
    """
    table = combine([*first, *second])
    side = np.where(np.arange(len(table)) < len(first), *SIDES)
    alike = [name for name in identity_columns(table) if name not in ENVIRONMENT]
    differing = [name for name in alike if table[name].nunique(dropna=False) > 1]
    cells: list[dict[str, Any]] = []
    matched: list[Figures] = []
    unmatched: list[str] = []
    for _, rows in table.groupby(alike, dropna=False, sort=False):
        of_side = {name: rows[side[rows.index] == name] for name in SIDES}
        found = {name: log_figures(own, statistic) for name, own in of_side.items()}
        if all(map(len, found.values())):
            cells.append(rows.iloc[0][alike].to_dict())
            matched.append(found)
        else:
            name = settings(rows.iloc[0], differing) or str(rows["suite"].iloc[0])
            reasons = [
                f"{place}: {'/'.join(own['status'].unique()) or 'missing'}"
                for place, own in of_side.items()
                if not len(found[place])
            ]
            unmatched.append(f"{name} ({', '.join(reasons)})")
    results = results_of(matched, fail_on)
    points = [cell | result for cell, result in zip(cells, results, strict=True)]
    return Comparison(pd.DataFrame(points), alike, unmatched)


def log_figures(rows: pd.DataFrame, statistic: str) -> Array:
    """Return the logarithm of the figure of each run that measured a point: [run]."""
    measured = rows[rows["status"] == "ok"]
    figures = measured.groupby("run")[statistic].median()
    return np.asarray(np.log(figures[figures > 0].to_numpy(dtype=float)))


def results_of(points: Sequence[Figures], fail_on: float) -> list[dict[str, Any]]:
    """Return ratio, interval, spreads and verdict of each point, by column."""
    tests = [RankSum(*found.values()) for found in points]
    repeated = [min(map(len, found.values())) > 1 for found in points]
    judged = [test for test, several in zip(tests, repeated, strict=True) if several]
    limits = iter(limits_of(judged, [None] * len(judged), fail_on=fail_on, level=LEVEL))
    results = []
    for found, test, several in zip(points, tests, repeated, strict=True):
        results.append({
            **{f"{side}_s": math.exp(np.median(logs)) for side, logs in found.items()},
            **{f"{side}_runs": len(logs) for side, logs in found.items()},
            **{f"{side}_spread": standard_deviation(logs) for side, logs in found.items()},
            "ratio": math.exp(test.estimate),
            **(verdict_cells(test, next(limits)) if several else {"verdict": INDICATIVE}),
        })  # fmt: skip
    return results


def fewest_runs(num_points: int) -> int:
    """Return how many runs on each side have an interval whatever the other points show.

    Of n and n runs without overlap the p-value is 2 / (2n choose n).
    """
    runs = 2
    while 2 / math.comb(2 * runs, runs) > LEVEL / num_points:
        runs += 1
    return runs


def verdict_cells(test: RankSum, limits: Limits) -> dict[str, Any]:
    """Return the word on a point and its interval, which is left out where runs are too few."""
    word = word_for(test, limits)
    alpha = limits.alpha_same if word == SAME else limits.alpha
    low, high = test.interval(alpha)
    ends = {} if math.isinf(high) else {"ratio_low": math.exp(low), "ratio_high": math.exp(high)}
    return {**ends, "confidence": 1 - alpha, "verdict": word}

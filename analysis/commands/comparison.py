"""Compares the points of two places by the figures of their runs.

Each run gives one figure per point. The ratio is the shift of the logarithms of these figures, with
its interval by the rank sum: the runs of the two places are no pairs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.environments import ENVIRONMENT
from analysis.records.figures import CaseRow
from analysis.report.naming import settings
from analysis.table import combine, identity_columns
from benchkit.statistics.compare.rank_sum import RankSum
from benchkit.statistics.compare.spread import standard_deviation
from benchkit.statistics.compare.tails import Change, changes
from benchkit.statistics.compare.verdicts import SAME, Limits, limits_of, word_for
from benchkit.statistics.intervals import Array

INDICATIVE = "unpaired, indicative"
"""Stands in place of a word where a side has a single run: how much runs differ is not known."""
LEVEL = 0.05
SIDES = ("A", "B")
SEED = "seed"
"""No part of what matches: the pairs of `python -m benchkit compare` have a seed each."""
SLOW_SHARE = "slow_mode_share"
SECONDARY = ("p95_s", "p99_s", SLOW_SHARE)
"""Figures beside the chosen one; they decide no verdict."""
Figures = dict[str, pd.DataFrame]
"""Of a point, by side: the figures of each run, [run, figure]."""


@dataclass
class Comparison:
    """The points of two places, A and B.

    Attributes:
        points: one row for each point that both have measured: settings and results.
        settings: the columns of `points` that are settings.
        unmatched: the points that only one place has measured, or none, each with the reason.
        mean: of the ratios of all points, a geometric mean over the runs that have all of them.
        secondary: by row of `points` and figure, what differs; logarithms, or shares of slow times.
    """

    points: pd.DataFrame
    settings: list[str]
    unmatched: list[str]
    mean: RankSum
    secondary: dict[tuple[int, str], Change]

    @property
    def words(self) -> list[str]:
        """The words of points with several runs on both sides."""
        return [word for word in self.points.get("verdict", ()) if word != INDICATIVE]


def compare(
    first: Sequence[CaseRow], second: Sequence[CaseRow], *, statistic: str, fail_on: float
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
    alike = [name for name in identity_columns(table) if name not in (*ENVIRONMENT, SEED)]
    differing = [name for name in alike if table[name].nunique(dropna=False) > 1]
    cells: list[dict[str, Any]] = []
    matched: list[Figures] = []
    unmatched: list[str] = []
    for _, rows in table.groupby(alike, dropna=False, sort=False):
        of_side = {name: rows[side[rows.index] == name] for name in SIDES}
        found = {name: figures_of(own, statistic) for name, own in of_side.items()}
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
    results = results_of(matched, statistic, fail_on)
    points = [cell | result for cell, result in zip(cells, results, strict=True)]
    tests = dict(secondary_tests(matched, statistic))
    found_beside = {key: each for key, each in changes(tests, LEVEL).items() if each.is_significant}
    return Comparison(
        pd.DataFrame(points), alike, unmatched, mean_of(matched, statistic), found_beside
    )


def figures_of(rows: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Return the figures of each run that measured a point: [run, figure]."""
    measured = rows[rows["status"] == "ok"]
    figures = measured.groupby("run")[list(dict.fromkeys((statistic, *SECONDARY)))].median()
    return figures[figures[statistic] > 0]


def logs(figures: pd.DataFrame, name: str) -> Array:
    """Return the logarithms of a figure: [run]."""
    return np.asarray(np.log(figures[name].to_numpy(dtype=float)))


def results_of(points: Sequence[Figures], statistic: str, fail_on: float) -> list[dict[str, Any]]:
    """Return ratio, interval, spreads and verdict of each point, by column."""
    of_sides = [{side: logs(own, statistic) for side, own in found.items()} for found in points]
    tests = [RankSum(*found.values()) for found in of_sides]
    repeated = [is_repeated(found) for found in points]
    judged = [test for test, several in zip(tests, repeated, strict=True) if several]
    limits = iter(limits_of(judged, [None] * len(judged), fail_on=fail_on, level=LEVEL))
    results = []
    for found, test, several in zip(of_sides, tests, repeated, strict=True):
        results.append({
            **{f"{side}_s": math.exp(np.median(own)) for side, own in found.items()},
            **{f"{side}_runs": len(own) for side, own in found.items()},
            **{f"{side}_spread": standard_deviation(own) for side, own in found.items()},
            "ratio": math.exp(test.estimate),
            **(verdict_cells(test, next(limits)) if several else {"verdict": INDICATIVE}),
        })  # fmt: skip
    return results


def is_repeated(found: Figures) -> bool:
    """Return whether both sides have several runs of a point."""
    return min(map(len, found.values())) > 1


def mean_of(points: Sequence[Figures], statistic: str) -> RankSum:
    """Return the shift of the mean logarithm over all points, of the runs that have all of them."""
    means = [
        pd.concat([np.log(found[side][statistic]) for found in points], axis="columns")
        .dropna()
        .mean(axis="columns")
        .to_numpy(dtype=float)
        if points
        else np.empty(0)
        for side in SIDES
    ]
    return RankSum(*means)


def secondary_tests(
    points: Sequence[Figures], statistic: str
) -> Iterator[tuple[tuple[int, str], RankSum]]:
    """Yield the test of each secondary figure of repeated points, by position and figure.

    A run whose times have one mode has no slow times where another run has two modes.
    """
    for number, found in enumerate(points):
        if not is_repeated(found):
            continue
        for name in SECONDARY:
            if name == SLOW_SHARE:
                shares = [own[name].astype(float) for own in found.values()]
                if any(each.notna().any() for each in shares):
                    yield (number, name), RankSum(*(each.fillna(0).to_numpy() for each in shares))
            elif name != statistic:
                yield (number, name), RankSum(*(logs(own, name) for own in found.values()))


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

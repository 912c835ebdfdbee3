"""Compares the points of two places by how their runs ended, and by the figures of their runs.

Each run gives one figure per point. The ratio is the shift of the logarithms of these figures, with
its interval by the rank sum: the runs of the two places are no pairs.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.verdicts import (
    FAILED,
    SAME,
    OutcomeCounts,
    VerdictLimits,
    limits_of,
    word_by_outcomes,
    word_for,
)
from analysis.records.environments import ENVIRONMENT
from analysis.records.figures import CaseRow
from analysis.records.harvest import Plan
from analysis.records.rows import DIMENSIONS
from analysis.report.naming import settings
from analysis.table import combine, identity_columns
from analysis.text import shortened
from benchkit.record.naming import depends_on_time
from benchkit.record.record import HARMLESS, UNFINISHED
from benchkit.statistics.intervals import Array
from benchkit.statistics.multiplicity import Change, changes
from benchkit.statistics.power import standard_deviation
from benchkit.statistics.rank_tests import RankSum

INDICATIVE = "unpaired, indicative"
"""Stands in place of a word where a side has a single run: how much runs differ is not known."""
LEVEL = 0.05
SIDES = ("A", "B")
SEED = "seed"
"""No part of what matches: the pairs of `python -m benchkit compare` have a seed each."""
SLOW_SHARE = "slow_mode_share"
SECONDARY = ("p95_s", "p99_s", SLOW_SHARE)
"""Figures beside the chosen one; they decide no verdict."""
MISSING, NO_CASE, LEFT_OUT = "missing", "no such case", "left out"
"""How a run ended for a point where there is no record, or no case in it; LEFT_OUT by the suite."""
UNKNOWN = dict.fromkeys(("A_s", "B_s", "A_spread", "B_spread", "ratio"), math.nan)
"""Of a point that figures do not decide."""
Figures = dict[str, pd.DataFrame]
"""Of a point, by side: the figures of each run, [run, figure]."""
Labels = frozenset[tuple[str, Any]]
Settings = tuple[Any, ...]


@dataclass
class Run:
    """One run of a point of a sweep: its record, or that it was planned.

    Attributes:
        point_id: identity of its configuration.
        is_planned: whether the manifest of its sweep is there.
        statuses: how its cases ended, by their labels; without cases, how the run ended by none.
        rows: the positions of its cases in the table, by their labels.
        reason: the first one that a case gives.
    """

    point_id: str
    is_planned: bool
    statuses: dict[Labels, str] = field(default_factory=dict)
    rows: dict[Labels, list[int]] = field(default_factory=dict)
    reason: str = ""

    def add(self, labels: Labels, position: int, row: CaseRow) -> None:
        if self.statuses.get(labels, "ok") == "ok":
            self.statuses[labels] = row["status"]
        self.rows.setdefault(labels, []).append(position)
        self.reason = self.reason or shortened(row["reason"] or "")

    def may_have(self, labels: Labels) -> bool:
        """Return whether nothing tells that the run was to measure other cases."""
        return not self.statuses or any(less <= labels for less in self.statuses)

    def status_of(self, labels: Labels) -> str:
        """Return how the run ended for a case.

        A job that fails as a whole, or does not fit, may have less labels than its cases.
        """
        if labels in self.statuses:
            return self.statuses[labels]
        for less, status in self.statuses.items():
            if less < labels and status != "ok":
                return status
        if not self.statuses:
            return MISSING
        return LEFT_OUT if depends_on_time(dict(labels)) else NO_CASE


Runs = dict[str, list[Run]]
"""By side."""


@dataclass
class Comparison:
    """The points of two places, A and B.

    Attributes:
        points: a row for each point, settings and results; first those that figures decide.
        settings: the columns of `points` that are settings.
        names: what sets each point apart from the others.
        num_matched: how many points figures decide.
        mean: of the ratios of these, a geometric mean over the runs that have all of them.
        secondary: by row of `points` and figure, what differs; logarithms, or shares of slow times.
    """

    points: pd.DataFrame
    settings: list[str]
    names: list[str]
    num_matched: int
    mean: RankSum
    secondary: dict[tuple[int, str], Change]

    @property
    def words(self) -> list[str]:
        return list(self.points["verdict"])


def compare(
    sides: Sequence[Sequence[CaseRow]], plans: Sequence[Plan], *, statistic: str, fail_on: float
) -> Comparison:
    """Match the points of two places by settings and labels, and compare their runs.

    Args:
        sides: rows of the place A, the baseline, and of B, the candidate.
        fail_on: the least change that matters, as a share.
    """
    table = combine([row for rows in sides for row in rows])
    alike = [name for name in identity_columns(table) if name not in (*ENVIRONMENT, SEED)]
    differing = [name for name in alike if table[name].nunique(dropna=False) > 1]
    by_settings, unknown = runs_of(sides, plans, alike)
    figures_in = table[["run", "status", *dict.fromkeys((statistic, *SECONDARY))]]
    matched: list[tuple[dict[str, object], Figures]] = []
    others: list[dict[str, object]] = []
    for runs in by_settings.values():
        for labels, of_point in points_of(runs):
            places = {side: positions(own, labels) for side, own in of_point.items()}
            found = {
                side: figures_of(figures_in.iloc[own], statistic) for side, own in places.items()
            }
            row = table.iloc[[*places["A"], *places["B"]][0]]
            name = settings(row, differing) or str(row["suite"])
            cells = {"name": name, **row[alike].to_dict(), **ends_of(of_point, labels)}
            if cells["verdict"]:
                others.append(cells | UNKNOWN)
            else:
                matched.append((cells, found))
    # Cells of a setting that is not known stay empty.
    gone = {"A_runs": 0, "A_planned": 0, "B_runs": 0, "B_planned": 1} | UNKNOWN
    others += [
        {"name": name, **gone, "verdict": FAILED, "reason": f"B: {MISSING}: {name}"}
        for name in unknown
    ]
    figures = [found for _, found in matched]
    results = results_of(figures, statistic, fail_on)
    rows = [cells | result for (cells, _), result in zip(matched, results, strict=True)]
    tests = dict(secondary_tests(figures, statistic))
    found_beside = {key: each for key, each in changes(tests, LEVEL).items() if each.is_significant}
    points = pd.DataFrame([*rows, *others])
    return Comparison(
        points.drop(columns="name"), alike, list(points["name"]), len(matched),
        mean_of(figures, statistic), found_beside,
    )  # fmt: skip


def runs_of(
    sides: Sequence[Sequence[CaseRow]], plans: Sequence[Plan], names: Sequence[str]
) -> tuple[dict[Settings, Runs], list[str]]:
    """Return the runs of each side by the settings of their points, and what else B was to measure.

    A run without a record is told by the key that it shares with others of its point.
    """
    found: dict[Settings, Runs] = {}
    # What is a label of some cases may be a setting of others: of a single size, or of several.
    in_cases = {name for rows in sides for row in rows for name in row.case.cells}
    held = [name for name in (*names, *DIMENSIONS) if name not in in_cases]
    told = [name for name in names if name in in_cases]
    known: dict[tuple[str, str], tuple[Settings, str]] = {}
    position = 0
    for side, rows, plan in zip(SIDES, sides, plans, strict=True):
        keys = {run.path: run.key for run in plan.runs}
        by_path: dict[str, Run] = {}
        for row in rows:
            path, point_id = str(row["path"]), str(row["point_id"])
            shared = tuple(row.shared.get(name) for name in held)
            if path not in by_path:
                by_path[path] = Run(point_id, path in keys)
                found.setdefault(shared, {side: [] for side in SIDES})[side].append(by_path[path])
                if path in keys:
                    known[side, keys[path]] = shared, point_id
            labels = {name: row.get(name) for name in told}
            shown = frozenset(item for item in labels.items() if item[1] is not None)
            by_path[path].add(shown, position, row)
            position += 1
    unknown = {}
    for side, other, plan in zip(SIDES, SIDES[::-1], plans, strict=True):
        for run in plan.runs:
            if not run.is_missing:
                continue
            if of_key := known.get((side, run.key)) or known.get((other, run.key)):
                found[of_key[0]][side].append(Run(of_key[1], True))
            elif side == "B":
                unknown[run.key] = run.name
    return found, list(unknown.values())


def points_of(runs: Runs) -> Iterator[tuple[Labels, Runs]]:
    """Yield the cases of points with the same settings, and the runs that were to measure each.

    Lists of a configuration are no settings, so that runs of several points may be here. Where no
    case tells of a run which point it is of, it was to measure all that it has no other labels of.
    """
    every = [run for own in runs.values() for run in own]
    found = dict.fromkeys(labels for run in every for labels in run.statuses)
    homes = {
        labels: {run.point_id for run in every if labels in run.statuses}
        for labels in found
        if any(run.statuses.get(labels) == "ok" for run in every)
        or not any(labels < more for more in found)
    }
    settled = set().union(*homes.values())
    for labels, home in homes.items():
        of_point = {
            side: [
                run
                for run in own
                if run.point_id in home or (run.point_id not in settled and run.may_have(labels))
            ]
            for side, own in runs.items()
        }
        yield labels, of_point


def positions(runs: Iterable[Run], labels: Labels) -> list[int]:
    return [position for run in runs for position in run.rows.get(labels, ())]


def ends_of(runs: Runs, labels: Labels) -> dict[str, object]:
    """Return how the runs of a point ended, by column; the verdict is "" where figures decide it.

    Where B does not say how many runs it planned, these are as many as A has.
    """
    cells: dict[str, object] = {}
    reasons, ends = [], []
    for side, own in runs.items():
        statuses = Counter(run.status_of(labels) for run in own)
        if side == "B" and not any(run.is_planned for run in own):
            statuses[MISSING] += max(0, len(runs["A"]) - len(own))
        del statuses[LEFT_OUT]
        if side == "A" and {*statuses} == {NO_CASE}:
            statuses.clear()  # a case that is new in B
        bad = {status: number for status, number in statuses.items() if status != "ok" and number}
        not_failed = (*HARMLESS, *UNFINISHED, MISSING, NO_CASE)
        failed = sum(number for status, number in bad.items() if status not in not_failed)
        ends.append(OutcomeCounts(statuses.total(), sum(bad.values()), failed))
        cells |= {f"{side}_runs": statuses["ok"], f"{side}_planned": statuses.total()}
        if bad or not statuses.total():
            why = next((r.reason for r in own if r.reason and r.status_of(labels) in bad), "")
            ended = described(bad, statuses.total()) or (LEFT_OUT if own else MISSING)
            reasons.append(f"{side}: {ended}{why and f': {why}'}")
    return cells | {"verdict": word_by_outcomes(*ends), "reason": "; ".join(reasons)}


def described(bad: Mapping[str, int], planned: int) -> str:
    """Return how runs without a result ended: "crash in 2 of 4 runs"."""
    if planned < 2:
        return "/".join(bad)
    return ", ".join(f"{status} in {number} of {planned} runs" for status, number in bad.items())


def figures_of(rows: pd.DataFrame, statistic: str) -> pd.DataFrame:
    measured = rows[rows["status"] == "ok"]
    figures = measured.groupby("run")[list(dict.fromkeys((statistic, *SECONDARY)))].median()
    return figures[figures[statistic] > 0]


def logs(figures: pd.DataFrame, name: str) -> Array:
    return np.asarray(np.log(figures[name].to_numpy(dtype=float)))


def results_of(
    points: Sequence[Figures], statistic: str, fail_on: float
) -> list[dict[str, object]]:
    """Return ratio, interval, spreads and verdict of each point, by column."""
    of_sides = [{side: logs(own, statistic) for side, own in found.items()} for found in points]
    tests = [RankSum(*found.values()) for found in of_sides]
    repeated = [is_repeated(found) for found in points]
    judged = [test for test, several in zip(tests, repeated, strict=True) if several]
    limits = iter(limits_of(judged, [None] * len(judged), fail_on=fail_on, alpha=LEVEL))
    results = []
    for found, test, several in zip(of_sides, tests, repeated, strict=True):
        results.append({
            **{f"{side}_s": math.exp(np.median(own)) for side, own in found.items()},
            **{f"{side}_spread": standard_deviation(own) for side, own in found.items()},
            "ratio": math.exp(test.estimate),
            **(verdict_cells(test, next(limits)) if several else {"verdict": INDICATIVE}),
        })  # fmt: skip
    return results


def is_repeated(found: Figures) -> bool:
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


def verdict_cells(test: RankSum, limits: VerdictLimits) -> dict[str, object]:
    """Return the word on a point and its interval, which is left out where runs are too few."""
    word = word_for(test, limits)
    alpha = limits.alpha_same if word == SAME else limits.alpha
    low, high = test.interval(alpha)
    ends = {} if math.isinf(high) else {"ratio_low": math.exp(low), "ratio_high": math.exp(high)}
    return {**ends, "confidence": 1 - alpha, "verdict": word}

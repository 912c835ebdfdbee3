"""Compare the points of two places by how their runs ended, and by the metrics of their runs.

Each run gives one figure per point. The ratio is the shift of the logarithms of these figures, with
its interval by the rank sum: the runs of the two places are no pairs.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.points import (
    LEFT_OUT,
    MISSING,
    OK,
    CaseOutcome,
    CaseOutcomes,
    Labels,
    count_outcomes,
    labels_in,
    planned_statuses,
)
from analysis.compare.report import SecondaryChange
from analysis.compare.verdicts import FAILED, PointVerdict, judge_points, word_by_outcomes
from analysis.records.environments import ENVIRONMENT
from analysis.records.harvest import PlannedRuns
from analysis.records.results import CaseRow
from analysis.records.rows import DIMENSIONS
from analysis.report.naming import settings
from analysis.shared.text import shorten_reason
from analysis.table.combine import combine, identity_columns
from benchkit.statistics.intervals import ALPHA, Array
from benchkit.statistics.multiplicity import changes
from benchkit.statistics.power import standard_deviation
from benchkit.statistics.rank_tests import RankSum

INDICATIVE = "unpaired, indicative"
"""Stands in place of a word where a side has a single run: how much runs differ is not known."""
SIDES = ("A", "B")
SEED = "seed"
"""No part of what matches: the pairs of `python -m benchkit compare` have a seed each."""
SLOW_SHARE = "slow_mode_share"
SECONDARY = ("p95_s", "p99_s", SLOW_SHARE)
"""Metrics beside the chosen one; they decide no verdict."""
UNKNOWN = dict.fromkeys(("A_s", "B_s", "A_spread", "B_spread", "ratio"), math.nan)
"""Of a point that metrics do not decide."""
Figures = dict[str, pd.DataFrame]
"""Of a point, by side: the metrics of each run, [run, metric]."""
Settings = tuple[Any, ...]


@dataclass
class RecordedRun(CaseOutcomes):
    """One run of a point of a sweep: its record, or that it was planned.

    Attributes:
        point_id: identity of its configuration.
        is_planned: whether the manifest of its sweep is there.
        rows: the positions of its cases in the table, by their labels.
    """

    point_id: str = ""
    is_planned: bool = False
    rows: dict[Labels, list[int]] = field(default_factory=dict)

    def add(self, labels: Labels, position: int, row: CaseRow) -> None:
        if labels not in self.outcomes or self.outcomes[labels].status == OK:
            self.outcomes[labels] = CaseOutcome(row["status"], shorten_reason(row["reason"] or ""))
        self.rows.setdefault(labels, []).append(position)


Runs = dict[str, list[RecordedRun]]
"""By side."""


@dataclass
class PlacesComparison:
    """The points of two places, A and B.

    Attributes:
        points: a row for each point, settings and results; first those that metrics decide.
        settings: the columns of `points` that are settings.
        names: what sets each point apart from the others.
        statistic, fail_on: by which metric, and the least change that matters.
        num_matched: how many points metrics decide.
        mean: of the ratios of these, a geometric mean over the runs that have all of them.
        secondary: what else differs, and the verdict on its point.
    """

    points: pd.DataFrame
    settings: list[str]
    names: list[str]
    statistic: str
    fail_on: float
    num_matched: int
    mean: RankSum
    secondary: list[tuple[SecondaryChange, PointVerdict | None]]

    @property
    def words(self) -> list[str]:
        return list(self.points["verdict"])


def compare_places(
    sides: Sequence[Sequence[CaseRow]],
    plans: Sequence[PlannedRuns],
    *,
    statistic: str,
    fail_on: float,
) -> PlacesComparison:
    """Match the points of two places by settings and labels, and compare their runs.

    Args:
        sides: rows of the place A, the baseline, and of B, the candidate.
        statistic: p25, median, mean or p95 of the times of each run.
        fail_on: the least change that matters, as a share.
    """
    metric = f"{statistic}_s"
    table = combine([row for rows in sides for row in rows])
    alike = [name for name in identity_columns(table) if name not in (*ENVIRONMENT, SEED)]
    differing = [name for name in alike if table[name].nunique(dropna=False) > 1]
    by_settings, unknown = match_runs(sides, plans, alike)
    figures_in = table[["run", "status", *dict.fromkeys((metric, *SECONDARY))]]
    matched: list[dict[str, object]] = []
    others: list[dict[str, object]] = []
    figures: list[Figures] = []
    for runs in by_settings.values():
        for labels, of_point in match_cases(runs):
            places = {side: positions(own, labels) for side, own in of_point.items()}
            row = table.iloc[[*places["A"], *places["B"]][0]]
            name = settings(row, differing) or str(row["suite"])
            cells = {"name": name, **row[alike].to_dict(), **outcome_cells(of_point, labels)}
            if cells["verdict"]:
                others.append(cells | UNKNOWN)
                continue
            matched.append(cells)
            figures.append({
                side: run_metrics(figures_in.iloc[own], metric) for side, own in places.items()
            })  # fmt: skip
    # Cells of a setting that is not known stay empty.
    gone = {"A_runs": 0, "A_planned": 0, "B_runs": 0, "B_planned": 1} | UNKNOWN
    others += [
        {"name": name, **gone, "verdict": FAILED, "reason": f"B: {MISSING}: {name}"}
        for name in unknown
    ]
    verdicts = judge_repeated(figures, metric, fail_on)
    rows = [
        cells | figure_cells(found, verdict, metric)
        for cells, found, verdict in zip(matched, figures, verdicts, strict=True)
    ]
    points = pd.DataFrame([*rows, *others])
    names = list(points["name"])
    tests = dict(secondary_tests(figures, metric))
    secondary = [
        (
            SecondaryChange(
                names[number], "", figure.removesuffix("_s"), figure == SLOW_SHARE, change
            ),
            verdicts[number],
        )
        for (number, figure), change in changes(tests).items()
        if change.is_significant
    ]
    return PlacesComparison(
        points.drop(columns="name"), alike, names, statistic, fail_on,
        len(matched), mean_of(figures, metric), secondary,
    )  # fmt: skip


def match_runs(
    sides: Sequence[Sequence[CaseRow]], plans: Sequence[PlannedRuns], names: Sequence[str]
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
        by_path: dict[str, RecordedRun] = {}
        for row in rows:
            path, point_id = str(row["path"]), str(row["point_id"])
            shared = tuple(row.shared.get(name) for name in held)
            if path not in by_path:
                by_path[path] = RecordedRun(point_id=point_id, is_planned=path in keys)
                found.setdefault(shared, {side: [] for side in SIDES})[side].append(by_path[path])
                if path in keys:
                    known[side, keys[path]] = shared, point_id
            labels = {name: row.get(name) for name in told}
            shown = tuple(item for item in labels.items() if item[1] is not None)
            by_path[path].add(shown, position, row)
            position += 1
    unknown = {}
    for side, other, plan in zip(SIDES, SIDES[::-1], plans, strict=True):
        for run in plan.runs:
            if not run.is_missing:
                continue
            if of_key := known.get((side, run.key)) or known.get((other, run.key)):
                found[of_key[0]][side].append(RecordedRun(point_id=of_key[1], is_planned=True))
            elif side == "B":
                unknown[run.key] = run.name
    return found, list(unknown.values())


def match_cases(runs: Runs) -> Iterator[tuple[Labels, Runs]]:
    """Yield the cases of points with the same settings, and the runs that were to measure each.

    Lists of a configuration are no settings, so that runs of several points may be here. Where no
    case tells of a run which point it is of, it was to measure all that it has no other labels of.
    """
    every = [run for own in runs.values() for run in own]
    homes = {
        labels: {run.point_id for run in every if labels in run.outcomes}
        for labels in labels_in(every)
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


def positions(runs: Iterable[RecordedRun], labels: Labels) -> list[int]:
    return [position for run in runs for position in run.rows.get(labels, ())]


def outcome_cells(runs: Runs, labels: Labels) -> dict[str, object]:
    """Return how the runs of a point ended, by column; the verdict is "" where metrics decide it.

    Where B does not say how many runs it planned, these are as many as A has.
    """
    cells: dict[str, object] = {}
    reasons, counts = [], []
    for side, own in runs.items():
        outcomes = [run.outcome_of(labels) for run in own]
        if side == "B" and not any(run.is_planned for run in own):
            outcomes += [CaseOutcome(MISSING)] * (len(runs["A"]) - len(own))
        statuses = planned_statuses(outcomes, is_baseline=side == "A")
        counts.append(count_outcomes(statuses))
        cells |= {f"{side}_runs": statuses[OK], f"{side}_planned": statuses.total()}
        bad = {status: number for status, number in statuses.items() if status != OK}
        if bad:
            why = next((each.reason for each in outcomes if each.reason and each.status in bad), "")
            reasons.append(f"{side}: {described(bad, statuses.total())}{why and f': {why}'}")
        elif not statuses:
            reasons.append(f"{side}: {LEFT_OUT if own else MISSING}")
    return cells | {"verdict": word_by_outcomes(*counts), "reason": "; ".join(reasons)}


def described(bad: Mapping[str, int], planned: int) -> str:
    """Return how runs without a result ended: "crash in 2 of 4 runs"."""
    if planned < 2:
        return "/".join(bad)
    return ", ".join(f"{status} in {number} of {planned} runs" for status, number in bad.items())


def run_metrics(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    measured = rows[rows["status"] == "ok"]
    figures = measured.groupby("run")[list(dict.fromkeys((metric, *SECONDARY)))].median()
    return figures[figures[metric] > 0]


def logs(figures: pd.DataFrame, name: str) -> Array:
    return np.asarray(np.log(figures[name].to_numpy(dtype=float)))


def judge_repeated(
    points: Sequence[Figures], metric: str, fail_on: float
) -> list[PointVerdict | None]:
    """Return the verdict on each point; None where a side has a single run."""
    tests = [rank_sum_of(found, metric) for found in points if has_replicates(found)]
    judged = iter(judge_points(tests, [None] * len(tests), fail_on=fail_on))
    return [next(judged) if has_replicates(found) else None for found in points]


def rank_sum_of(found: Figures, metric: str) -> RankSum:
    return RankSum(*(logs(own, metric) for own in found.values()))


def figure_cells(found: Figures, verdict: PointVerdict | None, metric: str) -> dict[str, object]:
    """Return ratio, interval, spreads and verdict of a point, by column."""
    sides = {side: logs(own, metric) for side, own in found.items()}
    cells: dict[str, object] = {
        **{f"{side}_s": math.exp(np.median(own)) for side, own in sides.items()},
        **{f"{side}_spread": standard_deviation(own) for side, own in sides.items()},
        "ratio": math.exp(rank_sum_of(found, metric).estimate),
    }
    if not verdict:
        return {**cells, "verdict": INDICATIVE}
    if verdict.has_interval:
        cells |= {"ratio_low": verdict.low, "ratio_high": verdict.high}
    return {**cells, "confidence": verdict.confidence, "verdict": verdict.word}


def has_replicates(found: Figures) -> bool:
    return min(map(len, found.values())) > 1


def mean_of(points: Sequence[Figures], metric: str) -> RankSum:
    """Return the shift of the mean logarithm over all points, of the runs that have all of them."""
    means = [
        pd.concat([np.log(found[side][metric]) for found in points], axis="columns")
        .dropna()
        .mean(axis="columns")
        .to_numpy(dtype=float)
        if points
        else np.empty(0)
        for side in SIDES
    ]
    return RankSum(*means)


def secondary_tests(
    points: Sequence[Figures], metric: str
) -> Iterator[tuple[tuple[int, str], RankSum]]:
    """Yield the test of each secondary metric of repeated points, by position and metric.

    A run whose times have one mode has no slow times where another run has two modes.
    """
    for number, found in enumerate(points):
        if not has_replicates(found):
            continue
        for name in SECONDARY:
            if name == SLOW_SHARE:
                shares = [own[name].astype(float) for own in found.values()]
                if any(each.notna().any() for each in shares):
                    yield (number, name), RankSum(*(each.fillna(0).to_numpy() for each in shares))
            elif name != metric:
                yield (number, name), rank_sum_of(found, name)


def fewest_runs(num_points: int) -> int:
    """Return how many runs on each side have an interval whatever the other points show.

    Of n and n runs without overlap the p-value is 2 / (2n choose n).
    """
    runs = 2
    while 2 / math.comb(2 * runs, runs) > ALPHA / num_points:
        runs += 1
    return runs

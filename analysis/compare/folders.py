"""Compare the points of two folders by the outcomes and the metrics of their runs.

Each run gives one value per point. The ratio is the exponential of the shift of the logarithms of
these values, with its interval by the rank sum: the runs of the two folders are unpaired.
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
from analysis.compare.verdicts import FAILED, CaseVerdict, judge_points, word_by_outcomes
from analysis.records.environments import ENVIRONMENT
from analysis.records.harvest import PlannedRuns
from analysis.records.results import CaseRow
from analysis.records.rows import DIMENSIONS
from analysis.report.naming import settings
from analysis.shared.text import shorten_reason
from analysis.table.combine import combine, identity_columns
from benchkit.statistics.intervals import ALPHA, Array
from benchkit.statistics.multiplicity import judge_secondary_metrics
from benchkit.statistics.power import standard_deviation
from benchkit.statistics.rank_tests import RankSum

INDICATIVE = "unpaired, indicative"
"""In place of a word where a side has a single run: how much runs differ is not known."""
SIDES = ("A", "B")
SEED = "seed"
"""Points match without it: each pair of `python -m benchkit compare` has its own seed."""
SLOW_SHARE = "slow_mode_share"
SECONDARY = ("p95_s", "p99_s", SLOW_SHARE)
"""Metrics beside the chosen one; no verdict follows from them."""
UNKNOWN = dict.fromkeys(("A_s", "B_s", "A_spread", "B_spread", "ratio"), math.nan)
"""Cells of a point whose verdict does not follow from metrics."""
RunMetrics = dict[str, pd.DataFrame]
"""Of a point, by side: the metrics of each run, [run, metric]."""
Settings = tuple[Any, ...]


@dataclass
class RecordedRun(CaseOutcomes):
    """One run of a point of a sweep, recorded or only planned.

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
class FoldersComparison:
    """The points of two folders, A and B.

    Attributes:
        points: a row for each point, settings and results; first those judged by metrics.
        settings: the columns of `points` that are settings.
        names: of the points, by the settings that vary.
        statistic, fail_on: the metric, and the least change of it that matters.
        num_by_metrics: number of points whose verdict follows from metrics.
        mean: of the ratios of these, a geometric mean over the runs that have all of them.
        secondary: secondary metrics that differ, each with the verdict on its point.
    """

    points: pd.DataFrame
    settings: list[str]
    names: list[str]
    statistic: str
    fail_on: float
    num_by_metrics: int
    mean: RankSum
    secondary: list[tuple[SecondaryChange, CaseVerdict | None]]

    @property
    def words(self) -> list[str]:
        return list(self.points["verdict"])


def compare_folders(
    sides: Sequence[Sequence[CaseRow]],
    plans: Sequence[PlannedRuns],
    *,
    statistic: str,
    fail_on: float,
) -> FoldersComparison:
    """Match the points of two folders by settings and labels, and compare their runs.

    Args:
        sides: rows of folder A, the baseline, and of B, the candidate.
        statistic: p25, median, mean or p95 of the times of each run.
        fail_on: the least change that matters, as a share.
    """
    metric = f"{statistic}_s"
    table = combine([row for rows in sides for row in rows])
    match_columns = [name for name in identity_columns(table) if name not in (*ENVIRONMENT, SEED)]
    differing = [name for name in match_columns if table[name].nunique(dropna=False) > 1]
    by_settings, unknown = match_runs(sides, plans, match_columns)
    narrow = table[["run", "status", *dict.fromkeys((metric, *SECONDARY))]]
    by_metrics: list[dict[str, object]] = []
    by_outcomes: list[dict[str, object]] = []
    metrics: list[RunMetrics] = []
    for runs in by_settings.values():
        for labels, runs_of_point in match_cases(runs):
            rows = {side: positions(of_side, labels) for side, of_side in runs_of_point.items()}
            row = table.iloc[[*rows["A"], *rows["B"]][0]]
            name = settings(row, differing) or str(row["suite"])
            cells = {"name": name, **row[match_columns], **outcome_cells(runs_of_point, labels)}
            if cells["verdict"]:
                by_outcomes.append(cells | UNKNOWN)
            else:
                by_metrics.append(cells)
                metrics.append(
                    {side: run_metrics(narrow.iloc[rows[side]], metric) for side in rows}
                )
    # Cells of a setting that is not known stay empty.
    never_measured = {"A_runs": 0, "A_planned": 0, "B_runs": 0, "B_planned": 1} | UNKNOWN
    by_outcomes += [
        {"name": name, **never_measured, "verdict": FAILED, "reason": f"B: {MISSING}: {name}"}
        for name in unknown
    ]
    verdicts = judge_repeated(metrics, metric, fail_on)
    for cells, of_point, verdict in zip(by_metrics, metrics, verdicts, strict=True):
        cells |= metric_cells(of_point, verdict, metric)
    points = pd.DataFrame([*by_metrics, *by_outcomes])
    names = list(points.pop("name"))
    secondary = secondary_changes(names, metrics, verdicts, metric)
    mean = mean_of(metrics, metric)
    return FoldersComparison(
        points, match_columns, names, statistic, fail_on, len(by_metrics), mean, list(secondary)
    )


def match_runs(
    sides: Sequence[Sequence[CaseRow]], plans: Sequence[PlannedRuns], names: Sequence[str]
) -> tuple[dict[Settings, Runs], list[str]]:
    """Group the runs of each side by the settings of their points.

    A run without a record is matched by its key, which it shares with other runs of its point. Also
    return the names of points planned in B that match no settings.
    """
    by_settings: dict[Settings, Runs] = {}
    # A label of some cases may be a setting of others: of a single size, or of several.
    in_cases = {name for rows in sides for row in rows for name in row.case.cells}
    setting_columns = [name for name in (*names, *DIMENSIONS) if name not in in_cases]
    label_columns = [name for name in names if name in in_cases]
    point_of_key: dict[tuple[str, str], tuple[Settings, str]] = {}
    position = 0
    for side, rows, plan in zip(SIDES, sides, plans, strict=True):
        keys = {run.path: run.key for run in plan.runs}
        by_path: dict[str, RecordedRun] = {}
        for row in rows:
            path, point_id = str(row["path"]), str(row["point_id"])
            shared = tuple(row.shared.get(name) for name in setting_columns)
            if path not in by_path:
                by_path[path] = RecordedRun(point_id=point_id, is_planned=path in keys)
                runs = by_settings.setdefault(shared, {side: [] for side in SIDES})
                runs[side].append(by_path[path])
                if path in keys:
                    point_of_key[side, keys[path]] = shared, point_id
            labels = {name: row.get(name) for name in label_columns}
            known_labels = tuple(item for item in labels.items() if item[1] is not None)
            by_path[path].add(known_labels, position, row)
            position += 1
    unknown = {}
    for side, other_side, plan in zip(SIDES, SIDES[::-1], plans, strict=True):
        for run in plan.runs:
            if not run.is_missing:
                continue
            keys_of_sides = (side, run.key), (other_side, run.key)
            if point := next(filter(None, map(point_of_key.get, keys_of_sides)), None):
                shared, point_id = point
                planned = RecordedRun(point_id=point_id, is_planned=True)
                by_settings[shared][side].append(planned)
            elif side == "B":
                unknown[run.key] = run.name
    return by_settings, list(unknown.values())


def match_cases(runs: Runs) -> Iterator[tuple[Labels, Runs]]:
    """Yield the cases of points with the same settings, and the runs planned for each.

    Lists of a configuration are no settings, so that there may be runs of several points. A run
    that no case assigns to a point counts for every case with labels compatible with its own.
    """
    every = [run for runs_of_side in runs.values() for run in runs_of_side]
    ids_of_labels = {
        labels: {run.point_id for run in every if labels in run.outcomes}
        for labels in labels_in(every)
    }
    assigned = set().union(*ids_of_labels.values())
    for labels, point_ids in ids_of_labels.items():
        runs_of_point = {
            side: [
                run
                for run in runs_of_side
                if run.point_id in point_ids
                or (run.point_id not in assigned and run.may_have(labels))
            ]
            for side, runs_of_side in runs.items()
        }
        yield labels, runs_of_point


def positions(runs: Iterable[RecordedRun], labels: Labels) -> list[int]:
    return [position for run in runs for position in run.rows.get(labels, ())]


def outcome_cells(runs: Runs, labels: Labels) -> dict[str, object]:
    """Return the outcomes of the runs of a point, by column; the verdict is "" if metrics decide.

    Without a plan of B, it is assumed to have planned as many runs as A has.
    """
    cells: dict[str, object] = {}
    reasons, counts = [], []
    for side, runs_of_side in runs.items():
        outcomes = [run.outcome_of(labels) for run in runs_of_side]
        if side == "B" and not any(run.is_planned for run in runs_of_side):
            outcomes += [CaseOutcome(MISSING)] * (len(runs["A"]) - len(runs_of_side))
        statuses = planned_statuses(outcomes, is_baseline=side == "A")
        counts.append(count_outcomes(statuses))
        cells |= {f"{side}_runs": statuses[OK], f"{side}_planned": statuses.total()}
        bad = {status: number for status, number in statuses.items() if status != OK}
        if bad:
            why = next(
                (
                    outcome.reason
                    for outcome in outcomes
                    if outcome.reason and outcome.status in bad
                ),
                "",
            )
            reasons.append(f"{side}: {outcomes_text(bad, statuses.total())}{why and f': {why}'}")
        elif not statuses:
            reasons.append(f"{side}: {LEFT_OUT if runs_of_side else MISSING}")
    return cells | {"verdict": word_by_outcomes(*counts), "reason": "; ".join(reasons)}


def outcomes_text(bad: Mapping[str, int], planned: int) -> str:
    """Format the outcomes of runs without a result: "crash in 2 of 4 runs"."""
    if planned < 2:
        return "/".join(bad)
    return ", ".join(f"{status} in {number} of {planned} runs" for status, number in bad.items())


def run_metrics(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    measured = rows[rows["status"] == "ok"]
    medians = measured.groupby("run")[list(dict.fromkeys((metric, *SECONDARY)))].median()
    return medians[medians[metric] > 0]


def logs(metrics: pd.DataFrame, name: str) -> Array:
    return np.asarray(np.log(metrics[name].to_numpy(dtype=float)))


def judge_repeated(
    points: Sequence[RunMetrics], metric: str, fail_on: float
) -> list[CaseVerdict | None]:
    """Return the verdict on each point; None where a side has a single run."""
    tests = [rank_sum_of(metrics, metric) for metrics in points if has_replicates(metrics)]
    judged = iter(judge_points(tests, [None] * len(tests), fail_on=fail_on))
    return [next(judged) if has_replicates(metrics) else None for metrics in points]


def rank_sum_of(metrics: RunMetrics, metric: str) -> RankSum:
    return RankSum(*(logs(values, metric) for values in metrics.values()))


def metric_cells(
    metrics: RunMetrics, verdict: CaseVerdict | None, metric: str
) -> dict[str, object]:
    """Return ratio, interval, deviations and verdict of a point, by column."""
    sides = {side: logs(values, metric) for side, values in metrics.items()}
    cells: dict[str, object] = {
        **{f"{side}_s": math.exp(np.median(values)) for side, values in sides.items()},
        **{f"{side}_spread": standard_deviation(values) for side, values in sides.items()},
        "ratio": math.exp(rank_sum_of(metrics, metric).estimate),
    }
    if not verdict:
        return {**cells, "verdict": INDICATIVE}
    if verdict.has_interval:
        cells |= {"ratio_low": verdict.low, "ratio_high": verdict.high}
    return {**cells, "confidence": verdict.confidence, "verdict": verdict.word}


def has_replicates(metrics: RunMetrics) -> bool:
    return min(map(len, metrics.values())) > 1


def mean_of(points: Sequence[RunMetrics], metric: str) -> RankSum:
    """Return the shift of the mean logarithm over all points, of the runs that have all of them."""
    means = [
        pd.concat([np.log(metrics[side][metric]) for metrics in points], axis="columns")
        .dropna()
        .mean(axis="columns")
        .to_numpy(dtype=float)
        if points
        else np.empty(0)
        for side in SIDES
    ]
    return RankSum(*means)


def secondary_changes(
    names: Sequence[str],
    points: Sequence[RunMetrics],
    verdicts: Sequence[CaseVerdict | None],
    metric: str,
) -> Iterator[tuple[SecondaryChange, CaseVerdict | None]]:
    """Yield the secondary metrics that differ, each with the verdict on its point."""
    tests = dict(secondary_tests(points, metric))
    for (number, column), change in judge_secondary_metrics(tests).items():
        if change.is_significant:
            name = column.removesuffix("_s")
            secondary = SecondaryChange(names[number], "", name, column == SLOW_SHARE, change)
            yield secondary, verdicts[number]


def secondary_tests(
    points: Sequence[RunMetrics], metric: str
) -> Iterator[tuple[tuple[int, str], RankSum]]:
    """Yield the test of each secondary metric of repeated points, by position and metric.

    A run whose times have one mode has no slow times where another run has two modes.
    """
    for number, metrics in enumerate(points):
        if not has_replicates(metrics):
            continue
        for name in SECONDARY:
            if name == SLOW_SHARE:
                shares = [values[name].astype(float) for values in metrics.values()]
                if any(share.notna().any() for share in shares):
                    yield (number, name), RankSum(*(share.fillna(0).to_numpy() for share in shares))
            elif name != metric:
                yield (number, name), rank_sum_of(metrics, name)


def fewest_runs(num_points: int) -> int:
    """Return the least runs per side that have an interval whatever the other points show.

    The p-value of n and n runs without overlap is 2 / (2n choose n).
    """
    runs = 2
    while 2 / math.comb(2 * runs, runs) > ALPHA / num_points:
        runs += 1
    return runs

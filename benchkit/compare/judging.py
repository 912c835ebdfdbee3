"""The verdicts of a comparison: figures of runs, side by side in pairs."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysis.records.rows import RecordSettings as Cells
from benchkit.api.question import BUSBW, TIME, Metric, Question
from benchkit.compare.command import Plan
from benchkit.compare.report import Compared, Finding, Mean, Result
from benchkit.record import files
from benchkit.record.naming import depends_on_time
from benchkit.record.record import HARMLESS, VERSIONS, Record
from benchkit.secrets import shown_words
from benchkit.statistics.compare import (
    Ends,
    RankTest,
    SignedRank,
    changes,
    difference_of_runs,
    exit_code,
    geometric_mean,
    log_ratios,
    noise_floor,
    plus_minus,
    slow_shares,
    spread_of_runs,
    verdicts_on,
    word_of_ends,
)
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import bus_bandwidth
from benchkit.sweep import manifest

NO_CASE = "no such case"
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, order=True)
class Point:
    """What is compared: a case of a point of the sweep, by its number and the case's labels."""

    number: int
    labels: Labels

    def is_part_of(self, other: "Point") -> bool:
        """Return whether another case has these labels, and perhaps more."""
        return self.number == other.number and {*self.labels} <= {*other.labels}


@dataclass(frozen=True)
class Lack:
    """Why a point has no times in a run.

    `is_harmless`: nothing failed, as where a backend is not here. `is_left_out`: the suite left out
    the
    case for the time that it takes.
    """

    reason: str
    is_harmless: bool
    is_left_out: bool = False


@dataclass
class RunFigures:
    """The times of one run, or why it has none.

    Attributes:
        times: seconds per call, [iteration] by point.
        reasons: why a point, or a whole point of the sweep by its number, has no times.
        harmless: those of the reasons that are no failure, such as a backend that is not here.
        identical_runs: by number of the point, what two identical runs differ by, as a share: the
            noise floor of a selftest.
        cells: settings and labels, by a point or, of one without cases, by its number.
        busbw_of_1_s: bus bandwidth in GB/s if a call took one second; None where it has none.
    """

    times: dict[Point, Array] = field(default_factory=dict)
    reasons: dict[Point | int, str] = field(default_factory=dict)
    harmless: set[Point | int] = field(default_factory=set)
    overrides: list[list[str]] = field(default_factory=list)
    title: str = ""
    software: dict[str, str] = field(default_factory=dict)
    identical_runs: dict[int, float] = field(default_factory=dict)
    suite: str = ""
    cells: dict[Point | int, dict[str, object]] = field(default_factory=dict)
    busbw_of_1_s: dict[Point, float | None] = field(default_factory=dict)

    def lack(self, point: Point) -> Lack | None:
        """Return why a point has no times; None where it has.

        A job that fails as a whole, or does not fit, may have less labels than its cases.
        """
        if point in self.times:
            return None
        parts = [key for key in self.reasons if isinstance(key, Point) and key.is_part_of(point)]
        for key in (point, *parts, point.number):
            if key in self.reasons:
                return Lack(self.reasons[key], key in self.harmless)
        return Lack(NO_CASE, True, depends_on_time(dict(point.labels)))


def read_run(folder: Path) -> RunFigures:
    """Read the records of a run; raise ConfigError where there is no sweep."""
    found = RunFigures()
    for number, entry in enumerate(manifest.read(folder).points):
        try:
            record = files.read(folder / entry.folder / files.FILE_NAME)
        except ValueError as error:
            found.reasons[number] = str(error)
            found.overrides.append(entry.overrides)
            continue
        add(found, number, record)
    return found


def add(found: RunFigures, number: int, record: Record) -> None:
    found.overrides.append(record.overrides)
    cells = Cells(record)
    found.cells[number] = cells.settings
    if not found.title:
        found.title, found.suite = record.title, record.suite
        versions = {name: getattr(record.environment, name) for name in VERSIONS}
        found.software = {name: str(value) for name, value in versions.items() if value}
    if record.noise_floor:
        found.identical_runs[number] = difference_of_runs(record.noise_floor.sigma_run)
    if record.status != "ok" and not any(case.status == record.status for case in record.cases):
        message = record.error.message.splitlines()[0] if record.error else ""
        found.reasons[number] = f"{record.status}: {message}"
        found.harmless |= {number} if record.status in HARMLESS else set()
    for case in record.cases:
        labels = tuple((name, str(value)) for name, value in case.labels.items())
        point = Point(number, labels)
        found.cells[point] = cells.settings | cells.renamed(case.labels)
        found.busbw_of_1_s[point] = bus_bandwidth(case.payload_bytes, case.bus_factor, 1.0)
        status = record.status_of(case)
        if status != case.status:
            continue  # the whole point failed
        if status != "ok" or not case.samples_s:
            found.reasons[point] = f"{status}: {case.reason}"
            found.harmless |= {point} if status in HARMLESS else set()
            continue
        found.times[point] = case.samples.times


def statistic_of(name: str, times: Array | None) -> float:
    """Return the mean, median or percentile of times, in seconds; NaN without times."""
    if times is None:
        return float("nan")
    if name == "mean":
        return float(times.mean())
    return float(np.percentile(times, 50 if name == "median" else float(name[1:])))


def names_of(points: Iterable[Point], run: RunFigures) -> dict[Point, str]:
    """Return what sets each point apart from the others: overrides that vary, and labels."""
    typed = [
        [text for text in overrides if not text.startswith(("hydra.", "seed="))]
        for overrides in run.overrides
    ]
    shared = set.intersection(*map(set, typed)) if typed else set[str]()
    names = {}
    for point in points:
        own = typed[point.number] if point.number < len(typed) else [str(point.number)]
        words = [text for text in own if text not in shared]
        words += [f"{name}={value}" for name, value in point.labels]
        names[point] = " ".join(words) or run.title
    return names


@dataclass(frozen=True)
class Asked:
    """The points of a comparison, as the question of their suite sees them.

    `typed`: keys of the command line, which tell points apart where the question does not.
    """

    question: Question
    cells: Mapping[Point, Mapping[str, object]]
    typed: Sequence[str]

    def in_order(self) -> list[Point]:
        """Return the points by their problem, numbers by size."""

        def place(point: Point) -> tuple[Any, ...]:
            values = (self.cells[point].get(name) for name in self.question.problem)
            return tuple(
                (0, value, "") if isinstance(value, int | float) else (1, 0, str(value))
                for value in values
            )

        return sorted(sorted(self.cells), key=place)

    def labels(self) -> dict[Point, str]:
        """Return what tells each point apart, in the question's words."""
        factors = (name for each in self.question.comparisons for name in each.factors)
        own = (name for point in self.cells for name, _ in point.labels)
        names = dict.fromkeys((*self.question.problem, *factors, *own, *self.typed))
        varied = [
            name for name in names if len({str(c.get(name)) for c in self.cells.values()}) > 1
        ]
        return {
            point: ", ".join(self.question.word(n, cells[n]) for n in varied if n in cells)
            for point, cells in self.cells.items()
        }

    def metric(self, point: Point) -> Metric:
        """Return the bus bandwidth where the question asks for that of the point, else the time."""
        cells = self.cells[point]
        for metric in self.question.metrics:
            held = all(str(cells.get(name)) == str(value) for name, value in metric.only.items())
            if metric.column == BUSBW.column and metric.only and held:
                return metric
        return TIME


def asked_of(points: Iterable[Point], runs: Iterable[RunFigures]) -> Asked:
    from analysis.discover import questions  # loads pandas, which takes a second

    every = list(runs)
    cells = {}
    for point in points:
        held = (run.cells.get(key) for key in (point, point.number) for run in every)
        cells[point] = next(filter(None, held), {})
    suite = next((run.suite for run in every if run.suite), "")
    texts = (text for run in every for overrides in run.overrides for text in overrides)
    typed = dict.fromkeys(text.partition("=")[0] for text in texts)
    keys = [name for name in typed if name not in ("seed", "suite", "+suite")]
    return Asked(questions().get(suite, Question()), cells, keys)


Runs = Mapping[tuple[int, int], RunFigures]
"""Figures of runs by round, from 1, and role."""


@dataclass(frozen=True)
class Columns:
    """The times of one point in all pairs; None where a run has none."""

    baseline: list[Array | None]
    candidate: list[Array | None]

    def figures(self, name: str) -> tuple[Array, Array]:
        """Return a figure of all runs of the baseline, and of the candidate: [pair]."""
        baseline = [statistic_of(name, times) for times in self.baseline]
        return np.array(baseline), np.array([statistic_of(name, times) for times in self.candidate])

    def log_ratios(self, name: str) -> Array:
        return log_ratios(*self.figures(name))


def points_of(runs: Iterable[RunFigures]) -> list[Point]:
    """Return all points, in order; one without labels where no run got as far as its cases."""
    every = list(runs)
    measured = {point for run in every for point in run.times}
    keys = {key for run in every for key in run.reasons}
    named = {key if isinstance(key, Point) else Point(key, ()) for key in keys} - measured
    known = measured | named
    parts = {
        part for part in named if any(part != point and part.is_part_of(point) for point in known)
    }
    return sorted(known - parts)


def columns_of(runs: Runs, rounds: Sequence[int], role: int, point: Point) -> Columns:
    """Return the times of a point in some rounds, of role 0 and of another one."""
    return Columns(
        [runs[number, 0].times.get(point) for number in rounds],
        [runs[number, role].times.get(point) for number in rounds],
    )


def word_without_times(
    runs: Runs, pairs: Sequence[int], role: int, point: Point
) -> tuple[str, str]:
    """Return the word on a point of an arm that its times do not decide, and why some are missing.

    Both are "" where all pairs have times. The word alone is "" where those that have decide.
    """
    ends: list[Ends] = []
    reasons: list[str] = []
    for arm, whose in ((0, "the baseline, "), (role, "")):
        lacks = [runs[number, arm].lack(point) for number in pairs]
        lacking = [lack for lack in lacks if lack]
        if lacking:
            how_often = f"{whose}in {len(lacking)} of {len(pairs)} pairs"
            reasons.append(f"{how_often}: {lacking[-1].reason}")
        is_new = arm == 0 and all(lack and lack.reason == NO_CASE for lack in lacks)
        counted = [lack for lack in lacking if not lack.is_left_out]
        planned = 0 if is_new else len(pairs) - len(lacking) + len(counted)
        failed = sum(not lack.is_harmless for lack in counted)
        ends.append(Ends(planned, len(counted), failed))
    return word_of_ends(*ends), "; ".join(reasons[::-1])


SECONDARY = ("median", "p95", "p99")
"""Figures beside the gate's. 2 % of slow calls move p99, and neither p95 nor the modes."""
SLOW_SHARE = "share of slow mode"


def judge_runs(plan: Plan, runs: Runs, level: float, num_rounds: int) -> Result:
    """Return the verdicts after so many rounds, all of whose runs are there.

    Args:
        level: error rate of this look.
        num_rounds: rounds that count, A/A pairs among them.
    """
    numbers = range(1, num_rounds + 1)
    controls = [number for number in numbers if plan.order[number - 1].is_control]
    pairs = [number for number in numbers if number not in controls]
    asked = asked_of(points_of(runs.values()), runs.values())
    points, labels = asked.in_order(), asked.labels()
    names = names_of(points, runs[pairs[0], 0])
    arms, options = [arm.text for arm in plan.arms], plan.options
    typed = shown_words(plan.overrides)
    result = Result(*(plan.id, arms, typed, options.statistic, options.fail_on, level, len(pairs)))
    measured: dict[tuple[int, Point], Columns] = {}
    compared: dict[tuple[int, Point], Compared] = {}
    for role, point in itertools.product(range(1, len(plan.arms)), points):
        word, reason = word_without_times(runs, pairs, role, point)
        columns = columns_of(runs, pairs, role, point)
        found = new_point(plan, names[point], arms[role], columns, word, reason)
        if list(labels.values()).count(labels[point]) == 1:
            found.label = labels[point]
        metric = asked.metric(point)
        amount = runs[pairs[0], 0].busbw_of_1_s.get(point)
        if metric.rises and amount:
            found.metric, found.unit, found.amount = metric.head, metric.unit, amount
        found.identical_runs = runs[pairs[0], 0].identical_runs.get(point.number)
        result.points.append(found)
        if not word:
            if reason:
                result.remarks.append(f"{names[point]}: judged by the pairs that have it; {reason}")
            measured[role, point], compared[role, point] = columns, found
    add_verdicts(plan, result, measured, compared)
    result.secondary = secondary(plan, names, measured, level)
    own = [columns_of(runs, controls, 1, point) for _, point in measured]
    result.control = mean_of(plan, arms[0], own, 0.05) if controls and own else None
    result.remarks += [*noise_remarks(result.points), *software_remarks(plan, runs)]
    result.exit_code = exit_code(result.words)
    return result


def new_point(
    plan: Plan, name: str, arm: str, columns: Columns, word: str, reason: str
) -> Compared:
    baseline, candidate = columns.figures(plan.options.statistic)
    return Compared(
        name=name,
        label=name,
        arm=arm,
        word=word,
        reason=reason,
        verdict=None,
        spread=spread_of_runs(baseline, candidate),
        floor=plan.floor.get(name),
        floor_of_pairs=noise_floor(log_ratios(baseline, candidate)),
        baseline_s=baseline.tolist(),
        candidate_s=candidate.tolist(),
    )


def add_verdicts(
    plan: Plan,
    result: Result,
    measured: Mapping[tuple[int, Point], Columns],
    compared: Mapping[tuple[int, Point], Compared],
) -> None:
    """Judge all points of all arms together, and the mean over the points of each arm."""
    logs = {key: columns.log_ratios(plan.options.statistic) for key, columns in measured.items()}
    floors = [compared[key].floor for key in measured]
    verdicts = verdicts_on(
        list(logs.values()), floors, fail_on=plan.options.fail_on, level=result.level
    )
    for key, verdict in zip(measured, verdicts, strict=True):
        compared[key].verdict, compared[key].word = verdict, verdict.word
    for role in range(1, len(plan.arms)):
        own = [columns for (arm, _), columns in measured.items() if arm == role]
        if own:
            result.means.append(mean_of(plan, plan.arms[role].text, own, result.level))


def mean_of(plan: Plan, arm: str, columns: Sequence[Columns], level: float) -> Mean:
    """Return the geometric mean over points, and its interval over pairs."""
    logs = [each.log_ratios(plan.options.statistic) for each in columns]
    ratio, (low, high) = geometric_mean(logs, level)
    return Mean(arm, int(np.isfinite(np.mean(logs, axis=0)).sum()), ratio, low, high)


def secondary(
    plan: Plan,
    names: Mapping[Point, str],
    measured: Mapping[tuple[int, Point], Columns],
    level: float,
) -> list[Finding]:
    """Return the secondary figures of all points that differ, with Holm's correction over all."""
    tests: dict[tuple[int, Point, str], RankTest] = {}
    for (role, point), columns in measured.items():
        for figure in SECONDARY:
            if figure != plan.options.statistic:
                tests[role, point, figure] = SignedRank(columns.log_ratios(figure))
        shares = slow_shares(
            *(
                [np.empty(0) if times is None else times for times in arm]
                for arm in (columns.baseline, columns.candidate)
            )
        )
        if shares is not None:
            tests[role, point, SLOW_SHARE] = SignedRank(shares[1] - shares[0])
    return [
        Finding(names[point], plan.arms[role].text, figure, figure == SLOW_SHARE, change)
        for (role, point, figure), change in changes(tests, level).items()
        if change.is_significant
    ]


def noise_remarks(points: Sequence[Compared]) -> list[str]:
    """Return a line on what a selftest found that two identical runs differ by."""
    known = [point.identical_runs for point in points if point.identical_runs is not None]
    if known:
        ends = " to ".join(dict.fromkeys(map(plus_minus, (min(known), max(known)))))
        return [f"noise floor: two single runs of identical code differ by {ends}"]
    hint = "no noise floor: run `python -m benchkit selftest` (--ranks, --backend)"
    return [hint] if points else []


def software_remarks(plan: Plan, runs: Runs) -> list[str]:
    """Return lines on versions that differ between arms, or changed within one."""
    seen: dict[str, list[list[str]]] = {}
    for name in VERSIONS:
        for role in range(len(plan.arms)):
            own = [
                run.software.get(name, "none")
                for (number, each), run in runs.items()
                if each == role and not plan.order[number - 1].is_control
            ]
            seen.setdefault(name, []).append(list(dict.fromkeys(own)))
    lines = []
    for name, by_arm in seen.items():
        for arm, values in zip(plan.arms, by_arm, strict=True):
            if len(values) > 1:
                lines.append(f"warning: {name} of {arm.text} changed: {', '.join(values)}")
        firsts = [values[0] for values in by_arm]
        if len(set(firsts)) > 1:
            lines.append(f"{name}: {', '.join(firsts)}")
    return lines

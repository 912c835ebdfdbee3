"""Judge the runs of `python -m benchkit compare`, pair by pair."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.compare.pairs_report import ComparedCase, GeometricMean, PairedComparison
from analysis.compare.points import (
    MISSING,
    NO_CASE,
    OK,
    CaseOutcome,
    CaseOutcomes,
    Labels,
    count_outcomes,
    labels_in,
    planned_statuses,
)
from analysis.compare.report import SecondaryChange
from analysis.compare.verdicts import exit_code, judge_points, word_by_outcomes
from analysis.records.rows import RecordSettings
from benchkit.api.question import BUSBW, TIME, Metric, Question
from benchkit.record import files
from benchkit.record.naming import plus_minus
from benchkit.record.record import VERSIONS, Record
from benchkit.secrets import mask_words
from benchkit.statistics.intervals import ALPHA, Array, slow_shares
from benchkit.statistics.multiplicity import judge_secondary_metrics
from benchkit.statistics.power import difference_of_runs, run_deviations
from benchkit.statistics.rank_tests import (
    RankTest,
    SignedRank,
    geometric_mean,
    log_ratios,
    noise_floor,
)
from benchkit.statistics.summary import bus_bandwidth
from benchkit.sweep import manifest

if TYPE_CHECKING:
    from benchkit.compare.command import ComparisonPlan


class CaseKey(NamedTuple):
    """A case of a point of the sweep; without labels, the point as a whole."""

    number: int
    labels: Labels


@dataclass
class MeasuredRun:
    """A run of an arm: the outcomes and the times of the cases of its points.

    Attributes:
        points: outcomes of the cases of each point of the sweep.
        times: seconds per call, [iteration] by case.
        overrides: of each point.
        identical_runs: by number of the point, the noise floor of a selftest: how much two
            identical runs differ, as a share.
        cells: settings and labels.
        busbw_of_1_s: bus bandwidth in GB/s if a call took one second; None where it has none.
    """

    points: list[CaseOutcomes] = field(default_factory=list)
    times: dict[CaseKey, Array] = field(default_factory=dict)
    overrides: list[list[str]] = field(default_factory=list)
    title: str = ""
    suite: str = ""
    software: dict[str, str] = field(default_factory=dict)
    identical_runs: dict[int, float] = field(default_factory=dict)
    cells: dict[CaseKey, dict[str, object]] = field(default_factory=dict)
    busbw_of_1_s: dict[CaseKey, float | None] = field(default_factory=dict)

    def outcome_of(self, case: CaseKey) -> CaseOutcome:
        if case.number >= len(self.points):
            return CaseOutcome(NO_CASE)
        return self.points[case.number].outcome_of(case.labels)

    def add(self, record: Record) -> None:
        """Add the record of the next point."""
        number, point = len(self.points), CaseOutcomes()
        self.points.append(point)
        self.overrides.append(record.overrides)
        cells = RecordSettings(record)
        self.cells[CaseKey(number, ())] = cells.settings
        if not self.title:
            self.title, self.suite = record.title, record.suite
            versions = {name: getattr(record.environment, name) for name in VERSIONS}
            self.software = {name: str(value) for name, value in versions.items() if value}
        if record.noise_floor:
            self.identical_runs[number] = difference_of_runs(record.noise_floor.sigma_run)
        for case in record.cases:
            labels = tuple((name, str(value)) for name, value in case.labels.items())
            key = CaseKey(number, labels)
            self.cells[key] = cells.settings | cells.prefix_taken(case.labels)
            self.busbw_of_1_s[key] = bus_bandwidth(case.payload_bytes, case.bus_factor, 1.0)
            if record.status_of(case) != case.status:
                continue  # the whole point failed
            if case.status == OK and case.samples_s:
                self.times[key] = case.samples.times
                point.outcomes[labels] = CaseOutcome(OK)
            else:
                status = MISSING if case.status == OK else case.status
                point.outcomes[labels] = CaseOutcome(status, case.reason)
        if record.status != OK and not any(case.status == record.status for case in record.cases):
            message = record.error.message.splitlines()[0] if record.error else ""
            point.outcomes.setdefault((), CaseOutcome(record.status, message))


def read_run(folder: Path) -> MeasuredRun:
    """Read the records of a run; raise ConfigError where there is no sweep."""
    run = MeasuredRun()
    for entry in manifest.read(folder).points:
        try:
            record = files.read(folder / entry.folder / files.FILE_NAME)
        except ValueError as error:
            run.points.append(CaseOutcomes({(): CaseOutcome(MISSING, str(error))}))
            run.overrides.append(entry.overrides)
        else:
            run.add(record)
    return run


def cases_of(runs: Sequence[MeasuredRun]) -> list[CaseKey]:
    """Return all cases, in order; one without labels for a point that no run measured."""
    cases = []
    for number in range(max((len(run.points) for run in runs), default=0)):
        runs_of_point = [run.points[number] for run in runs if number < len(run.points)]
        cases += [CaseKey(number, labels) for labels in labels_in(runs_of_point)]
    return sorted(cases)


def statistic_of(name: str, times: Array | None) -> float:
    """Return the mean, median or percentile of times, in seconds; NaN without times."""
    if times is None:
        return float("nan")
    if name == "mean":
        return float(times.mean())
    return float(np.percentile(times, 50 if name == "median" else float(name[1:])))


def names_of(cases: Iterable[CaseKey], run: MeasuredRun) -> dict[CaseKey, str]:
    """Name each case by the overrides that vary, and by its labels."""
    typed = [
        [text for text in overrides if not text.startswith(("hydra.", "seed="))]
        for overrides in run.overrides
    ]
    shared = set.intersection(*map(set, typed)) if typed else set[str]()
    names = {}
    for case in cases:
        overrides_of_point = typed[case.number] if case.number < len(typed) else [str(case.number)]
        words = [text for text in overrides_of_point if text not in shared]
        words += [f"{name}={value}" for name, value in case.labels]
        names[case] = " ".join(words) or run.title
    return names


@dataclass(frozen=True)
class QuestionedCases:
    """The cases of a comparison, as the question of their suite sees them.

    `typed_keys`: keys of the command line, which distinguish cases where the question does not.
    """

    question: Question
    cells: Mapping[CaseKey, Mapping[str, object]]
    typed_keys: Sequence[str]

    def order_cases(self) -> list[CaseKey]:
        """Sort the cases by their problem, numbers by size."""

        def place(case: CaseKey) -> tuple[Any, ...]:
            values = (self.cells[case].get(name) for name in self.question.problem)
            return tuple(
                (0, value, "") if isinstance(value, int | float) else (1, 0, str(value))
                for value in values
            )

        return sorted(sorted(self.cells), key=place)

    def labels(self) -> dict[CaseKey, str]:
        """Describe what varies between cases, in the question's words."""
        factors = (name for comparison in self.question.comparisons for name in comparison.factors)
        label_names = (name for case in self.cells for name, _ in case.labels)
        names = dict.fromkeys((*self.question.problem, *factors, *label_names, *self.typed_keys))
        varied = [
            name for name in names if len({str(c.get(name)) for c in self.cells.values()}) > 1
        ]
        return {
            case: ", ".join(self.question.format_value(n, cells[n]) for n in varied if n in cells)
            for case, cells in self.cells.items()
        }

    def metric(self, case: CaseKey) -> Metric:
        """Return the bus bandwidth where the question asks for that of the case, else the time."""
        cells = self.cells[case]
        for metric in self.question.metrics:
            is_of_case = all(
                str(cells.get(name)) == str(value) for name, value in metric.row_filter.items()
            )
            if metric.column == BUSBW.column and metric.row_filter and is_of_case:
                return metric
        return TIME


def question_of(cases: Iterable[CaseKey], runs: Sequence[MeasuredRun]) -> QuestionedCases:
    from analysis.shared.discover import questions  # loads pandas, which takes a second

    cells = {}
    for case in cases:
        candidates = (
            run.cells.get(key) for key in (case, CaseKey(case.number, ())) for run in runs
        )
        cells[case] = next(filter(None, candidates), {})
    suite = next((run.suite for run in runs if run.suite), "")
    texts = (text for run in runs for overrides in run.overrides for text in overrides)
    typed_keys = dict.fromkeys(text.partition("=")[0] for text in texts)
    keys = [name for name in typed_keys if name not in ("seed", "suite", "+suite")]
    return QuestionedCases(questions().get(suite, Question()), cells, keys)


@dataclass(frozen=True)
class PairedTimes:
    """The times of one case in some rounds; None where a run has none."""

    baseline: list[Array | None]
    candidate: list[Array | None]

    def statistics(self, name: str) -> tuple[Array, Array]:
        """Return a statistic of all runs of the baseline, and of the candidate: [pair]."""
        baseline = [statistic_of(name, times) for times in self.baseline]
        return np.array(baseline), np.array([statistic_of(name, times) for times in self.candidate])

    def log_ratios(self, name: str) -> Array:
        return log_ratios(*self.statistics(name))

    def slow_shares(self) -> tuple[Array, Array] | None:
        """Return the share of slow samples of both arms; None where times have one mode."""
        return slow_shares(*(
            [np.empty(0) if times is None else times for times in arm]
            for arm in (self.baseline, self.candidate)
        ))  # fmt: skip


Runs = Mapping[tuple[int, int], MeasuredRun]
"""Runs by round, from 1, and role."""


def times_of(runs: Runs, rounds: Sequence[int], role: int, case: CaseKey) -> PairedTimes:
    """Return the times of a case in some rounds, of role 0 and of another one."""
    return PairedTimes(
        [runs[number, 0].times.get(case) for number in rounds],
        [runs[number, role].times.get(case) for number in rounds],
    )


def word_without_times(
    runs: Runs, pairs: Sequence[int], role: int, case: CaseKey
) -> tuple[str, str]:
    """Return the word on a case of an arm by its outcomes, and why some times are missing.

    Both are "" where all pairs have times. Only the word is "" where the pairs with times decide.
    """
    counts, reasons = [], list[str]()
    for arm, prefix in ((0, "the baseline, "), (role, "")):
        outcomes = [runs[number, arm].outcome_of(case) for number in pairs]
        if lacking := [outcome for outcome in outcomes if outcome.status != OK]:
            how_often = f"{prefix}in {len(lacking)} of {len(pairs)} pairs"
            reasons.insert(0, f"{how_often}: {lacking[-1]}")
        counts.append(count_outcomes(planned_statuses(outcomes, is_baseline=arm == 0)))
    return word_by_outcomes(*counts), "; ".join(reasons)


SECONDARY = ("median", "p95", "p99")
"""Statistics beside the chosen one. 2 % of slow calls move p99, and neither p95 nor the modes."""
SLOW_SHARE = "share of slow mode"


class PairJudge:
    """Reads the runs of a comparison as they end, and judges all of them at each look."""

    def __init__(self, plan: "ComparisonPlan") -> None:
        self._plan = plan
        self._arms = [arm.text for arm in plan.arms]
        self._statistic = plan.options.statistic
        self._runs: dict[tuple[int, int], MeasuredRun] = {}

    def read(self, number: int, role: int, folder: Path) -> None:
        """Read a run of a round, from 1; raise ConfigError where there is no sweep."""
        self._runs[number, role] = read_run(folder)

    def judge(self, alpha: float) -> PairedComparison:
        """Return the verdicts on all rounds whose runs were read, at the error rate of a look."""
        plan, runs, options = self._plan, list(self._runs.values()), self._plan.options
        numbers = range(1, 1 + max(number for number, _ in self._runs))
        controls = [number for number in numbers if plan.order[number - 1].is_control]
        pairs = [number for number in numbers if number not in controls]
        masked_overrides, num_pairs = mask_words(plan.overrides), len(pairs)
        result = PairedComparison(
            plan.id,
            self._arms,
            masked_overrides,
            options.statistic,
            options.fail_on,
            alpha,
            num_pairs,
        )
        question = question_of(cases_of(runs), runs)
        first, labels = self._runs[pairs[0], 0], question.labels()
        names = names_of(question.order_cases(), first)
        measured: dict[tuple[int, CaseKey], PairedTimes] = {}
        judged: list[ComparedCase] = []
        for role, case in itertools.product(range(1, len(plan.arms)), names):
            times = times_of(self._runs, pairs, role, case)
            word, reason = word_without_times(self._runs, pairs, role, case)
            point = self._point(names[case], role, times, word, reason)
            if list(labels.values()).count(labels[case]) == 1:
                point.label = labels[case]
            metric, amount = question.metric(case), first.busbw_of_1_s.get(case)
            if metric.is_higher_better and amount:
                point.metric, point.unit, point.amount = metric.head, metric.unit, amount
            point.identical_runs = first.identical_runs.get(case.number)
            result.points.append(point)
            if not word:
                measured[role, case] = times
                judged.append(point)
        self._add_verdicts(result, judged, measured)
        result.secondary = self._secondary(names, measured, alpha)
        control_times = [times_of(self._runs, controls, 1, case) for _, case in measured]
        result.control = self._mean(0, control_times, ALPHA) if controls and control_times else None
        result.remarks = [
            f"{point.name}: judged by the pairs that have it; {point.reason}"
            for point in judged
            if point.reason
        ]
        result.remarks += [*noise_remarks(result.points), *self._software_remarks()]
        result.exit_code = exit_code(result.words)
        return result

    def _point(
        self, name: str, role: int, times: PairedTimes, word: str, reason: str
    ) -> ComparedCase:
        baseline, candidate = times.statistics(self._statistic)
        return ComparedCase(
            name=name,
            label=name,
            arm=self._arms[role],
            word=word,
            reason=reason,
            verdict=None,
            spread=run_deviations(baseline, candidate),
            floor=self._plan.floor.get(name),
            floor_of_pairs=noise_floor(log_ratios(baseline, candidate)),
            baseline_s=baseline.tolist(),
            candidate_s=candidate.tolist(),
        )

    def _add_verdicts(
        self,
        result: PairedComparison,
        points: Sequence[ComparedCase],
        measured: Mapping[tuple[int, CaseKey], PairedTimes],
    ) -> None:
        """Judge all points of all arms together, and the mean over the points of each arm."""
        tests = [SignedRank(times.log_ratios(self._statistic)) for times in measured.values()]
        floors = [point.floor for point in points]
        verdicts = judge_points(tests, floors, fail_on=result.fail_on, alpha=result.alpha)
        for point, verdict in zip(points, verdicts, strict=True):
            point.verdict, point.word = verdict, verdict.word
        for role in range(1, len(self._arms)):
            if times_of_arm := [times for (arm, _), times in measured.items() if arm == role]:
                result.means.append(self._mean(role, times_of_arm, result.alpha))

    def _mean(self, role: int, points: Sequence[PairedTimes], alpha: float) -> GeometricMean:
        """Return the geometric mean over points, and its interval over pairs."""
        logs = [times.log_ratios(self._statistic) for times in points]
        ratio, (low, high) = geometric_mean(logs, alpha)
        num_pairs = int(np.isfinite(np.mean(logs, axis=0)).sum())
        return GeometricMean(self._arms[role], num_pairs, ratio, low, high)

    def _secondary(
        self,
        names: Mapping[CaseKey, str],
        measured: Mapping[tuple[int, CaseKey], PairedTimes],
        alpha: float,
    ) -> list[SecondaryChange]:
        """Return the secondary metrics that differ, by Holm's correction over all points."""
        tests: dict[tuple[int, CaseKey, str], RankTest] = {}
        for (role, case), times in measured.items():
            for metric in SECONDARY:
                if metric != self._statistic:
                    tests[role, case, metric] = SignedRank(times.log_ratios(metric))
            if shares := times.slow_shares():
                tests[role, case, SLOW_SHARE] = SignedRank(shares[1] - shares[0])
        return [
            SecondaryChange(names[case], self._arms[role], metric, metric == SLOW_SHARE, change)
            for (role, case, metric), change in judge_secondary_metrics(tests, alpha).items()
            if change.is_significant
        ]

    def _software_remarks(self) -> list[str]:
        """Return lines on versions that differ between arms, or changed within one."""
        lines = []
        for name in VERSIONS:
            by_arm = [
                list(dict.fromkeys(
                    run.software.get(name, "none")
                    for (number, role), run in self._runs.items()
                    if role == arm and not self._plan.order[number - 1].is_control
                ))
                for arm in range(len(self._arms))
            ]  # fmt: skip
            for arm, values in zip(self._arms, by_arm, strict=True):
                if len(values) > 1:
                    lines.append(f"warning: {name} of {arm} changed: {', '.join(values)}")
            firsts = [values[0] for values in by_arm]
            if len(set(firsts)) > 1:
                lines.append(f"{name}: {', '.join(firsts)}")
        return lines


def noise_remarks(points: Sequence[ComparedCase]) -> list[str]:
    """Return a line on the noise floor by a selftest, or on how to measure it."""
    floors = [point.identical_runs for point in points if point.identical_runs is not None]
    if floors:
        bounds = " to ".join(dict.fromkeys(map(plus_minus, (min(floors), max(floors)))))
        return [f"noise floor: two single runs of identical code differ by {bounds}"]
    hint = "no noise floor: run `python -m benchkit selftest` (--ranks, --backend)"
    return [hint] if points else []

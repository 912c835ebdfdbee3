"""The verdicts of a comparison, from the figures of its runs."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from benchkit.compare.figures import Point, names_of
from benchkit.compare.pairing import Columns, Runs, columns_of, points_of, word_without_times
from benchkit.compare.plan import Plan
from benchkit.compare.result import Compared, Finding, Mean, Result
from benchkit.record.environment import VERSIONS
from benchkit.statistics.compare.rank_test import RankTest
from benchkit.statistics.compare.signed_rank import SignedRank, log_ratios
from benchkit.statistics.compare.spread import percent, spread_of_runs
from benchkit.statistics.compare.tails import changes, slow_shares
from benchkit.statistics.compare.verdicts import exit_code, geometric_mean, judge, noise_floor

SECONDARY = ("median", "p95", "p99")
"""Figures beside the gate's. 2 % of slow calls move p99, and neither p95 nor the modes."""
SLOW_SHARE = "share of slow mode"


def judge_runs(plan: Plan, runs: Runs, level: float, num_rounds: int) -> Result:
    """Returns the verdicts after so many rounds, all of whose runs are there.

    Args:
        plan: of the comparison.
        runs: figures of all runs.
        level: error rate of this look.
        num_rounds: rounds that count, A/A pairs among them.
    """
    numbers = range(1, num_rounds + 1)
    controls = [number for number in numbers if plan.order[number - 1].is_control]
    pairs = [number for number in numbers if number not in controls]
    points = points_of(runs.values())
    names = names_of(points, runs[pairs[0], 0])
    arms, options = [arm.text for arm in plan.arms], plan.options
    result = Result(
        *(plan.id, arms, plan.overrides, options.statistic, options.fail_on, level, len(pairs))
    )
    measured: dict[tuple[int, Point], Columns] = {}
    compared: dict[tuple[int, Point], Compared] = {}
    for role, point in itertools.product(range(1, len(plan.arms)), points):
        word, reason = word_without_times(runs, pairs, role, point)
        columns = columns_of(runs, pairs, role, point)
        found = new_point(plan, names[point], arms[role], columns, word, reason)
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
    """Returns a point without a verdict yet."""
    baseline, candidate = columns.figures(plan.options.statistic)
    return Compared(
        name=name,
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
    """Judges all points of all arms together, and the mean over the points of each arm."""
    logs = {key: columns.log_ratios(plan.options.statistic) for key, columns in measured.items()}
    floors = [compared[key].floor for key in measured]
    verdicts = judge(list(logs.values()), floors, fail_on=plan.options.fail_on, level=result.level)
    for key, verdict in zip(measured, verdicts, strict=True):
        compared[key].verdict, compared[key].word = verdict, verdict.word
    for role in range(1, len(plan.arms)):
        own = [columns for (arm, _), columns in measured.items() if arm == role]
        if own:
            result.means.append(mean_of(plan, plan.arms[role].text, own, result.level))


def mean_of(plan: Plan, arm: str, columns: Sequence[Columns], level: float) -> Mean:
    """Returns the geometric mean over points, and its interval over pairs."""
    logs = [each.log_ratios(plan.options.statistic) for each in columns]
    ratio, (low, high) = geometric_mean(logs, level)
    return Mean(arm, int(np.isfinite(np.mean(logs, axis=0)).sum()), ratio, low, high)


def secondary(
    plan: Plan,
    names: Mapping[Point, str],
    measured: Mapping[tuple[int, Point], Columns],
    level: float,
) -> list[Finding]:
    """Returns the secondary figures of all points that differ, with Holm's correction over all."""
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
    """Returns a line on what a selftest found that two identical runs differ by."""
    known = [point.identical_runs for point in points if point.identical_runs is not None]
    if known:
        least, most = percent(min(known)), percent(max(known))
        return [f"noise floor: two single runs of identical code differ by ± {least} to ± {most}"]
    return ["no noise floor: run `python -m benchkit selftest`"] if points else []


def software_remarks(plan: Plan, runs: Runs) -> list[str]:
    """Returns lines on versions that differ between arms, or changed within one."""
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

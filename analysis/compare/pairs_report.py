"""A comparison by pairs of runs, as text, JSON, JUnit XML and Markdown."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from analysis.compare.report import (
    SecondaryChange,
    further_changes,
    interval_text,
    junit,
    ratio_text,
)
from analysis.compare.verdicts import FAILED, FASTER, SAME, SLOWER, UNCLEAR, CaseVerdict
from benchkit.compare import RESULT_FILE
from benchkit.record import files
from benchkit.record.naming import escape_markdown, escape_unprintable, percent, plus_minus
from benchkit.statistics.power import RunDeviations

if TYPE_CHECKING:
    from analysis.shared.text_table import TextTable


@dataclass
class ComparedCase:
    """One point of one arm against the baseline.

    Attributes:
        label: its name in the words of the suite's question; "" where it is the only one.
        arm: the candidate, as typed.
        word: FASTER, SLOWER, SAME, UNCLEAR, FAILED, FIXED, NEW or NOT COMPARED.
        reason: why it has no times in some pairs; "" if it has.
        verdict: None where the word does not follow from times of pairs.
        floor: noise floor of the verdict, as a share; None if not known.
        floor_of_pairs: noise floor by these pairs if both arms are identical.
        baseline_s: the statistic of the baseline's run of each pair, in seconds; NaN without.
        candidate_s: the same of the candidate.
        identical_runs: noise floor of single runs by a selftest, as a share; None without one.
        metric, unit, amount: a rate of the question, such as busbw in GB/s, and its value for a
            call of one second; a time if the amount is None.
    """

    name: str
    label: str
    arm: str
    word: str
    reason: str
    verdict: CaseVerdict | None
    spread: RunDeviations
    floor: float | None
    floor_of_pairs: float | None
    baseline_s: list[float]
    candidate_s: list[float]
    identical_runs: float | None = None
    metric: str = ""
    unit: str = "ms"
    amount: float | None = None


@dataclass(frozen=True)
class GeometricMean:
    """The geometric mean of the ratios of all points, and its interval over pairs.

    Attributes:
        arm: the candidate; of A/A pairs the baseline.
        num_pairs: pairs that have all points.
        ratio: NaN without pairs.
        low, high: its interval; 0 and infinity where the pairs are too few for one.
    """

    arm: str
    num_pairs: int
    ratio: float
    low: float
    high: float


class PairedComparison(msgspec.Struct):
    """The result of a comparison by pairs of runs: compare_result.json.

    Attributes:
        arms: as typed; the first one is the baseline.
        fail_on: the least change that matters, as a share.
        alpha: error rate of each look.
        num_pairs: pairs of runs, without A/A pairs.
        control: mean over the A/A pairs; None without any.
        secondary: metrics beside the statistic that differ.
        remarks: one line each.
    """

    id: str
    arms: list[str]
    overrides: list[str]
    statistic: str
    fail_on: float
    alpha: float = msgspec.field(name="level")
    num_pairs: int
    points: list[ComparedCase] = []
    means: list[GeometricMean] = []
    control: GeometricMean | None = None
    secondary: list[SecondaryChange] = []
    remarks: list[str] = []
    exit_code: int = 0

    @property
    def words(self) -> list[str]:
        return [point.word for point in self.points]

    @property
    def is_answered(self) -> bool:
        return UNCLEAR not in self.words

    def as_text(self) -> str:
        """Return answer, table and remarks, for a terminal."""
        lines = [answer(self), "", sentence(self), "", table(self).text(), "", *remarks(self)]
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        content = msgspec.json.format(msgspec.json.encode(self), indent=2)
        files.write_atomically(folder / RESULT_FILE, content)
        files.write_atomically(folder / JUNIT_FILE, as_junit(self))
        files.write_atomically(folder / MARKDOWN_FILE, as_markdown(self).encode())


JUNIT_FILE, MARKDOWN_FILE = "junit.xml", "compare.md"
HEADERS = ("point", "ratio", "interval", "pairs", "between runs", "smallest effect", "verdict")


def as_markdown(result: PairedComparison) -> str:
    """Return answer, table and remarks, for a pull request."""
    bullets = "\n".join(f"- {line}" for line in remarks(result))
    return (
        f"### benchkit compare: {escape_markdown(answer(result))}\n\n{sentence(result)}\n\n"
        f"{table(result).markdown()}\n\n{bullets}\n"
    )


LEADING = (FAILED, SLOWER, FASTER)


def answer(result: PairedComparison) -> str:
    """Describe in one line the largest change, and count the other points by verdict."""

    def weight(point: ComparedCase) -> tuple[int, float]:
        rank = LEADING.index(point.word) if point.word in LEADING else len(LEADING)
        return rank, -abs(math.log(point.verdict.ratio)) if point.verdict and rank < 3 else 0.0

    points = sorted(result.points, key=weight)
    changed = points[:1] if points and points[0].word in LEADING else []
    parts = [change(point, len(result.arms) > 2) for point in changed]
    counted = Counter(point.word for point in points[len(changed) :])
    for word, count in counted.items():
        kind = ("more " if changed and word == changed[0].word else "other ") if changed else ""
        points_text = f"{count} {kind}point" + "s" * (count > 1)
        within = f" within {percent(result.fail_on)}" if word == SAME else ""
        parts.append(f"{points_text} {'unchanged' if word == SAME else word}{within}")
    return escape_unprintable("; ".join(parts) or "no point was compared", keep="")


def change(point: ComparedCase, is_named: bool) -> str:
    """Describe a change: "SLOWER by 12 % (8–17 %) at 1 MiB: 0.74 → 0.83 ms"."""
    where = (f" at {point.label}" if point.label else "") + (f" of {point.arm}" * is_named)
    point_verdict = point.verdict
    if point_verdict is None:
        return f"{point.word}{where}: {point.reason}"
    sizes = sorted(abs(bound - 1) for bound in (point_verdict.low, point_verdict.high))
    bounds = "–".join(percent(size).removesuffix(" %") for size in sizes)
    pairs = zip(point.baseline_s, point.candidate_s, strict=True)
    complete = [pair for pair in pairs if all(map(math.isfinite, pair))]
    medians = (median(times) for times in zip(*complete, strict=True))
    shown = (f"{point.amount / s if point.amount else 1e3 * s:.3g}" for s in medians)
    values = f"{' → '.join(shown)} {point.unit} {point.metric}".rstrip()
    return f"{point.word} by {percent(abs(point_verdict.ratio - 1))} ({bounds} %){where}: {values}"


def sentence(result: PairedComparison) -> str:
    """Describe the ratios: arms, statistic and least change that matters."""
    baseline, *candidates = result.arms
    return (
        f"{' and '.join(candidates)} against {baseline} in {' '.join(result.overrides)}: "
        f"ratio of the {result.statistic} of times (above 1 is slower), "
        f"with {percent(result.fail_on)} as the least change that matters"
    )


def table(result: PairedComparison) -> "TextTable":
    import pandas as pd  # takes a second

    from analysis.shared.text_table import table_of

    several = len(result.arms) > 2
    rows = [
        [
            escape_unprintable(text, keep="")
            for text in (*([point.arm] if several else []), *cells(point))
        ]
        for point in result.points
    ]
    headers = [*(["arm"] if several else []), *HEADERS]
    return table_of(pd.DataFrame(rows, columns=headers))


def cells(point: ComparedCase) -> list[str]:
    point_verdict = point.verdict
    if point_verdict is None:
        return [point.label or point.name, "", "", "", "", "", f"{point.word} {point.reason}"]
    deviations = [spread for spread in (point.spread.baseline, point.spread.candidate) if spread]
    least = point_verdict.smallest_effect
    return [
        point.label or point.name,
        ratio_text(point_verdict.ratio),
        interval_text(point_verdict.low, point_verdict.high),
        str(point_verdict.num_pairs),
        percent(max(deviations)) if deviations else "",
        percent(least) if least is not None and math.isfinite(least) else "",
        verdict(point),
    ]


def verdict(point: ComparedCase) -> str:
    """Return the word of a point; for an unclear one, with the pairs that would decide.

    A change that is smaller than the noise floor is marked: single runs would not show it.
    """
    point_verdict, floor = point.verdict, point.identical_runs
    if point_verdict and point.word == UNCLEAR and point_verdict.pairs_needed:
        return f"{UNCLEAR} ({point_verdict.pairs_needed} pairs would do)"
    is_change = point_verdict and point.word in (FASTER, SLOWER)
    if (
        point_verdict
        and is_change
        and floor
        and max(point_verdict.ratio, 1 / point_verdict.ratio) - 1 <= floor
    ):
        return f"{point.word} (below the noise floor of single runs, {plus_minus(floor)})"
    return point.word


def remarks(result: PairedComparison) -> list[str]:
    """Return lines on the mean of each arm, secondary changes, and the remarks of the result."""
    lines = [f"geometric mean of {mean.arm}: {mean_text(mean)}" for mean in result.means]
    if result.control:
        lines.append(
            f"A/A control, {result.control.arm} against itself: {mean_text(result.control)}"
        )
    verdicts = {(point.name, point.arm): point.verdict for point in result.points}
    changes = [
        (secondary, verdicts[secondary.name, secondary.arm]) for secondary in result.secondary
    ]
    return [*lines, *further_changes(changes), *result.remarks]


def mean_text(mean: GeometricMean) -> str:
    if not mean.num_pairs:
        return "no pair has all points"
    pairs = "1 pair" if mean.num_pairs == 1 else f"{mean.num_pairs} pairs"
    return f"{ratio_text(mean.ratio)} {interval_text(mean.low, mean.high)} ({pairs})"


def as_junit(result: PairedComparison) -> bytes:
    """Return a test case per point, see `junit`."""
    return junit(
        "benchkit compare",
        [
            (point.arm, point.name, point.word, " ".join(filter(None, cells(point)[1:])))
            for point in result.points
        ],
    )

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
from analysis.compare.verdicts import FAILED, FASTER, SAME, SLOWER, UNCLEAR, PointVerdict
from benchkit.compare import RESULT_FILE
from benchkit.record import files
from benchkit.record.naming import escape_markdown, escape_unprintable, percent, plus_minus
from benchkit.statistics.power import RunDeviations

if TYPE_CHECKING:
    from analysis.shared.text_table import TextTable


@dataclass
class ComparedPoint:
    """One point of one arm against the baseline.

    Attributes:
        label: its name in the words of the suite's question; "" where it is the only one.
        arm: the candidate, as it was typed.
        word: FASTER, SLOWER, SAME, UNCLEAR, FAILED, FIXED, NEW or NOT COMPARED.
        reason: why it has no times in some pairs; "" if it has.
        verdict: None where the times of pairs do not decide the word.
        floor: noise floor of the verdict, as a share; None if not known.
        floor_of_pairs: noise floor by these pairs if both arms are identical.
        baseline_s: the figure of each pair's run of the baseline, in seconds; NaN without.
        candidate_s: the same of the candidate.
        identical_runs: what two identical single runs differ by, as a share, by a selftest; None
            without one.
        metric, unit, amount: a rate that the question asks for, such as busbw in GB/s, and what it
            is of a call of one second; a time if the amount is None.
    """

    name: str
    label: str
    arm: str
    word: str
    reason: str
    verdict: PointVerdict | None
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
    """What is found by pairs of runs: compare_result.json.

    Attributes:
        arms: as they were typed; the first one is the baseline.
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
    points: list[ComparedPoint] = []
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
        """Return the table and what else is known, for a terminal."""
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
    """Return the same for a pull request."""
    bullets = "\n".join(f"- {line}" for line in remarks(result))
    return (
        f"### benchkit compare: {escape_markdown(answer(result))}\n\n{sentence(result)}\n\n"
        f"{table(result).markdown()}\n\n{bullets}\n"
    )


LEADING = (FAILED, SLOWER, FASTER)


def answer(result: PairedComparison) -> str:
    """Say in one line what has changed most, and how many points have which verdict."""

    def weight(point: ComparedPoint) -> tuple[int, float]:
        rank = LEADING.index(point.word) if point.word in LEADING else len(LEADING)
        return rank, -abs(math.log(point.verdict.ratio)) if point.verdict and rank < 3 else 0.0

    points = sorted(result.points, key=weight)
    told = points[:1] if points and points[0].word in LEADING else []
    parts = [change(point, len(result.arms) > 2) for point in told]
    counted = Counter(point.word for point in points[len(told) :])
    for word, count in counted.items():
        more = ("more " if told and word == told[0].word else "other ") if told else ""
        what = f"{count} {more}point" + "s" * (count > 1)
        within = f" within {percent(result.fail_on)}" if word == SAME else ""
        parts.append(f"{what} {'unchanged' if word == SAME else word}{within}")
    return escape_unprintable("; ".join(parts) or "no point was compared", keep="")


def change(point: ComparedPoint, is_named: bool) -> str:
    """Describe a change: "SLOWER by 12 % (8–17 %) at 1 MiB: 0.74 → 0.83 ms"."""
    where = (f" at {point.label}" if point.label else "") + (f" of {point.arm}" * is_named)
    found = point.verdict
    if found is None:
        return f"{point.word}{where}: {point.reason}"
    sizes = sorted(abs(end - 1) for end in (found.low, found.high))
    ends = "–".join(percent(size).removesuffix(" %") for size in sizes)
    pairs = zip(point.baseline_s, point.candidate_s, strict=True)
    both = [pair for pair in pairs if all(map(math.isfinite, pair))]
    figures = (median(times) for times in zip(*both, strict=True))
    shown = (f"{point.amount / s if point.amount else 1e3 * s:.3g}" for s in figures)
    values = f"{' → '.join(shown)} {point.unit} {point.metric}".rstrip()
    return f"{point.word} by {percent(abs(found.ratio - 1))} ({ends} %){where}: {values}"


def sentence(result: PairedComparison) -> str:
    """Say what the ratios are of."""
    baseline, *others = result.arms
    return (
        f"{' and '.join(others)} against {baseline} in {' '.join(result.overrides)}: "
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


def cells(point: ComparedPoint) -> list[str]:
    found = point.verdict
    if found is None:
        return [point.label or point.name, "", "", "", "", "", f"{point.word} {point.reason}"]
    within = [spread for spread in (point.spread.baseline, point.spread.candidate) if spread]
    least = found.smallest_effect
    return [
        point.label or point.name,
        ratio_text(found.ratio),
        interval_text(found.low, found.high),
        str(found.num_pairs),
        percent(max(within)) if within else "",
        percent(least) if least is not None and math.isfinite(least) else "",
        verdict(point),
    ]


def verdict(point: ComparedPoint) -> str:
    """Return the word of a point, with what an unclear one would take.

    A change that is smaller than the noise floor is marked: single runs would not show it.
    """
    found, floor = point.verdict, point.identical_runs
    if found and point.word == UNCLEAR and found.pairs_needed:
        return f"{UNCLEAR} ({found.pairs_needed} pairs would do)"
    is_change = found and point.word in (FASTER, SLOWER)
    if found and is_change and floor and max(found.ratio, 1 / found.ratio) - 1 <= floor:
        return f"{point.word} (below the noise floor of single runs, {plus_minus(floor)})"
    return point.word


def remarks(result: PairedComparison) -> list[str]:
    """Return a line on the geometric mean of each arm, each secondary change, and what else."""
    lines = [f"geometric mean of {mean.arm}: {described(mean)}" for mean in result.means]
    if result.control:
        lines.append(
            f"A/A control, {result.control.arm} against itself: {described(result.control)}"
        )
    verdicts = {(point.name, point.arm): point.verdict for point in result.points}
    changes = [(found, verdicts[found.name, found.arm]) for found in result.secondary]
    return [*lines, *further_changes(changes), *result.remarks]


def described(mean: GeometricMean) -> str:
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

"""A comparison as text, JSON, JUnit XML and Markdown."""

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchkit.compare.command import RESULT_FILE
from benchkit.record import files
from benchkit.record.naming import in_markdown, printable
from benchkit.statistics.compare import (
    FAILED,
    FASTER,
    SAME,
    SLOWER,
    UNCLEAR,
    Change,
    Spread,
    Verdict,
    junit,
    percent,
    plus_minus,
)

if TYPE_CHECKING:
    from analysis.text_table import TextTable


@dataclass
class Compared:
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
    verdict: Verdict | None
    spread: Spread
    floor: float | None
    floor_of_pairs: float | None
    baseline_s: list[float]
    candidate_s: list[float]
    identical_runs: float | None = None
    metric: str = ""
    unit: str = "ms"
    amount: float | None = None


@dataclass(frozen=True)
class Finding:
    """A secondary figure of a point that differs, such as p95.

    Attributes:
        is_share: whether the change is a difference of shares; else it is one of logarithms.
    """

    name: str
    arm: str
    figure: str
    is_share: bool
    change: Change


@dataclass(frozen=True)
class Mean:
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


@dataclass
class Result:
    """compare_result.json.

    Attributes:
        arms: as they were typed; the first one is the baseline.
        fail_on: the least change that matters, as a share.
        level: error rate of each look.
        num_pairs: pairs of runs, without A/A pairs.
        control: mean over the A/A pairs; None without any.
        secondary: figures beside the statistic that differ.
        remarks: one line each.
    """

    id: str
    arms: list[str]
    overrides: list[str]
    statistic: str
    fail_on: float
    level: float
    num_pairs: int
    points: list[Compared] = field(default_factory=list)
    means: list[Mean] = field(default_factory=list)
    control: Mean | None = None
    secondary: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    exit_code: int = 0

    @property
    def words(self) -> list[str]:
        return [point.word for point in self.points]


JUNIT_FILE, MARKDOWN_FILE = "junit.xml", "compare.md"
HEADERS = ("point", "ratio", "interval", "pairs", "between runs", "smallest effect", "verdict")


def write(result: Result, folder: Path) -> None:
    content = msgspec.json.format(msgspec.json.encode(result), indent=2)
    files.write_whole(folder / RESULT_FILE, content)
    files.write_whole(folder / JUNIT_FILE, as_junit(result))
    files.write_whole(folder / MARKDOWN_FILE, as_markdown(result).encode())


def as_text(result: Result) -> str:
    """Return the table and what else is known, for a terminal."""
    lines = [answer(result), "", sentence(result), "", table(result).text(), "", *means(result)]
    return "\n".join([*lines, *tails(result), *result.remarks])


def as_markdown(result: Result) -> str:
    """Return the same for a pull request."""
    lines = [*means(result), *tails(result), *result.remarks]
    bullets = "\n".join(f"- {line}" for line in lines)
    return (
        f"### benchkit compare: {in_markdown(answer(result))}\n\n{sentence(result)}\n\n"
        f"{table(result).markdown()}\n\n{bullets}\n"
    )


LEADING = (FAILED, SLOWER, FASTER)


def answer(result: Result) -> str:
    """Say in one line what has changed most, and how many points have which verdict."""

    def weight(point: Compared) -> tuple[int, float]:
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
    return printable("; ".join(parts) or "no point was compared", keep="")


def change(point: Compared, is_named: bool) -> str:
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


def sentence(result: Result) -> str:
    """Say what the ratios are of."""
    baseline, *others = result.arms
    return (
        f"{' and '.join(others)} against {baseline} in {' '.join(result.overrides)}: "
        f"ratio of the {result.statistic} of times (above 1 is slower), "
        f"with {percent(result.fail_on)} as the least change that matters"
    )


def table(result: Result) -> "TextTable":
    import pandas as pd  # takes a second

    from analysis.text_table import table_of

    several = len(result.arms) > 2
    rows = [
        [printable(text, keep="") for text in (*([point.arm] if several else []), *cells(point))]
        for point in result.points
    ]
    headers = [*(["arm"] if several else []), *HEADERS]
    return table_of(pd.DataFrame(rows, columns=headers))


def cells(point: Compared) -> list[str]:
    found = point.verdict
    if found is None:
        return [point.label or point.name, "", "", "", "", "", f"{point.word} {point.reason}"]
    within = [spread for spread in (point.spread.baseline, point.spread.candidate) if spread]
    least = found.smallest_effect
    return [
        point.label or point.name,
        number(found.ratio),
        interval(found.low, found.high),
        str(found.num_pairs),
        percent(max(within)) if within else "",
        percent(least) if least is not None and math.isfinite(least) else "",
        verdict(point),
    ]


def verdict(point: Compared) -> str:
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


def means(result: Result) -> list[str]:
    """Return the geometric mean of each arm, and of the A/A pairs."""
    lines = [f"geometric mean of {mean.arm}: {described(mean)}" for mean in result.means]
    if result.control:
        lines.append(
            f"A/A control, {result.control.arm} against itself: {described(result.control)}"
        )
    return lines


def described(mean: Mean) -> str:
    if not mean.num_pairs:
        return "no pair has all points"
    pairs = "1 pair" if mean.num_pairs == 1 else f"{mean.num_pairs} pairs"
    return f"{number(mean.ratio)} {interval(mean.low, mean.high)} ({pairs})"


def tails(result: Result) -> list[str]:
    """Return the secondary findings that the verdicts do not say already."""
    verdicts = {(point.name, point.arm): point.verdict for point in result.points}
    lines = []
    for finding in result.secondary:
        found, ratio = verdicts[finding.name, finding.arm], math.exp(finding.change.estimate)
        if finding.is_share or not (found and found.low <= ratio <= found.high):
            lines.append(describe(finding))
    return lines


def describe(finding: Finding) -> str:
    """Return a secondary finding in words; it decides no verdict."""
    change = finding.change
    if finding.is_share:
        size = f"{change.estimate:+.1%} [{change.low:+.1%}, {change.high:+.1%}]"
    else:
        size = f"{number(math.exp(change.estimate))} times "
        size += interval(math.exp(change.low), math.exp(change.high))
    return f"also {finding.name} of {finding.arm}: {finding.figure} {size}"


def number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else ""


def interval(low: float, high: float) -> str:
    if not (low > 0 and math.isfinite(high)):
        return "[too few]"
    return f"[{number(low)}, {number(high)}]"


def as_junit(result: Result) -> bytes:
    """Return a test case per point, see `junit`."""
    return junit(
        "benchkit compare",
        [
            (point.arm, point.name, point.word, " ".join(filter(None, cells(point)[1:])))
            for point in result.points
        ],
    )

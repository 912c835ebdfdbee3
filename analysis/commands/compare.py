"""`python -m analysis compare DIR DIR` compares the records of two places, point by point."""

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import pandas as pd

from analysis.commands.accept import read_records
from analysis.commands.comparison import (
    INDICATIVE,
    LEVEL,
    SIDES,
    SLOW_SHARE,
    Comparison,
    compare,
    fewest_runs,
)
from analysis.output import folder_for
from analysis.output import write as write_file
from analysis.records.derive import usable_processes
from analysis.records.environments import differences
from analysis.records.harvest import Harvest, harvest, plan_of
from analysis.records.paths import one_line, require_there
from analysis.suites.acceptance.changes import changes
from analysis.text import command, complain
from analysis.text_table import TextTable, Writer, table_of
from benchkit.errors import ConfigError
from benchkit.record.naming import named, printable
from benchkit.statistics.compare import FAILED, FIXED, NEW, NOT_COMPARED, RankSum, exit_code, junit
from benchkit.statistics.faults import Limits

MOST_NAMED = 5
"""How many points are named; further ones are only counted."""
MEANINGS = {
    FAILED: "Worse: failed, or no longer measured",
    FIXED: "Measured in B, and not in A",
    NEW: "Only B has the point",
    NOT_COMPARED: "Without a result on both sides",
    "": "Judged by the runs with a result alone",
}
"""Of the words on points that the figures of their runs do not decide; "" where some lack one."""
NOT_IN_TURNS = (
    "A and B were not measured in turns: all that changed between them, known or not, is in the "
    "ratios."
)


def page(
    result: Comparison, sides: list[Harvest], options: argparse.Namespace, write_table: Writer
) -> str:
    """Return the text of the comparison."""
    parts = [
        "\n".join(map(origin, SIDES, options.places, sides)),
        environments(sides, write_table),
        points_table(result, write_table),
        "\n".join(notes(result, options)),
    ]
    return "\n\n".join(parts)


def origin(side: str, place: Path, found: Harvest) -> str:
    """Return what a side is: its place, how many runs it has, and when they started."""
    runs = len({row["run"] for row in found.rows})
    started = sorted(str(row["started_at"]) for row in found.rows)
    return printable(
        f"{side}: {place}: {runs} run{'s' * (runs > 1)}, started {started[0]} to {started[-1]}"
    )


def environments(sides: list[Harvest], write_table: Writer) -> str:
    """Return a table of what differs between the environments of both sides."""
    found = differences(*(side.environments for side in sides))
    table = pd.DataFrame(found, columns=["environment", *SIDES])
    if table.empty:
        return "Their environments do not differ, as far as records tell."
    return write_table(table_of(table))


def points_table(result: Comparison, write_table: Writer) -> str:
    """Return the table of the points; settings that all of them share are in a line above it."""
    points = result.points
    known = points.dropna(subset="suite")  # not what was planned and never measured
    shared = [name for name in result.settings if known[name].nunique(dropna=False) == 1]
    shown = points[[name for name in result.settings if name not in shared]].copy()
    for name in shown:
        shown[name] = shown[name].map(partial(named, name), na_action="ignore")
    for side in SIDES:
        shown[f"{side} [ms]"] = 1e3 * points[f"{side}_s"]
    counts = [runs_text(points[f"{side}_runs"], points[f"{side}_planned"]) for side in SIDES]
    shown["runs"] = [" / ".join(both) for both in zip(*counts, strict=True)]
    for side in SIDES:
        shown[f"{side} sd of runs [%]"] = 100 * pd.to_numeric(points[f"{side}_spread"])
    shown["B / A"] = points["ratio"]
    if "ratio_low" in points:
        shown["interval"] = [
            "" if pd.isna(low) else f"[{low:.3f}, {high:.3f}]"
            for low, high in zip(points["ratio_low"], points["ratio_high"], strict=True)
        ]
    shown["verdict"] = [
        f"{word} ({reason})" if word in MEANINGS and reason else word
        for word, reason in zip(points["verdict"], points["reason"], strict=True)
    ]
    first = known.iloc[0]
    held = [f"{name} {named(name, first[name])}" for name in shared if pd.notna(first[name])]
    table = write_table(table_of(shown.dropna(axis=1, how="all")))
    return f"All points: {', '.join(held)}\n\n{table}"


def runs_text(measured: pd.Series, planned: pd.Series) -> list[str]:
    """Return how many runs have a result, of how many where some have none."""
    return [
        f"{runs:g}" if runs == of else f"{runs:g} of {of:g}"
        for runs, of in zip(measured, planned, strict=True)
    ]


def as_junit(result: Comparison, place: Path) -> bytes:
    """Return a test case for each point: what is worse in B, a place, fails."""
    cases = []
    for name, point in zip(result.names, result.points.to_dict("records"), strict=True):
        word = point["verdict"]
        told = point["reason"] if word in MEANINGS else f"B / A {point['ratio']:.3f}"
        cases.append((printable(str(place)), printable(name), word, f"{word}: {told}"))
    return junit("analysis compare", cases)


def notes(result: Comparison, options: argparse.Namespace) -> Iterator[str]:
    """Yield sentences on what was compared, what was not, and how far it can be trusted."""
    told: dict[str, list[str]] = {meaning: [] for meaning in MEANINGS.values()}
    for name, word, reason in zip(result.names, result.words, result.points["reason"], strict=True):
        if reason:
            told[MEANINGS.get(word, MEANINGS[""])].append(f"{name} ({reason})")
    for meaning, names in told.items():
        if names:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            yield printable(f"{meaning}: {len(names)}: {'; '.join(names[:MOST_NAMED])}{more}")
    if not result.num_matched:
        return
    counts = Counter(word for word in result.words if word not in MEANINGS)
    num_indicative = counts.pop(INDICATIVE, 0)
    if counts:
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield (
            f"{words}: of {options.statistic}, where {100 * options.fail_on:.3g} % matter; "
            "intervals by the rank sum of the runs, at an error rate of 5 % over all points. One "
            f"may need {fewest_runs(counts.total())} runs on each side."
        )
    if result.num_matched > 1:
        yield f"Geometric mean over {result.num_matched} points: {mean_text(result.mean)}"
    yield from secondary(result)
    if num_indicative:
        yield (
            f"{num_indicative} {INDICATIVE}: a side has a single run, and how much runs differ is "
            "not known (measure both sides with repeat=6)."
        )
    yield NOT_IN_TURNS


def mean_text(mean: RankSum) -> str:
    if math.isnan(mean.estimate):
        return "no run has all of them"
    low, high = mean.interval(LEVEL)
    return ratio_text(math.exp(mean.estimate), math.exp(low), math.exp(high))


def ratio_text(ratio: float, low: float, high: float) -> str:
    """Return a ratio and its interval, which runs may be too few for: "1.10 times [1.02, 1.20]"."""
    ends = "" if math.isinf(high) else f" [{low:.3f}, {high:.3f}]"
    return f"{ratio:.3f} times{ends}"


def secondary(result: Comparison) -> Iterator[str]:
    for (number, figure), change in result.secondary.items():
        point = result.points.iloc[number]
        ratio = math.exp(change.estimate)
        if figure == SLOW_SHARE:
            size = f"{change.estimate:+.1%} [{change.low:+.1%}, {change.high:+.1%}]"
        elif point.get("ratio_low", math.inf) <= ratio <= point.get("ratio_high", -math.inf):
            continue
        else:
            size = ratio_text(ratio, math.exp(change.low), math.exp(change.high))
        yield printable(f"Also {result.names[number]}: {figure.removesuffix('_s')} {size}")


warn = partial(complain, "analysis compare")

STATISTICS = {name: f"{name}_s" for name in ("p25", "median", "mean", "p95")}
WORSE, INVALID, NO_MATCH = 1, 2, 3
"""Exit codes. NO_MATCH, where nothing was compared, is that of unclear points."""


@command("analysis compare")
def main(arguments: list[str]) -> int:
    """Print and write what differs between two environments, and how their points compare.

    Returns:
        The exit code, as `parser` describes it.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    sides = [harvest([place], usable_processes()) for place in options.places]
    plans = []
    for place, found in zip(options.places, sides, strict=True):
        plan = plan_of([place], {str(row["path"]) for row in found.rows})
        for line in (*found.remarks(), *(f"passed over {fault}" for fault in plan.faults)):
            warn(line)
        if not found.rows:
            raise ConfigError(f"no readable record.json at or below {place}")
        plans.append(plan)
    rows = [found.rows for found in sides]
    statistic = STATISTICS[options.statistic]
    result = compare(rows, plans, statistic=statistic, fail_on=options.fail_on)
    written = write(result, sides, options)
    changed, code = what_changed(sides, options.fail_on)
    print(page(result, sides, options, TextTable.text), "", *changed, *written, sep="\n")
    codes = code, exit_code(result.words)
    return WORSE if WORSE in codes else max(codes)


def what_changed(sides: list[Harvest], tolerance: float) -> tuple[list[str], int]:
    """Return what two acceptances tell of ranks and links, and what that makes the exit code."""
    read = [read_records({str(row["path"]) for row in side.rows}) for side in sides]
    for line in chain.from_iterable(flaws for _, flaws in read):
        warn(f"passed over {line}")
    (before, _), (now, _) = read
    if not (before and now):
        return [], 0
    found = [each for each in changes(before, now, Limits(tolerance=tolerance)) if each]
    lines = [one_line(line) for each in found for line in each.lines(tolerance)]
    if not found:
        lines = ["- The acceptances are of other ranks: nothing can be compared."]
    code = 0 if any(each.overall for each in found) else NO_MATCH
    if any(each.slower for each in found):
        code = WORSE
    return ["What changed in the acceptance, B over A:", *lines, ""], code


def write(result: Comparison, sides: list[Harvest], options: argparse.Namespace) -> list[str]:
    """Write the table as CSV and JUnit XML, and the page in Markdown; return a line for each."""
    folder = folder_for(options.places[0], options.output_dir)
    written = [
        write_file(folder, "compare.csv", result.points),
        write_file(folder, "compare.md", page(result, sides, options, TextTable.markdown)),
        write_file(folder, "compare_junit.xml", as_junit(result, options.places[1])),
    ]
    return [printable(f"wrote {path}") for path in written]


def share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed are shares > 0% and < 100%, e.g. 5%")
    return value


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis compare",
        description="`benchkit-analysis compare A B`: what differs between the environments of "
        "two places, and for each point whether B is faster or slower than A. A point is worse in "
        "B, too, if a larger share of its planned runs has no result there than in A. A point "
        "with a single run on a side is neither faster nor slower.",
        epilog="Exit code: 0 nothing is worse; 1 a point is worse: slower, failed or no longer "
        "measured; 3 too little to tell: a point is unclear, or none is compared; 2 the command "
        "line is wrong, or a file cannot be used.",
    )
    result.add_argument("places", metavar="DIR", nargs=2, type=Path, help="folders of records")
    result.add_argument(
        "--fail-on",
        metavar="SHARE",
        type=share,
        default=0.05,
        help="the least change that matters (5%%)",
    )
    result.add_argument(
        "--statistic",
        choices=STATISTICS,
        default="p25",
        help="the figure of each run (p25)",
    )
    result.add_argument(
        "--output-dir",
        metavar="D",
        type=Path,
        help="where to write (default: report/ in the first)",
    )
    return result

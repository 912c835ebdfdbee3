"""A comparison of two places as text, Markdown, CSV and JUnit XML."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.compare.folders import INDICATIVE, SIDES, FoldersComparison, fewest_runs
from analysis.compare.report import further_changes, interval_text, junit, ratio_text
from analysis.compare.verdicts import FAILED, FIXED, NEW, NOT_COMPARED
from analysis.records.environments import differences
from analysis.records.harvest import Harvest
from analysis.shared.text_table import Writer, table_of
from benchkit.record.naming import escape_unprintable, format_label, ratio_interval
from benchkit.statistics.intervals import ALPHA
from benchkit.statistics.rank_tests import RankSum

MOST_NAMED = 5
"""How many points are named; further ones are only counted."""
MEANINGS = {
    FAILED: "Worse: failed, or no longer measured",
    FIXED: "Measured in B, and not in A",
    NEW: "Only B has the point",
    NOT_COMPARED: "Without a result on both sides",
    "": "Judged by the runs with a result alone",
}
"""By word, for points that metrics do not decide; "" where some runs have no result."""
NOT_INTERLEAVED = (
    "A and B were not interleaved: all that changed between them, known or not, is in the ratios."
)


def comparison_text(
    result: FoldersComparison, places: Sequence[Path], sides: Sequence[Harvest], write_table: Writer
) -> str:
    """Return the text of the comparison."""
    parts = [
        "\n".join(map(origin, SIDES, places, sides)),
        environments(sides, write_table),
        points_table(result, write_table),
        "\n".join(notes(result)),
    ]
    return "\n\n".join(parts)


def origin(side: str, place: Path, records: Harvest) -> str:
    """Describe a side: its place, its number of runs, and when they started."""
    runs = len({row["run"] for row in records.rows})
    started = sorted(str(row["started_at"]) for row in records.rows)
    return escape_unprintable(
        f"{side}: {place}: {runs} run{'s' * (runs > 1)}, started {started[0]} to {started[-1]}"
    )


def environments(sides: Sequence[Harvest], write_table: Writer) -> str:
    """Return a table of what differs between the environments of both sides."""
    differing = differences(*(side.environments for side in sides))
    table = pd.DataFrame(differing, columns=["environment", *SIDES])
    if table.empty:
        return "Their environments do not differ, as far as records tell."
    return write_table(table_of(table))


def points_table(result: FoldersComparison, write_table: Writer) -> str:
    """Return the table of the points; settings that all of them share are in a line above it."""
    points = result.points
    measured = points.dropna(subset="suite")  # not what was planned and never measured
    shared = [name for name in result.settings if measured[name].nunique(dropna=False) == 1]
    shown = points[[name for name in result.settings if name not in shared]].copy()
    for name in shown:
        shown[name] = shown[name].map(partial(format_label, name), na_action="ignore")
    for side in SIDES:
        shown[f"{side} [ms]"] = 1e3 * points[f"{side}_s"]
    counts = [runs_text(points[f"{side}_runs"], points[f"{side}_planned"]) for side in SIDES]
    shown["runs"] = [" / ".join(both) for both in zip(*counts, strict=True)]
    for side in SIDES:
        shown[f"{side} sd of runs [%]"] = 100 * pd.to_numeric(points[f"{side}_spread"])
    shown["B / A"] = points["ratio"]
    if "ratio_low" in points:
        shown["interval"] = [
            "" if pd.isna(low) else ratio_interval(low, high)
            for low, high in zip(points["ratio_low"], points["ratio_high"], strict=True)
        ]
    shown["verdict"] = [
        f"{word} ({reason})" if word in MEANINGS and reason else word
        for word, reason in zip(points["verdict"], points["reason"], strict=True)
    ]
    first = measured.iloc[0]
    shared_words = [
        f"{name} {format_label(name, first[name])}" for name in shared if pd.notna(first[name])
    ]
    table = write_table(table_of(shown.dropna(axis=1, how="all")))
    return f"All points: {', '.join(shared_words)}\n\n{table}"


def runs_text(measured: pd.Series, planned: pd.Series) -> list[str]:
    """Format the number of runs with a result: "4", or "3 of 4" where some have none."""
    return [
        f"{runs:g}" if runs == of else f"{runs:g} of {of:g}"
        for runs, of in zip(measured, planned, strict=True)
    ]


def as_junit(result: FoldersComparison, place: Path) -> bytes:
    """Return a test case for each point, which fails if it is worse in B, a place."""
    cases = []
    for name, point in zip(result.names, result.points.to_dict("records"), strict=True):
        word = point["verdict"]
        text = point["reason"] if word in MEANINGS else f"B / A {point['ratio']:.3f}"
        cases.append(
            (escape_unprintable(str(place)), escape_unprintable(name), word, f"{word}: {text}")
        )
    return junit("analysis compare", cases)


def notes(result: FoldersComparison) -> Iterator[str]:
    """Yield sentences on what was compared, what was not, and how certain it is."""
    names_by_meaning: dict[str, list[str]] = {meaning: [] for meaning in MEANINGS.values()}
    for name, word, reason in zip(result.names, result.words, result.points["reason"], strict=True):
        if reason:
            names_by_meaning[MEANINGS.get(word, MEANINGS[""])].append(f"{name} ({reason})")
    for meaning, names in names_by_meaning.items():
        if names:
            rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            yield escape_unprintable(
                f"{meaning}: {len(names)}: {'; '.join(names[:MOST_NAMED])}{rest}"
            )
    if not result.num_by_metrics:
        return
    counts = Counter(word for word in result.words if word not in MEANINGS)
    num_indicative = counts.pop(INDICATIVE, 0)
    if counts:
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield (
            f"{words}: of {result.statistic}, where {100 * result.fail_on:.3g} % matter; "
            "intervals by the rank sum of the runs, at an error rate of 5 % over all points. One "
            f"may need {fewest_runs(counts.total())} runs on each side."
        )
    if result.num_by_metrics > 1:
        yield f"Geometric mean over {result.num_by_metrics} points: {mean_text(result.mean)}"
    for line in further_changes(result.secondary):
        yield escape_unprintable(f"A{line[1:]}")
    if num_indicative:
        yield (
            f"{num_indicative} {INDICATIVE}: a side has a single run, and how much runs differ is "
            "not known (measure both sides with repeat=6)."
        )
    yield NOT_INTERLEAVED


def mean_text(mean: RankSum) -> str:
    if math.isnan(mean.estimate):
        return "no run has all of them"
    low, high = map(math.exp, mean.interval(ALPHA))
    return f"{ratio_text(math.exp(mean.estimate))} times {interval_text(low, high)}"

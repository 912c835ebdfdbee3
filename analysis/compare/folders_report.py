"""A comparison of two places as text, Markdown, CSV and JUnit XML."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.compare.folders import INDICATIVE, SIDES, PlacesComparison, fewest_runs
from analysis.compare.report import further_changes, interval_text, junit, ratio_text
from analysis.compare.verdicts import FAILED, FIXED, NEW, NOT_COMPARED
from analysis.records.environments import differences
from analysis.records.harvest import Harvest
from analysis.shared.text_table import Writer, table_of
from benchkit.record.naming import escape_unprintable, format_label
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
"""Of the words on points that the figures of their runs do not decide; "" where some lack one."""
NOT_IN_TURNS = (
    "A and B were not interleaved: all that changed between them, known or not, is in the ratios."
)


def page(
    result: PlacesComparison, places: Sequence[Path], sides: Sequence[Harvest], write_table: Writer
) -> str:
    """Return the text of the comparison."""
    parts = [
        "\n".join(map(origin, SIDES, places, sides)),
        environments(sides, write_table),
        points_table(result, write_table),
        "\n".join(notes(result)),
    ]
    return "\n\n".join(parts)


def origin(side: str, place: Path, found: Harvest) -> str:
    """Return what a side is: its place, how many runs it has, and when they started."""
    runs = len({row["run"] for row in found.rows})
    started = sorted(str(row["started_at"]) for row in found.rows)
    return escape_unprintable(
        f"{side}: {place}: {runs} run{'s' * (runs > 1)}, started {started[0]} to {started[-1]}"
    )


def environments(sides: Sequence[Harvest], write_table: Writer) -> str:
    """Return a table of what differs between the environments of both sides."""
    found = differences(*(side.environments for side in sides))
    table = pd.DataFrame(found, columns=["environment", *SIDES])
    if table.empty:
        return "Their environments do not differ, as far as records tell."
    return write_table(table_of(table))


def points_table(result: PlacesComparison, write_table: Writer) -> str:
    """Return the table of the points; settings that all of them share are in a line above it."""
    points = result.points
    known = points.dropna(subset="suite")  # not what was planned and never measured
    shared = [name for name in result.settings if known[name].nunique(dropna=False) == 1]
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
            "" if pd.isna(low) else f"[{low:.3f}, {high:.3f}]"
            for low, high in zip(points["ratio_low"], points["ratio_high"], strict=True)
        ]
    shown["verdict"] = [
        f"{word} ({reason})" if word in MEANINGS and reason else word
        for word, reason in zip(points["verdict"], points["reason"], strict=True)
    ]
    first = known.iloc[0]
    held = [f"{name} {format_label(name, first[name])}" for name in shared if pd.notna(first[name])]
    table = write_table(table_of(shown.dropna(axis=1, how="all")))
    return f"All points: {', '.join(held)}\n\n{table}"


def runs_text(measured: pd.Series, planned: pd.Series) -> list[str]:
    """Return how many runs have a result, of how many where some have none."""
    return [
        f"{runs:g}" if runs == of else f"{runs:g} of {of:g}"
        for runs, of in zip(measured, planned, strict=True)
    ]


def as_junit(result: PlacesComparison, place: Path) -> bytes:
    """Return a test case for each point: what is worse in B, a place, fails."""
    cases = []
    for name, point in zip(result.names, result.points.to_dict("records"), strict=True):
        word = point["verdict"]
        told = point["reason"] if word in MEANINGS else f"B / A {point['ratio']:.3f}"
        cases.append(
            (escape_unprintable(str(place)), escape_unprintable(name), word, f"{word}: {told}")
        )
    return junit("analysis compare", cases)


def notes(result: PlacesComparison) -> Iterator[str]:
    """Yield sentences on what was compared, what was not, and how far it can be trusted."""
    told: dict[str, list[str]] = {meaning: [] for meaning in MEANINGS.values()}
    for name, word, reason in zip(result.names, result.words, result.points["reason"], strict=True):
        if reason:
            told[MEANINGS.get(word, MEANINGS[""])].append(f"{name} ({reason})")
    for meaning, names in told.items():
        if names:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            yield escape_unprintable(
                f"{meaning}: {len(names)}: {'; '.join(names[:MOST_NAMED])}{more}"
            )
    if not result.num_matched:
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
    if result.num_matched > 1:
        yield f"Geometric mean over {result.num_matched} points: {mean_text(result.mean)}"
    for line in further_changes(result.secondary):
        yield escape_unprintable(f"A{line[1:]}")
    if num_indicative:
        yield (
            f"{num_indicative} {INDICATIVE}: a side has a single run, and how much runs differ is "
            "not known (measure both sides with repeat=6)."
        )
    yield NOT_IN_TURNS


def mean_text(mean: RankSum) -> str:
    if math.isnan(mean.estimate):
        return "no run has all of them"
    low, high = map(math.exp, mean.interval(ALPHA))
    return f"{ratio_text(math.exp(mean.estimate))} times {interval_text(low, high)}"

"""Says what a report asks and what it found: the head of the page."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from analysis.records.conditions import DIMENSIONS
from analysis.report import sentences
from analysis.report.contests import whole_work
from analysis.report.discover import modules_with
from analysis.report.naming import Namer, milliseconds, operation, settings
from analysis.table import CONDITIONS, SETTINGS, own_columns
from benchkit.record.naming import named
from benchkit.record.statuses import HARMLESS

MOST_TITLES = 4
MOST_SETTINGS, MOST_WORDS = 3, 3
MOST_ANSWERS = {
    sentences.VERDICT: 4,
    sentences.SPEEDUPS: 3,
    sentences.EXTREMES: 3,
    sentences.WITH_SIZE: 1,
    sentences.WITH_RANKS: 1,
}
"""Sentences in the verdict, by paragraph; all of them follow in their section."""


def question_of(table: pd.DataFrame) -> str:
    """Ask what the points were measured for.

    For example "How long does all_reduce take, by data_size (1 KiB to 1 MiB) and world_size (2,
    4)?".
    """
    for _, module in modules_with("conclude"):
        if table["suite"].isin(module.CONCLUDED).all():
            return str(module.QUESTION)
    titles = list(map(str, table["title"].dropna().unique()))
    what = listed(titles) if len(titles) <= MOST_TITLES else f"{len(titles)} benchmarks"
    verb = "does" if len(titles) == 1 else "do"
    asked = [name for name in varied_settings(table) if set(table[name]) != set(titles)]
    by = listed([f"{name} ({values_of(table, name)})" for name in asked[:MOST_SETTINGS]])
    return f"How long {verb} {what} take{f', by {by}' if by else ''}?"


def varied_settings(table: pd.DataFrame) -> list[str]:
    """Return the settings that differ, first those in which points differ and not only their cases.

    Settings that only some cases have are left out, unless there are no others.
    """
    own = [name for name in own_columns(table) if name not in DIMENSIONS]
    shared = [name for name in (*SETTINGS, *CONDITIONS) if name not in ("suite", "status", "seed")]
    varied = [name for name in (*own, *shared) if table[name].nunique() > 1]
    measured = table[table["status"] == "ok"]
    complete = [name for name in varied if measured[name].notna().all()]
    points = measured.groupby("point_id")
    return sorted(complete or varied, key=lambda name: bool(points[name].nunique().max() > 1))


def values_of(table: pd.DataFrame, name: str) -> str:
    """Format the values of a setting: a range of numbers, a few words, or how many words."""
    values = table[name].dropna().unique().tolist()
    if all(isinstance(value, int | float) for value in values):
        ends = [named(name, value) for value in (min(values), max(values))]
        return " to ".join(ends) if len(values) > 2 else ", ".join(ends)
    words = [named(name, value) for value in values]
    return ", ".join(words) if len(words) <= MOST_WORDS else f"{len(words)} values"


def listed(words: list[str]) -> str:
    """Join words: "a, b and c"."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last


def verdict_of(table: pd.DataFrame, found: Mapping[str, list[str]]) -> list[str]:
    """Answer in a few sentences; without alternatives or sizes, with the range of the times.

    Args:
        table: the combined table.
        found: sentences by the titles of their paragraphs, see `analysis.report.sentences`.
    """
    answers = [line for title, most in MOST_ANSWERS.items() for line in found[title][:most]]
    return answers or list(span(table)) or ["Nothing was measured."]


def span(table: pd.DataFrame) -> Iterator[str]:
    """Yield the shortest and the longest median of each suite, in one sentence."""
    measured = table[table["status"] == "ok"]
    for suite, rows in whole_work(measured).groupby("suite"):
        name = Namer(rows)
        ordered = rows.sort_values("median_s")
        first, last = ordered.iloc[0], ordered.iloc[-1]
        if len(rows) == 1:
            yield f"{operation(first)}: {milliseconds(first['median_s'])} (median)."
        else:
            yield f"{suite}: medians from {time(first, name)} to {time(last, name)}."


def time(row: Any, name: Namer) -> str:
    """Format "1.2 ms (data_size=1 MiB)"."""
    return f"{milliseconds(row['median_s'])} ({settings(row, name.columns[row['suite']])})"


def tally_of(table: pd.DataFrame) -> str:
    """Count the cases: "14 of 17 cases measured, 2 failed, 1 not available"."""
    statuses = table["status"]
    measured = (statuses == "ok").sum()
    harmless = statuses.isin(HARMLESS).sum() - measured
    failed = len(table) - measured - harmless
    parts = [f"{measured} of {len(table)} cases measured"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{harmless} skipped or not available"] if harmless else []
    return ", ".join(parts)

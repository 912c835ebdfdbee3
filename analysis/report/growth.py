"""Sentences on how much longer the largest value of an axis takes than the smallest.

Ratios are formed within each run.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import figure, half_width, measured
from analysis.repetitions import over_runs
from analysis.report.naming import Namer, milliseconds
from analysis.table import identity_columns
from benchkit.statistics.intervals import median_interval
from benchkit.statistics.quantiles import median

ACROSS = "of different runs, whose spread is not known"
Row = dict[str, Any]
"""Of the combined table, by column."""


def growth(measured: pd.DataFrame, axis: str, describe: Callable[[float], str]) -> Iterator[str]:
    """Yield how the time grows from the least to the most of one axis, with everything else equal.

    A ratio is formed within each run. For several runs with the same least and most, the sentence
    has the median of their ratios, with its 95 % interval between runs or, where the runs are too
    few for one, with its range. Only where no run has two values, medians over runs are compared.

    Args:
        measured: rows of the combined table.
        axis: a column of numbers.
        describe: formats a value of the axis.
    """
    if axis not in measured:
        return
    name = Namer(over_runs(measured, *identity_columns(measured)), axis)
    rest = [column for column in identity_columns(measured) if column != axis]
    positive = measured[pd.to_numeric(measured[axis], errors="coerce") > 0]
    per_run = over_runs(positive, *rest, axis, "run")
    for rows in groups_of(per_run, rest, [*rest, axis, "title", "run", "median_s"]):
        if len({row[axis] for row in rows}) < 2:
            continue
        runs = [run for run in by_run(rows) if len({row[axis] for row in run}) > 1]
        spans = [ends_of(run, axis) for run in runs]
        basis = ""
        if not spans:
            basis = f"; {ACROSS}"
            spans = [ends_of(with_medians(rows, axis), axis)]
        for least, most in sorted({(first[axis], last[axis]) for first, last in spans}):
            alike = [span for span in spans if (span[0][axis], span[1][axis]) == (least, most)]
            times = most / least
            factor = f"{times:,.4g}" if times < 1e4 else f"{times:,.0f}"
            more = f"{describe(least)} to {describe(most)} ({factor} times)"
            yield f"{name(alike[0][0])}: {more} takes {how_long(alike)}{basis})."


def groups_of(rows: pd.DataFrame, columns: list[str], shown: list[str]) -> Iterator[list[Row]]:
    """Yield the rows of each group that is equal in some columns, in the order of `groupby`.

    Thousands of groups of a few rows each would take pandas a millisecond for every step.
    """
    if rows.empty:
        return
    found: dict[int, list[Row]] = {}
    numbers = rows.groupby(columns, dropna=False).ngroup()
    for number, row in zip(numbers, rows[shown].to_dict("records"), strict=True):
        found.setdefault(number, []).append(row)
    for number in sorted(found):
        yield found[number]


def by_run(rows: list[Row]) -> list[list[Row]]:
    """Group rows by their run, in the order of its name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["run"]), []).append(row)
    return [found[run] for run in sorted(found)]


def with_medians(rows: list[Row], axis: str) -> list[Row]:
    """Replace the time of each row by the median of all rows of its value of the axis."""
    times: dict[Any, list[float]] = {}
    for row in rows:
        times.setdefault(row[axis], []).append(row["median_s"])
    return [row | {"median_s": median(times[row[axis]])} for row in rows]


def ends_of(rows: list[Row], axis: str) -> tuple[Row, Row]:
    """Return the rows with the least and with the most of an axis."""
    ordered = sorted(rows, key=lambda row: row[axis])
    return ordered[0], ordered[-1]


def how_long(spans: list[tuple[Row, Row]]) -> str:
    """Format the ratio of the times, of several runs with its spread; the parenthesis stays open.

    For example "3.2 times as long (2 ms to 6.4 ms".

    Args:
        spans: per run, the rows with the least and with the most of an axis.
    """
    firsts_s = np.array([first["median_s"] for first, _ in spans])
    lasts_s = np.array([last["median_s"] for _, last in spans])
    ratios = lasts_s / firsts_s
    times = f"{milliseconds(median(firsts_s))} to {milliseconds(median(lasts_s))}"
    if len(spans) == 1:
        return f"{measured(median(ratios))} times as long ({times}"
    interval = median_interval(ratios)
    kind = "95 % interval between runs" if interval else "range"
    low, high = interval or (ratios.min(), ratios.max())
    ratio, *ends = (figure(each, half_width(low, high)) for each in (median(ratios), low, high))
    of = f"median of {len(spans)} runs, {kind} {' to '.join(ends)}"
    return f"{ratio} times as long ({of}; {times}"

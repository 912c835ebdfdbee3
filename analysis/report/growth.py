"""Sentences on how much longer the largest value of an axis takes than the smallest.

Ratios are formed within each run.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from analysis.repetitions import over_runs
from analysis.report.naming import Namer, milliseconds
from analysis.table import identity_columns
from benchkit.statistics.intervals import median_interval

ACROSS = "of different runs, whose spread is not known"


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
    for _, rows in per_run.groupby(rest, dropna=False):
        if rows[axis].nunique() < 2:
            continue
        runs = [run for _, run in rows.groupby("run", dropna=False)]
        spans = [ends_of(run, axis) for run in runs if run[axis].nunique() > 1]
        basis = ""
        if not spans:
            basis = f"; {ACROSS}"
            medians = rows.groupby(axis)["median_s"].transform("median")
            spans = [ends_of(rows.assign(median_s=medians), axis)]
        for least, most in sorted({(first[axis], last[axis]) for first, last in spans}):
            alike = [span for span in spans if (span[0][axis], span[1][axis]) == (least, most)]
            times = most / least
            factor = f"{times:,.4g}" if times < 1e4 else f"{times:,.0f}"
            more = f"{describe(least)} to {describe(most)} ({factor} times)"
            yield f"{name(alike[0][0])}: {more} takes {how_long(alike)}{basis})."


def ends_of(rows: pd.DataFrame, axis: str) -> tuple[Any, Any]:
    """Return the rows with the least and with the most of an axis."""
    ordered = rows.sort_values(axis)
    return ordered.iloc[0], ordered.iloc[-1]


def how_long(spans: list[tuple[Any, Any]]) -> str:
    """Format the ratio of the times, of several runs with its spread; the parenthesis stays open.

    For example "3.2 times as long (2 ms to 6.4 ms".

    Args:
        spans: per run, the rows with the least and with the most of an axis.
    """
    firsts_s = pd.Series([first["median_s"] for first, _ in spans])
    lasts_s = pd.Series([last["median_s"] for _, last in spans])
    ratios = lasts_s / firsts_s
    times = f"{milliseconds(firsts_s.median())} to {milliseconds(lasts_s.median())}"
    if len(spans) == 1:
        return f"{ratios.median():,.3g} times as long ({times}"
    interval = median_interval(ratios.to_numpy())
    kind = "95 % interval between runs" if interval else "range"
    low, high = interval or (ratios.min(), ratios.max())
    of = f"median of {len(spans)} runs, {kind} {low:,.3g} to {high:,.3g}"
    return f"{ratios.median():,.3g} times as long ({of}; {times}"

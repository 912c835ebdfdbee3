"""How much longer the most takes than the least, as each run tells by itself."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from analysis.repetitions import over_runs
from analysis.report.naming import Namer, milliseconds
from analysis.table import identity_columns
from benchkit.statistics.intervals import median_interval

ACROSS = "of different runs, whose spread is not known"


def growth(measured: pd.DataFrame, axis: str, told: Callable[[float], str]) -> Iterator[str]:
    """From the least to the most of one axis, everything else equal, how the time grows.

    A ratio is formed within each run; of several runs that reach as far their median is told, with its 95 % interval
    between runs or, where these are too few, its range. Only where no run has two values, medians over runs are
    compared.
    """
    if axis not in measured:
        return
    name = Namer(over_runs(measured, *identity_columns(measured)), axis)
    rest = [column for column in identity_columns(measured) if column != axis]
    per_run = over_runs(
        measured[pd.to_numeric(measured[axis], errors="coerce") > 0], *rest, axis, "run"
    )
    for _, rows in per_run.groupby(rest, dropna=False):
        if rows[axis].nunique() < 2:
            continue
        spans = [
            ends_of(run, axis)
            for _, run in rows.groupby("run", dropna=False)
            if run[axis].nunique() > 1
        ]
        basis = "" if spans else f"; {ACROSS}"
        if not spans:
            spans = [
                ends_of(
                    rows.assign(median_s=rows.groupby(axis)["median_s"].transform("median")), axis
                )
            ]
        for least, most in sorted({(first[axis], last[axis]) for first, last in spans}):
            alike = [span for span in spans if (span[0][axis], span[1][axis]) == (least, most)]
            more = f"{told(least)} to {told(most)} ({most / least:,.4g} times)"
            yield f"{name(alike[0][0])}: {more} takes {how_long(alike)}{basis})."


def ends_of(rows: pd.DataFrame, axis: str) -> tuple[Any, Any]:
    """The rows with the least and with the most of an axis."""
    ordered = rows.sort_values(axis)
    return ordered.iloc[0], ordered.iloc[-1]


def how_long(spans: list[tuple[Any, Any]]) -> str:
    """ "3.2 times as long (2 ms to 6.4 ms", with what the runs say where they are several; the parenthesis is open."""
    ratios = pd.Series([last["median_s"] / first["median_s"] for first, last in spans])
    first_s, last_s = (
        pd.Series([span[end]["median_s"] for span in spans]).median() for end in (0, 1)
    )
    times = f"{milliseconds(first_s)} to {milliseconds(last_s)}"
    if len(spans) == 1:
        return f"{ratios.median():,.3g} times as long ({times}"
    interval = median_interval(ratios.to_numpy())
    kind = "95 % interval between runs" if interval else "range"
    low, high = interval or (ratios.min(), ratios.max())
    of = f"median of {len(spans)} runs, {kind} {low:,.3g} to {high:,.3g}"
    return f"{ratios.median():,.3g} times as long ({of}; {times}"

"""What a figure shows, apart from how it is drawn: points in long form, and two axes.

A suite's module with `show(table, baseline) -> dict[name, Chart]` adds its figures to the report
(drawn by analysis.report.draw) and to the page (by analysis.page.figures). What is too much
to tell apart is merged here, thinned where it is drawn, and the small print says so. Tables and CSV
files have everything.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from analysis.shared.discover import Attempt, make_directly, modules_with, questions
from analysis.table.repetitions import add_group_to_title
from analysis.table.variants import Baseline
from benchkit.api.question import Question
from benchkit.record.naming import format_bytes

LINES, SCATTER, DOTS, BARS, STACKS, CELLS = "lines", "scatter", "dots", "bars", "stacks", "cells"
"""How points are drawn.

- LINES: over numbers or names, joined; SCATTER: over numbers, not joined.
- DOTS, BARS: beside names; STACKS: lengths on top of each other, beside names.
- CELLS: a map; the series is down, x across, the value is the shade.
"""
LINEAR, LOG, NAMES = "linear", "log", "names"
BYTES, SECONDS = "bytes", "seconds"
PAGE_ROW = "page_row"
"""Column with the id of a row of the page. `over_runs` keeps that of the latest row."""
POINT = ("panel", "series", "x", "value", "low", "high", PAGE_ROW)
"""The columns of a chart's points. `low` and `high` are NaN without an interval."""
TIMES = ("median_s", "ci_low_s", "ci_high_s")
PAIRED_SPEEDUPS = ("paired_speedup", "paired_speedup_low", "paired_speedup_high")
RATE = ("rate", "rate_low", "rate_high")
"""Columns of a value and of both ends of its interval."""


@dataclass(frozen=True)
class Axis:
    """An axis of a chart.

    Attributes:
        label: with the unit in brackets.
        scale: LINEAR, LOG, or NAMES, which are at equal distances.
        unit: BYTES or SECONDS for labels with a suitable unit, such as "64 KiB".
    """

    label: str
    scale: str = LINEAR
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure.

    Attributes:
        mark: how points are drawn, see LINES.
        title: says what is measured.
        note: how to read it.
        x: the axis of the settings.
        y: the axis of the values.
        points: one row per point with the columns POINT; x is text if its axis has names. Also,
            where there are any: `text`, the words in a cell; `total`, of all that is stacked;
            `band_low` and `band_high`, ends of a shaded band around a line.
        series: all series in their order; those of the points by default.
        reference: a value to compare with, such as 1 for speedups.
        is_shared: whether all panels have the same axis of values.
        curves: dashed lines, such as a fit: panel, series, x, value; `low` and `high` shade a band
            around it, `part` tells several curves of one series apart.
        style_numbers: the number of the colour and the marker of each series, see `numbered`.
    """

    mark: str
    title: str
    note: str
    x: Axis
    y: Axis
    points: pd.DataFrame
    series: tuple[str, ...] = ()
    reference: float | None = None
    is_shared: bool = True
    curves: pd.DataFrame | None = None
    style_numbers: Mapping[str, int] = field(default_factory=dict)

    @property
    def panels(self) -> list[str]:
        return list(dict.fromkeys(self.points["panel"]))

    @property
    def names(self) -> list[str]:
        """The settings of an axis of names, in an order that holds in every panel, if there is one.

        A panel of an interrupted or ragged sweep lacks some. Rows of a map lack cells likewise.
        """
        part = "series" if self.mark == CELLS else "panel"
        parts = [names.unique() for _, names in self.points.groupby(part, sort=False)["x"]]
        return in_common_order(parts)

    @property
    def all_series(self) -> list[str]:
        return list(dict.fromkeys((*self.series, *self.points["series"])))

    def look(self, name: str) -> int:
        """Return the number of the colour and the marker of a series."""
        return (
            self.style_numbers[name] if name in self.style_numbers else self.all_series.index(name)
        )

    @property
    def has_legend(self) -> bool:
        """Return whether series have names, and these stand nowhere else."""
        stand_beside = self.points["series"].eq(self.points["x"]).all()
        return self.mark != CELLS and any(self.all_series) and not stand_beside

    @property
    def suite(self) -> str:
        """Return the suite of the first point, "" where it is not known."""
        suites = self.points["suite"].dropna() if "suite" in self.points else ()
        return str(next(iter(suites), ""))

    @property
    def small_print(self) -> str:
        """How to read the figure, and the processors or GPUs of its points."""
        where = hardware(self.points)
        known = not where or where.removeprefix("on ") in self.note
        return self.note if known else "; ".join(filter(None, (self.note, where)))

    def of_group(self, suffix: str) -> "Chart":
        """Return the chart with a title that says what sets its rows apart."""
        return replace(self, title=add_group_to_title(self.title, suffix))


def in_common_order(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of all parts, each after those before it in any part.

    Where parts contradict each other, the names that appear first come first.
    """
    before: dict[str, set[str]] = {name: set() for name in chain.from_iterable(parts)}
    for one, other in chain.from_iterable(map(pairwise, parts)):
        before[other].add(one)
    found: dict[str, None] = {}
    while before:
        first = (name for name, others in before.items() if others <= found.keys())
        name = next(first, next(iter(before)))
        found[name] = None
        del before[name]
    return list(found)


Charts = dict[str, Chart]
"""By name, which is that of the plot's file without its ending."""
Rows = TypeVar("Rows")


def group_charts(
    stem: str, groups: Iterable[tuple[str, Rows]], charts_of: Callable[[Rows], Charts]
) -> Charts:
    """Make the charts of each group, given with its suffix, with names that begin with `stem`."""
    return {
        f"{stem}_{name}{suffix}": chart.of_group(suffix)
        for suffix, rows in groups
        for name, chart in charts_of(rows).items()
    }


def hardware(rows: pd.DataFrame) -> str:
    """Name the processors or GPUs of the rows: "on AMD EPYC 7B13"; "" where none is known."""
    names = ", ".join(rows["device_name"].dropna().unique()) if "device_name" in rows else ""
    return f"on {names}" if names else ""


def chart_points(
    rows: pd.DataFrame,
    x: Any,
    values: tuple[str, ...],
    series: Any = "",
    panel: Any = "",
    scale: float = 1.0,
    **more: Any,
) -> pd.DataFrame:
    """Bring rows into the long form of a chart.

    Args:
        rows: one per point.
        x: the settings, one per row.
        values: the column of the value, and of both ends of its interval where it has one.
        series, panel: of each row, or of all.
        scale: what the values and their limits are multiplied by.
        **more: further columns, see `Chart.points`.
    """
    ends = dict(zip(("value", "low", "high"), values, strict=False))
    numbers = {
        end: pd.to_numeric(rows[ends[end]], errors="coerce") * scale
        if end in ends
        else float("nan")
        for end in ("value", "low", "high")
    }
    cells = {
        "panel": panel,
        "series": series,
        "x": x,
        **numbers,
        PAGE_ROW: rows.get(PAGE_ROW),
        "device_name": rows.get("device_name"),
        "suite": rows.get("suite"),
        **more,
    }
    points = pd.DataFrame(cells, index=rows.index)
    return points[points["value"].notna()]


def setting_name(suite: str, column: str, value: object) -> str:
    """Call a setting what the suite's question calls it: "float32", "2 ranks", "back to back".

    What the question does not call anything, such as the default backend, keeps its value.
    """
    return questions().get(suite, Question()).format_value(column, value) or str(value)


def map_unique(values: pd.Series, word: Callable[[Any], str]) -> pd.Series:
    """Call each different value of a column by its word: there are far fewer than rows."""
    numbers, different = pd.factorize(values, use_na_sentinel=False)
    words = np.array([word(value) for value in different], dtype=object)
    return pd.Series(words[numbers], values.index)


def rates_of(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns RATE from a rate at the median time and the interval of that time."""
    amount = rows[name] * rows["median_s"]
    ends = (rows[name], amount / rows["ci_high_s"], amount / rows["ci_low_s"])
    return pd.DataFrame(dict(zip(RATE, ends, strict=True)))


def phases_of_step(
    rows: pd.DataFrame,
    bars: Any,
    panel: pd.Series,
    phases: Sequence[str],
    *,
    title: str,
    note: str,
    x: str,
) -> Chart:
    """Stack the phases of a step, whose seconds are in columns such as `forward_s`.

    Args:
        bars: the name of each row's bar.
        panel: of each row.
        note: follows how to read the lengths.
        x: label of the axis of bars.
    """
    total = rows["median_s"] * 1e3
    parts = [
        chart_points(rows, bars, (f"{phase}_s",), str(phase), panel, 1e3, total=total)
        for phase in phases
    ]
    return Chart(
        mark=STACKS,
        title=title,
        note=f"medians of the rank that was longest in each; mark: whole step{note}",
        x=Axis(x, NAMES),
        y=Axis("time [ms]"),
        points=pd.concat(parts),
        is_shared=False,
        series=tuple(map(str, phases)),
    )


MOST_SERIES = 16
"""As many as a legend beside a panel holds."""
MOST_POINTS = 40
"""Names beside an axis."""
Step = TypeVar("Step")


def sample_evenly(steps: Sequence[Step]) -> list[Step]:
    """Return at most MOST_SERIES of some steps, evenly apart, with the first and the last."""
    count = min(len(steps), MOST_SERIES)
    return [steps[round(place)] for place in np.linspace(0, len(steps) - 1, count)]


def choose_series_settings(rows: pd.DataFrame, always: list[str], settings: list[str]) -> list[str]:
    """Select the settings that tell series apart without making more than MOST_SERIES of them.

    Settings with few values come first, because a reader compares these; `always` are kept.
    """
    kept: list[str] = []
    for name in sorted(settings, key=lambda name: rows[name].nunique(dropna=False)):
        columns = [*always, *kept, name]
        if rows.groupby(columns, dropna=False).ngroups > MOST_SERIES:
            break
        kept.append(name)
    return kept


def merge_series(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Merge the rows that are equal in some columns: their median, their lowest and their highest.

    The lowest and the highest become the ends of an interval; the bandwidth is that of the median.
    """
    groups = rows.groupby(columns, dropna=False, sort=False)
    times = groups["median_s"].agg(["median", "min", "max"])
    moved = rows.assign(moved=rows["busbw_gb_per_s"] * rows["median_s"])
    devices = groups["device_name"].agg(lambda names: ", ".join(names.dropna().unique()) or None)
    found = {
        "median_s": times["median"],
        "ci_low_s": times["min"],
        "ci_high_s": times["max"],
        "busbw_gb_per_s": moved.groupby(columns, dropna=False, sort=False)["moved"].median()
        / times["median"],
        "device_name": devices,
        "suite": groups["suite"].first(),
    }
    made = {name: values for name, values in found.items() if name not in columns}
    return pd.DataFrame(made).reset_index()


FAR = 5.0
"""Panels whose highest values differ by a larger factor have linear axes of their own."""
MOST_BARS_RANGE = 20.0
"""Bars begin at 0, where values that differ by a larger factor cannot be compared."""


def charts_of(
    table: pd.DataFrame,
    baseline: Baseline | None,
    attempt: Attempt = make_directly,
    more: Mapping[str, Chart] | None = None,
) -> dict[str, Charts]:
    """Return the charts of a report by the modules that show them; files and page draw the same.

    A chart of a single point asks no question, and is left out.
    """
    if not (table["status"] == "ok").any():
        return {}

    def asking(show: Callable[..., Charts]) -> Charts:
        shown = show(table, baseline)
        return {key: simplified(each) for key, each in shown.items() if len(each.points) > 1}

    found = {
        name: attempt(f"figures of {name}", partial(asking, module.show)) or {}
        for name, module in modules_with("show")
    }
    if more:
        found["further charts"] = asking(lambda *_: dict(more))
    looks = number_series(list(chain.from_iterable(charts.values() for charts in found.values())))
    return {
        name: {key: replace(chart, style_numbers=looks) for key, chart in charts.items()}
        for name, charts in found.items()
    }


def number_series(charts: Sequence[Chart]) -> dict[str, int]:
    """Number the series of all charts of a report, so that each has one colour in all of them.

    The series of one chart are numbered together in their natural order, and so are those of
    charts that have a series in common.
    """
    families: list[set[str]] = []
    for chart in charts:
        if chart.mark == CELLS:
            continue
        names = set(chart.all_series)
        for known in [each for each in families if each & names]:
            families.remove(known)
            names |= known
        families.append(names)
    return {
        name: number
        for names in families
        for number, name in enumerate(sorted(names, key=natural_order))
    }


def natural_order(name: str) -> list[tuple[float, str]]:
    """Return what sorts "2 ranks" before "10 ranks"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if place % 2 else (0.0, part) for place, part in enumerate(parts)]


def simplified(chart: Chart) -> Chart:
    """Return the chart as it is best read, in files and on the page.

    Points over a single setting become bars beside the names of their series, in order of value.
    Panels whose values are far apart have axes of their own.
    """
    if chart.mark in (LINES, SCATTER) and chart.points["x"].nunique() == 1:
        chart = sorted_bars(chart)
    highest = chart.points.groupby("panel")["value"].max()
    if chart.y.scale == LINEAR and not highest.max() <= FAR * highest.min():
        chart = replace(chart, is_shared=False)
    return chart


def sorted_bars(chart: Chart) -> Chart:
    points, setting = chart.points, chart.points["x"].iloc[0]
    words = format_bytes(setting) if chart.x.unit == BYTES else setting
    value = words if isinstance(words, str) else f"{words:g}"
    if len(chart.all_series) == 1:  # The panels are what differs.
        points = points.assign(series=points["panel"], panel="")
    points = points.assign(x=points["series"]).drop(
        columns=["band_low", "band_high"], errors="ignore"
    )
    typical = points.groupby("x")["value"].median()
    is_time = chart.y.unit == SECONDS or chart.y.label.endswith("[ms]")
    order = typical.sort_values(ascending=is_time).index
    points = points.sort_values("x", key=lambda names: names.map(order.get_loc), kind="stable")
    is_near = points["value"].max() <= MOST_BARS_RANGE * points["value"].min()
    return replace(
        chart,
        mark=BARS if is_near else DOTS,
        note=f"{chart.x.label}: {value}; {chart.note}",
        x=Axis("", NAMES),
        y=replace(chart.y, scale=LINEAR) if is_near else chart.y,
        points=points,
        series=tuple(order),
        curves=None,
    )

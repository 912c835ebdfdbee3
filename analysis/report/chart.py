"""Charts: the content of a figure, independent of drawing. Points in long form, and two axes.

A suite's module with `show(table, baseline) -> dict[name, Chart]` adds its figures to the report
(drawn by analysis.report.draw) and to the page (by analysis.page.figures). Merge series that are
too many to distinguish. The drawing code samples the rest, and the caption says so. Tables and CSV
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
"""Marks: how points are drawn.

- LINES: over numbers or names, joined; SCATTER: over numbers, not joined.
- DOTS, BARS: beside names; STACKS: lengths on top of each other, beside names.
- CELLS: a heat map; series down, x across, the value as shade.
"""
LINEAR, LOG, NAMES = "linear", "log", "names"
BYTES, SECONDS = "bytes", "seconds"
PAGE_ROW = "page_row"
"""Column with the id of a row of the page. `aggregate_runs` keeps that of the latest row."""
POINT = ("panel", "series", "x", "value", "low", "high", PAGE_ROW)
"""Columns of a chart's points. `low` and `high` are NaN without an interval."""
TIMES = ("median_s", "ci_low_s", "ci_high_s")
PAIRED_SPEEDUPS = ("paired_speedup", "paired_speedup_low", "paired_speedup_high")
RATE = ("rate", "rate_low", "rate_high")
"""Columns of a value and of both bounds of its interval."""


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
        title: what is measured.
        note: how to read it.
        x: axis of the settings.
        y: axis of the values.
        points: one row per point with the columns POINT; x is text if its axis has names. Optional
            columns: `text`, the text of a cell; `total`, the length of a whole stack; `band_low`
            and `band_high`, bounds of a shaded band around a line.
        series: all series in order; by default those of the points.
        reference: value to compare with, such as 1 for speedups.
        is_shared: whether all panels share the axis of values.
        curves: dashed lines, such as a fit: panel, series, x, value; `low` and `high` bound a
            shaded band, `part` distinguishes several curves of one series.
        style_numbers: number of the colour and the marker of each series, see `number_series`.
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
        """Names on an axis, in an order consistent with every panel, if there is one.

        Panels of an interrupted or ragged sweep may lack names, and rows of a map may lack cells.
        """
        part = "series" if self.mark == CELLS else "panel"
        parts = [names.unique() for _, names in self.points.groupby(part, sort=False)["x"]]
        return merge_orders(parts)

    @property
    def all_series(self) -> list[str]:
        return list(dict.fromkeys((*self.series, *self.points["series"])))

    def style_number(self, name: str) -> int:
        """Return the number of the colour and the marker of a series."""
        return (
            self.style_numbers[name] if name in self.style_numbers else self.all_series.index(name)
        )

    @property
    def has_legend(self) -> bool:
        """Return whether series have names that no axis shows."""
        stand_beside = self.points["series"].eq(self.points["x"]).all()
        return self.mark != CELLS and any(self.all_series) and not stand_beside

    @property
    def suite(self) -> str:
        """Return the suite of the first point; "" if unknown."""
        suites = self.points["suite"].dropna() if "suite" in self.points else ()
        return str(next(iter(suites), ""))

    @property
    def small_print(self) -> str:
        """Caption: the note, and the processors or GPUs of the points."""
        hardware_text = hardware(self.points)
        is_stated = not hardware_text or hardware_text.removeprefix("on ") in self.note
        return self.note if is_stated else "; ".join(filter(None, (self.note, hardware_text)))

    def of_group(self, suffix: str) -> "Chart":
        """Return the chart with the group of its rows in the title."""
        return replace(self, title=add_group_to_title(self.title, suffix))


def merge_orders(parts: Sequence[Sequence[str]]) -> list[str]:
    """Merge ordered lists of names: each name follows those that precede it in any list.

    Where lists contradict each other, order by first appearance.
    """
    predecessors_of: dict[str, set[str]] = {name: set() for name in chain.from_iterable(parts)}
    for earlier, later in chain.from_iterable(map(pairwise, parts)):
        predecessors_of[later].add(earlier)
    ordered: dict[str, None] = {}
    while predecessors_of:
        first = (
            name for name, predecessors in predecessors_of.items() if predecessors <= ordered.keys()
        )
        name = next(first, next(iter(predecessors_of)))
        ordered[name] = None
        del predecessors_of[name]
    return list(ordered)


Charts = dict[str, Chart]
"""By name: the file name of the plot without suffix."""
Rows = TypeVar("Rows")


def group_charts(
    stem: str, groups: Iterable[tuple[str, Rows]], charts_of: Callable[[Rows], Charts]
) -> Charts:
    """Make the charts of each group of rows; names have the stem, and the suffix of the group."""
    return {
        f"{stem}_{name}{suffix}": chart.of_group(suffix)
        for suffix, rows in groups
        for name, chart in charts_of(rows).items()
    }


def hardware(rows: pd.DataFrame) -> str:
    """Name the processors or GPUs of the rows: "on AMD EPYC 7B13"; "" if unknown."""
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
        x: settings, one per row.
        values: column of the value, and optionally of both bounds of its interval.
        series, panel: one per row, or one for all.
        scale: factor of the values and their bounds.
        **more: further columns, see `Chart.points`.
    """
    columns = dict(zip(("value", "low", "high"), values, strict=False))
    numbers = {
        bound: pd.to_numeric(rows[columns[bound]], errors="coerce") * scale
        if bound in columns
        else float("nan")
        for bound in ("value", "low", "high")
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
    """Format a setting as the suite's question does: "float32", "2 ranks", "back to back".

    A value that the question does not format, such as the default backend, is returned as text.
    """
    return questions().get(suite, Question()).format_value(column, value) or str(value)


def map_unique(values: pd.Series, word: Callable[[Any], str]) -> pd.Series:
    """Map a column by calling `word` once per unique value: there are far fewer than rows."""
    numbers, different = pd.factorize(values, use_na_sentinel=False)
    words = np.array([word(value) for value in different], dtype=object)
    return pd.Series(words[numbers], values.index)


def rates_of(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns RATE: a rate at the median time, and at the bounds of its interval."""
    amount = rows[name] * rows["median_s"]
    values = (rows[name], amount / rows["ci_high_s"], amount / rows["ci_low_s"])
    return pd.DataFrame(dict(zip(RATE, values, strict=True)))


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
    """Stack the phases of a step; their seconds are in columns such as `forward_s`.

    Args:
        bars: name of the bar of each row.
        panel: panel of each row.
        note: appended to the caption.
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
"""Series that fit into the legend beside a panel."""
MOST_POINTS = 40
"""Names that fit beside an axis."""
Step = TypeVar("Step")


def sample_evenly(steps: Sequence[Step]) -> list[Step]:
    """Return at most MOST_SERIES evenly spaced items, with the first and the last."""
    count = min(len(steps), MOST_SERIES)
    return [steps[round(place)] for place in np.linspace(0, len(steps) - 1, count)]


def choose_series_settings(rows: pd.DataFrame, always: list[str], settings: list[str]) -> list[str]:
    """Select the settings that distinguish series, without exceeding MOST_SERIES series.

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
    """Aggregate the rows that are equal in some columns: median, minimum and maximum.

    Minimum and maximum become the bounds of the interval; the bandwidth is that of the median.
    """
    groups = rows.groupby(columns, dropna=False, sort=False)
    times = groups["median_s"].agg(["median", "min", "max"])
    with_bytes = rows.assign(moved=rows["busbw_gb_per_s"] * rows["median_s"])
    devices = groups["device_name"].agg(lambda names: ", ".join(names.dropna().unique()) or None)
    columns_of_groups = {
        "median_s": times["median"],
        "ci_low_s": times["min"],
        "ci_high_s": times["max"],
        "busbw_gb_per_s": with_bytes.groupby(columns, dropna=False, sort=False)["moved"].median()
        / times["median"],
        "device_name": devices,
        "suite": groups["suite"].first(),
    }
    new_columns = {
        name: values for name, values in columns_of_groups.items() if name not in columns
    }
    return pd.DataFrame(new_columns).reset_index()


FAR = 5.0
"""Panels whose highest values differ by a larger factor have separate linear axes."""
MOST_BARS_RANGE = 20.0
"""Bars start at 0; values that differ by a larger factor are drawn as dots."""


def charts_of(
    table: pd.DataFrame,
    baseline: Baseline | None,
    attempt: Attempt = make_directly,
    more: Mapping[str, Chart] | None = None,
) -> dict[str, Charts]:
    """Return the charts of a report by module; the files and the page draw the same ones.

    Charts of a single point are left out.
    """
    if not (table["status"] == "ok").any():
        return {}

    def charts_with_data(show: Callable[..., Charts]) -> Charts:
        charts = show(table, baseline)
        return {key: simplify(chart) for key, chart in charts.items() if len(chart.points) > 1}

    charts_by_module = {
        name: attempt(f"figures of {name}", partial(charts_with_data, module.show)) or {}
        for name, module in modules_with("show")
    }
    if more:
        charts_by_module["further charts"] = charts_with_data(lambda *_: dict(more))
    style_numbers = number_series(
        list(chain.from_iterable(charts.values() for charts in charts_by_module.values()))
    )
    return {
        name: {key: replace(chart, style_numbers=style_numbers) for key, chart in charts.items()}
        for name, charts in charts_by_module.items()
    }


def number_series(charts: Sequence[Chart]) -> dict[str, int]:
    """Number the series of all charts of a report, so that each has one colour in all charts.

    Series of one chart, and of charts that share a series, are numbered in natural order.
    """
    families: list[set[str]] = []
    for chart in charts:
        if chart.mark == CELLS:
            continue
        names = set(chart.all_series)
        for family in [other for other in families if other & names]:
            families.remove(family)
            names |= family
        families.append(names)
    return {
        name: number
        for names in families
        for number, name in enumerate(sorted(names, key=natural_order))
    }


def natural_order(name: str) -> list[tuple[float, str]]:
    """Return a sort key that puts "2 ranks" before "10 ranks"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if place % 2 else (0.0, part) for place, part in enumerate(parts)]


def simplify(chart: Chart) -> Chart:
    """Simplify a chart for the files and the page.

    Points over a single setting become bars beside the names of their series, sorted by value.
    Panels of very different values have separate axes.
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
    if len(chart.all_series) == 1:  # Only the panels differ.
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

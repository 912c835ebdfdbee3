"""Turns charts into what the page needs to draw them and to describe them in words."""

from typing import Any

import pandas as pd

from analysis.page import specs
from analysis.report.chart import CELLS, LINES, LOG, NAMES, PAGE_ROW, SCATTER, Axis, Chart

MOST_SERIES = 100
"""A legend of more cannot be read; the table says the same."""
MOST_NAMES = 60
"""A figure with more names on its axis is higher than a screen; the table says the same."""


def figure_of(chart: Chart) -> dict[str, Any]:
    """Return all that the page needs to draw a chart, as JSON."""
    return {
        "title": chart.title,
        "spec": specs.spec_of(chart),
        "layout": "map" if chart.mark == CELLS else "over" if is_over_x(chart) else "beside",
        "rows": columns_of(chart),
        "series": legend_of(chart),
        "reference": chart.reference,
        "x": axis_of(chart.x),
        "y": axis_of(chart.y),
    }


def is_over_x(chart: Chart) -> bool:
    """Return whether values are drawn over the settings, not beside their names."""
    return chart.mark in (LINES, SCATTER)


def too_large(chart: Chart) -> str:
    """Return why a figure cannot show a chart, "" where it can."""
    if len(chart.all_series) > MOST_SERIES:
        return f"{len(chart.all_series)} series; at most {MOST_SERIES} are drawn"
    count = chart.points["x"].nunique()
    if chart.x.scale == NAMES and count > MOST_NAMES:
        return f"{count} names; at most {MOST_NAMES} are drawn"
    return ""


def axis_of(axis: Axis) -> dict[str, Any]:
    names, log = axis.scale == NAMES, axis.scale == LOG
    return {"label": axis.label, "names": names, "log": log, "unit": axis.unit}


def columns_of(chart: Chart) -> dict[str, list[Any]]:
    """Return the points, then the curves, as columns; None where a row lacks a value."""
    parts = [chart.points.assign(kind=specs.POINT)]
    if chart.curves is not None:
        parts.append(chart.curves.assign(kind=specs.CURVE))
    rows = pd.concat([part.dropna(axis="columns", how="all") for part in parts], ignore_index=True)
    rows = rows.rename(columns={PAGE_ROW: "row"}).astype(object)
    return {str(name): rows[name].where(rows[name].notna(), None).tolist() for name in rows}


def legend_of(chart: Chart) -> list[dict[str, str]]:
    """Return name, colour and marker of each series; none where one series needs no legend."""
    shown = set(chart.points["series"])
    if chart.mark == CELLS or len(shown) < 2:
        return []
    return [
        {"name": name, "colour": specs.colour(index), "shape": specs.shape(index, chart.mark)}
        for index, name in enumerate(chart.all_series)
        if name in shown
    ]


def describe(chart: Chart) -> str:
    """Say in words what a figure shows, for readers who do not see it."""
    points = chart.points
    low, high = (f"{value:.4g}" for value in (points["value"].min(), points["value"].max()))
    parts = [f"{chart.title}. {len(points)} points; {chart.y.label} from {low} to {high}"]
    if chart.mark != CELLS:
        parts[0] += f", over {chart.x.label}"
        if len(chart.all_series) > 1:
            parts.append(f"{len(chart.all_series)} series: {', '.join(chart.all_series)}")
    if len(chart.panels) > 1:
        parts.append(f"{len(chart.panels)} panels: {', '.join(chart.panels)}")
    return "; ".join(parts) + "."

"""Draws charts (analysis.report.chart) with matplotlib, for the files of a report.

What is too much to read is thinned, and the small print says so: series beyond MOST_SERIES, panels
beyond MOST_PANELS. More than MOST_POINTS points beside names are drawn in order of value, without
names.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.discover import Attempt, Drawings, directly, modules_with
from analysis.report import style
from analysis.report.chart import (
    BARS,
    BYTES,
    CELLS,
    DOTS,
    LINEAR,
    LINES,
    LOG,
    MOST_PLOTS,
    MOST_POINTS,
    MOST_SERIES,
    NAMES,
    SCATTER,
    SECONDS,
    STACKS,
    Axis,
    Chart,
    Charts,
    thinned,
)
from analysis.sides import Baseline
from analysis.text import complain
from benchkit.record.naming import readable_time

ENDS = ("value", "low", "high")
BESIDE = (BARS, DOTS, STACKS)
"""Marks that lie beside names, which stand on the vertical axis."""
MOST_PANELS = 12
INCHES_OF_NAME, INCHES_OF_MARK = 0.27, 0.12
"""Height of a name, and of each of several marks beside it."""
FEW_PLACES = 8
APART = 1.05
"""Least factor between two sizes whose labels do not cover each other."""
LEAST_RANGE = 2.0
"""Least factor between the ends of a logarithmic axis: small differences must look small."""
BEYOND = 2.0
"""On a logarithmic axis, intervals may leave the range of the values by up to this factor."""
MARGIN = 0.06
"""Share of a logarithmic axis beyond what is outermost, at each end."""


def figure_of(chart: Chart) -> Figure:
    """Draw a chart: a panel each, one legend, the title above and the small print below."""
    chart, left_out = readable(chart)
    points, looks = chart.points, {name: index for index, name in enumerate(chart.all_series)}
    beside = chart.mark in BESIDE and not is_crowd(chart)
    figure, axes = panels_of(chart)
    for panel, axis in zip(chart.panels, axes, strict=True):
        own = points[points["panel"] == panel]
        MARKS[chart.mark](axis, own, chart, looks)
        if chart.curves is not None:
            draw_curves(axis, chart.curves[chart.curves["panel"] == panel], looks)
        if chart.reference is not None:
            (axis.axvline if beside else axis.axhline)(chart.reference, color="black", linewidth=1)
        axis.set_title(str(panel))
    # Scales come last, because a logarithmic axis that others share collapses around one value.
    for panel, axis in zip(chart.panels, axes, strict=True):
        if chart.mark != CELLS:
            scale(
                axis, chart, points if chart.is_shared else points[points["panel"] == panel], beside
            )
    if chart.mark != CELLS and any(looks):
        style.shared_legend(figure, axes)
    note = "; ".join((chart.small_print, *left_out))
    style.caption(figure, chart.title, note)
    return figure


def readable(chart: Chart) -> tuple[Chart, list[str]]:
    """Select what a reader can tell apart; return it, and in words what is left out."""
    points, left_out = chart.points, []
    series, panels = chart.all_series, chart.panels
    if chart.mark not in (CELLS, STACKS) and len(series) > MOST_SERIES:
        left_out.append(f"{MOST_SERIES} of {len(series)} series")
        points = points[points["series"].isin(thinned(series))]
    if len(panels) > MOST_PANELS:
        left_out.append(f"{MOST_PANELS} of {len(panels)} panels")
        points = points[points["panel"].isin(panels[:MOST_PANELS])]
    names = list(dict.fromkeys(points["x"]))
    if chart.mark == STACKS and len(names) > MOST_POINTS:
        left_out.append(f"{MOST_POINTS} of {len(names)} names")
        points = points[points["x"].isin(names[:MOST_POINTS])]
    shown = set(points["series"])
    curves = chart.curves
    if curves is not None:
        gone = set(series) - shown
        curves = curves[~curves["series"].isin(gone) & curves["panel"].isin(set(points["panel"]))]
    kept = tuple(name for name in series if name in shown) if left_out else chart.series
    return replace(chart, points=points, series=kept, curves=curves), left_out


def panels_of(chart: Chart) -> tuple[Figure, list[Axes]]:
    names, series = chart.points["x"].nunique(), len(chart.all_series)
    if chart.mark == CELLS:
        rows = chart.points["series"].nunique()
        return style.panels(len(chart.panels), 2.6 + 1.7 * names, 1.9 + rows, share=False)
    if chart.mark in BESIDE and not is_crowd(chart):
        several = chart.mark != STACKS and chart.points.duplicated(["panel", "x"]).any()
        room = max(INCHES_OF_NAME, INCHES_OF_MARK * series if several else 0)
        alike = chart.points.groupby("panel")["x"].nunique().eq(names).all()
        width = 4.2 if alike and len(chart.panels) > 1 else 5.2
        return style.panels(len(chart.panels), width, 1.6 + room * names, share=bool(alike))
    return style.panels(len(chart.panels), share=chart.is_shared)


def is_crowd(chart: Chart) -> bool:
    return chart.mark in (BARS, DOTS) and chart.points["x"].nunique() > MOST_POINTS


def scale(axis: Axes, chart: Chart, points: pd.DataFrame, beside: bool) -> None:
    """Label and scale both axes for the points of the panels that share them."""
    if beside:
        axis.set_xlabel(chart.y.label)
        scale_values(axis, chart, points, "x")
        return
    place = axis.get_subplotspec()
    if not chart.is_shared or place is None or place.is_first_col():
        axis.set_ylabel(chart.y.label)
    scale_values(axis, chart, points, "y")
    if is_crowd(chart):
        axis.set_xlabel(f"{chart.x.label}, from the lowest value to the highest [%]")
    else:
        axis.set_xlabel(chart.x.label)
        scale_settings(axis, chart.x, sorted(set(chart.points["x"])))


def scale_settings(axis: Axes, of: Axis, settings: Sequence[Any]) -> None:
    if of.scale == NAMES:
        return
    places = [
        size
        for index, size in enumerate(settings)
        if not index or size > APART * settings[index - 1]
    ]
    if of.scale == LOG and of.unit == BYTES:
        style.log_bytes(axis, 1)
        if len(places) <= FEW_PLACES:
            axis.set_xticks(places)
    elif of.scale == LOG:
        style.log_sizes(axis, places)
    elif of.scale == LINEAR and len(places) <= FEW_PLACES:
        axis.set_xticks(places)


def scale_values(axis: Axes, chart: Chart, points: pd.DataFrame, along: str) -> None:
    """Scale the axis of values; a linear one begins at 0 unless a value lies below."""
    limit = axis.set_xlim if along == "x" else axis.set_ylim
    if chart.y.scale != LOG:
        if (points["value"] >= 0).all():
            limit(0)
        return
    values = points["value"][points["value"] > 0]
    if values.empty:
        return
    known = values if chart.reference is None else [*values, chart.reference]
    low, high = min(known), max(known)
    lows, highs = (points.filter([end, f"band_{end}"]).to_numpy() for end in ("low", "high"))
    low = max(low / BEYOND, np.nanmin([low, *lows.flat]))
    high = min(high * BEYOND, np.nanmax([high, *highs.flat]))
    rest = max(1.05, (high / low) ** MARGIN)
    if chart.reference is None:
        rest = max(rest, (LEAST_RANGE * low / high) ** 0.5)
    limit(low / rest, high * rest)
    style.log_values(axis, readable_time if chart.y.unit == SECONDS else "{:g}".format, along)
    limit(low / rest, high * rest)


def draw_over(axis: Axes, points: pd.DataFrame, chart: Chart, looks: dict[str, int]) -> None:
    """Draw series over numbers or names, joined for LINES, with intervals and bands."""
    names = list(dict.fromkeys(chart.points["x"])) if chart.x.scale == NAMES else []
    # Marks at a single name would cover each other.
    spread = 0.8 / len(looks) if len(names) == 1 else 0.0
    for name, index in looks.items():
        own = points[points["series"] == name]
        if own.empty:
            continue
        at = own["x"]
        if names:
            at = own["x"].map(names.index) + spread * (index - (len(looks) - 1) / 2)
        own = own.assign(at=at.astype(float)).sort_values("at")
        look = style.look(index) | ({} if chart.mark == LINES else {"linestyle": "none"})
        bars = style.interval_bars(own, *ENDS)
        axis.errorbar(own["at"], own["value"], bars, label=name, **look)
        if "band_low" in own:
            axis.fill_between(
                own["at"], own["band_low"], own["band_high"], alpha=0.15, color=look["color"]
            )
    if names:
        axis.set_xticks(range(len(names)), names)
        axis.grid(axis="x", visible=False)


def draw_beside(axis: Axes, points: pd.DataFrame, chart: Chart, looks: dict[str, int]) -> None:
    """Draw bars or dots beside names; several series of a name share its place."""
    if is_crowd(chart):
        draw_crowd(axis, points, chart, looks)
        return
    places = place_names(axis, points, chart)
    shared = points.duplicated(["x"]).any()
    step = 0.8 / len(looks) if shared else 0.0
    for name, index in looks.items():
        own = points[points["series"] == name]
        if own.empty:
            continue
        at = own["x"].map(places) + step * (index - (len(looks) - 1) / 2)
        bars = style.interval_bars(own, *ENDS)
        look = style.look(index)
        if chart.mark == BARS:
            thick = step or 0.8
            colour = look["color"]
            axis.barh(at, own["value"], thick, xerr=bars, color=colour, capsize=3, label=name)
        else:
            axis.errorbar(own["value"], at, xerr=bars, label=name, **look | {"linestyle": "none"})


def draw_crowd(axis: Axes, points: pd.DataFrame, chart: Chart, looks: dict[str, int]) -> None:
    for name, index in looks.items():
        values = points.loc[points["series"] == name, "value"].sort_values()
        at = np.linspace(0, 100, len(values)) if len(values) > 1 else [50]
        label = f"{name}: {len(values)} points"
        axis.plot(at, values, label=label, markevery=0.1, **style.line_look(index))


def draw_stacks(axis: Axes, points: pd.DataFrame, chart: Chart, looks: dict[str, int]) -> None:
    """Draw lengths on top of each other, and a mark at the total where it is known."""
    places = place_names(axis, points, chart)
    left = pd.Series(0.0, list(places))
    for name, index in looks.items():
        own = points[points["series"] == name].groupby("x")["value"].sum().reindex(left.index)
        colour = style.look(index)["color"]
        axis.barh(range(len(left)), own.fillna(0.0), left=left, color=colour, label=name)
        left += own.fillna(0.0)
    if "total" in points:
        totals = points.groupby("x", sort=False)["total"].max()
        at = [places[name] for name in totals.index]
        axis.plot(totals, at, "k|", markersize=12, markeredgewidth=2, label="whole")


def place_names(axis: Axes, points: pd.DataFrame, chart: Chart) -> dict[str, int]:
    """Give each name of a panel a place on the vertical axis, in the order of the chart."""
    here = set(points["x"])
    names = [name for name in dict.fromkeys(chart.points["x"]) if name in here]
    places = {name: place for place, name in enumerate(names)}
    axis.set_yticks(range(len(places)), list(places))
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    return places


def draw_cells(axis: Axes, points: pd.DataFrame, chart: Chart, looks: dict[str, int]) -> None:
    """Draw a map whose shade is the value, with words in each cell."""
    across = list(dict.fromkeys(points["x"]))
    values = points.pivot_table(index="series", columns="x", values="value")
    values = values.reindex(index=list(looks), columns=across)
    texts = points.pivot(index="series", columns="x", values="text")
    sns.heatmap(
        values,
        annot=texts.reindex_like(values).fillna(""),
        fmt="",
        annot_kws={"size": "small"},
        cmap="crest",
        cbar=values.size > 1,
        cbar_kws={"label": chart.y.label},
        ax=axis,
    )
    axis.set(xlabel=chart.x.label, ylabel="")
    axis.tick_params(axis="y", rotation=0)


def draw_curves(axis: Axes, curves: pd.DataFrame, looks: dict[str, int]) -> None:
    """Draw dashed curves in the colour of their series, in black what is no series."""
    parts = ["series", "part"] if "part" in curves else ["series"]
    for key, own in curves.groupby(parts, sort=False):
        name = key[0] if isinstance(key, tuple) else key
        known = name in looks
        colour = style.look(looks[name])["color"] if known else "black"
        label = None if known else str(name)
        axis.plot(own["x"], own["value"], "--", color=colour, linewidth=1, label=label, zorder=1)
        if "low" in own:
            axis.fill_between(own["x"], own["low"], own["high"], color=colour, alpha=0.15)


Drawer = Callable[[Axes, pd.DataFrame, Chart, dict[str, int]], None]
MARKS: dict[str, Drawer] = {
    LINES: draw_over, SCATTER: draw_over, DOTS: draw_beside, BARS: draw_beside,
    STACKS: draw_stacks, CELLS: draw_cells,
}  # fmt: skip


LEFT_OUT = (
    f"{{count}} plots of {{name}} differ in settings; the first {MOST_PLOTS} are drawn (the tables "
    "have all; give the folders of some sweeps alone for the other plots)"
)


def draw_all(
    table: pd.DataFrame, baseline: Baseline | None, attempt: Attempt = directly
) -> Iterator[tuple[str, Figure]]:
    """Yield the file names and figures of all plots with data; each plot is one attempt."""
    for name, drawings in drawings_of_modules(table, baseline, attempt):
        if len(drawings) > MOST_PLOTS:
            complain("analysis", LEFT_OUT.format(count=len(drawings), name=name))
        for file_name, draw in islice(drawings.items(), MOST_PLOTS):
            figure = attempt(f"plot {file_name}", draw)
            if figure is not None:
                yield file_name, figure


def drawings_of_modules(
    table: pd.DataFrame, baseline: Baseline | None, attempt: Attempt
) -> Iterator[tuple[str, Drawings]]:
    for name, module in modules_with("show"):
        charts: Charts = attempt(f"plots of {name}", partial(module.show, table, baseline)) or {}
        has_points = {key: chart for key, chart in charts.items() if len(chart.points)}
        yield name, {f"{key}.png": partial(figure_of, each) for key, each in has_points.items()}
    for name, module in modules_with("draw"):
        yield name, attempt(f"plots of {name}", partial(module.draw, table, baseline)) or {}

"""Draw charts (analysis.report.chart) with matplotlib, for the files of a report.

The number of series is limited to MOST_SERIES, that of panels to MOST_PANELS, and the caption says
so. More than MOST_POINTS points beside names are drawn in order of value, without names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETLEFT, CARETRIGHT, CARETUP, MarkerStyle
from matplotlib.ticker import FuncFormatter

from analysis.report import style
from analysis.report.chart import (
    BARS,
    BYTES,
    CELLS,
    DOTS,
    LINES,
    LOG,
    MOST_POINTS,
    MOST_SERIES,
    NAMES,
    SCATTER,
    SECONDS,
    STACKS,
    Chart,
    Charts,
    sample_evenly,
)
from analysis.report.choice import choose_figures
from analysis.shared.discover import Attempt, make_directly
from analysis.shared.text import complain
from benchkit.record.naming import format_bytes, format_seconds

ENDS = ("value", "low", "high")
BESIDE = (BARS, DOTS, STACKS)
"""Marks beside names on the vertical axis."""
MOST_PANELS = 12
INCHES_OF_LINE, INCHES_OF_MARK = 0.17, 0.12
"""Height of a line of a name, and of each mark beside it."""
NAME_INCHES, PANEL_INCHES = 3.2, 1.9
"""The widest name beside a panel, and the narrowest panel."""
NAME_BELOW, NAME_UPRIGHT = 1.0, 1.6
"""The widest name below a panel, and the highest upright one."""
NUMBERS_BESIDE = 0.8
"""Width in inches of the numbers and the label of a vertical axis."""
CELL_LETTER, CELL_LINE = 0.062, 0.14
"""Width of a letter and height of a line in a cell, in inches."""
WIDEST_CELL, SHADES_BESIDE = 1.6, 1.2
"""Width in inches of a cell, and of the colour bar with numbers and label."""
WIDEST = 4.0
"""The shades of a map end at the reference times and over this factor."""
LEAST_RANGE = 2.0
"""Least ratio of the limits of a logarithmic axis: small differences must look small."""
BEYOND = 2.0
"""On a logarithmic axis, intervals may exceed the range of values by up to this factor."""
HEADS = tuple(
    tuple(map(MarkerStyle, heads)) for heads in ((CARETLEFT, CARETRIGHT), (CARETDOWN, CARETUP))
)
"""Arrow heads along x, then along y."""
CUT = "arrow: the bar goes on beyond the axis"
APART = 0.25
"""Distance of the first and the last series at a name, as a share of that of names."""
MARGIN = 0.06
"""Margin at each end of an axis, as a share of its range."""
MOST_LACKING = 1.5
"""Panels share an axis of names with at most this many times the names of the fullest panel."""


def figure_of(chart: Chart) -> Figure:
    """Draw a chart: its panels, title and legend above, the caption below."""
    chart, left_out = readable_part(chart)
    points = chart.points
    beside = chart.mark in BESIDE and not is_crowd(chart)
    figure, axes = panels_of(chart)
    width = style.WIDTH / max(1, len({axis.get_position().x0 for axis in axes}))
    for panel, axis in zip(chart.panels, axes, strict=True):
        of_panel = points[points["panel"] == panel]
        MARKS[chart.mark](axis, of_panel, chart)
        draw_curves(axis, curves_of(chart, of_panel), chart)
        if chart.reference is not None and chart.mark != CELLS:
            (axis.axvline if beside else axis.axhline)(chart.reference, color="black", linewidth=1)
        axis.set_title(style.wrap_text(str(panel), 0.8 * width))
    # Scale at the end: a shared logarithmic axis collapses around a single value.
    for panel, axis in zip(chart.panels, axes, strict=True):
        if chart.mark != CELLS:
            of_panel = points if chart.is_shared else points[points["panel"] == panel]
            scale_axes(axis, chart, of_panel, beside, width)
    num_cut = sum(map(mark_cut_bars, axes))
    note = "; ".join((chart.small_print, *[CUT][:num_cut], *left_out))
    style.lay_out(figure, chart.title, note, axes if chart.has_legend else [])
    return figure


def readable_part(chart: Chart) -> tuple[Chart, list[str]]:
    """Reduce a chart to what a reader can distinguish; also return notes on what is left out."""
    points, left_out = chart.points, []
    series, panels = chart.all_series, chart.panels
    if chart.has_legend and chart.mark != STACKS and len(series) > MOST_SERIES:
        left_out.append(f"{MOST_SERIES} of {len(series)} series")
        points = points[points["series"].isin(sample_evenly(series))]
    if len(panels) > MOST_PANELS:
        left_out.append(f"{MOST_PANELS} of {len(panels)} panels")
        points = points[points["panel"].isin(panels[:MOST_PANELS])]
    if chart.mark == CELLS and not has_words(chart):
        left_out.append("cells are too narrow for their words")
    names = chart.names
    if chart.mark == STACKS and len(names) > MOST_POINTS:
        left_out.append(f"{MOST_POINTS} of {len(names)} names")
        points = points[points["x"].isin(names[:MOST_POINTS])]
    shown = set(points["series"])
    curves = chart.curves
    if curves is not None:
        hidden_series = set(series) - shown
        curves = curves[
            ~curves["series"].isin(hidden_series) & curves["panel"].isin(set(points["panel"]))
        ]
    style_numbers = {name: chart.style_number(name) for name in series}
    kept = tuple(name for name in series if name in shown) if left_out else chart.series
    return replace(
        chart, points=points, series=kept, curves=curves, style_numbers=style_numbers
    ), left_out


def panels_of(chart: Chart) -> tuple[Figure, list[Axes]]:
    names = list(map(wrap_name, chart.names))
    if chart.mark == CELLS:
        words = CELL_LINE * (chart.points["text"].str.count("\n").max() + 1)
        rows = list(map(wrap_name, chart.all_series))
        heights = [max(words, INCHES_OF_LINE * (row.count("\n") + 1)) + 0.1 for row in rows]
        height = 0.9 + inches_below(chart) + max(heights) * len(rows)
        width = width_of_cells(chart)
        return style.panels(len(chart.panels), width, height, share=False, width=width)
    if chart.mark in BESIDE and not is_crowd(chart):
        has_groups = chart.mark != STACKS and chart.points.duplicated(["panel", "x"]).any()
        lines = max(name.count("\n") for name in names) + 1
        marks = len(chart.all_series) if has_groups else 0
        room = max(0.1 + INCHES_OF_LINE * lines, INCHES_OF_MARK * marks)
        shares_names = has_equal_names(chart)
        names_width = style.LETTER * letters_of(names) / (style.MOST_COLUMNS if shares_names else 1)
        least_width = PANEL_INCHES + names_width
        height = 0.8 + inches_of_texts(chart, chart.y.label, least_width) + room * len(names)
        return style.panels(len(chart.panels), least_width, height, share=shares_names)
    height = style.PANEL_HEIGHT + inches_of_texts(chart, chart.x.label)
    height += inches_below(chart) if chart.x.scale == NAMES and not is_crowd(chart) else 0
    return style.panels(len(chart.panels), height=height, share=chart.is_shared)


def inches_of_texts(chart: Chart, below: str, least_width: float = style.LEAST_WIDTH) -> float:
    """Return the height in inches of panel names and the text below, beyond a line each."""
    width = 0.8 * style.WIDTH / style.columns_of(len(chart.panels), least_width)
    breaks = max(style.wrap_text(str(panel), width).count("\n") for panel in chart.panels)
    return INCHES_OF_LINE * (breaks + style.wrap_text(below, width).count("\n"))


def has_equal_names(chart: Chart) -> bool:
    """Return whether panels share one axis of names, because few names are missing in any."""
    most = chart.points.groupby("panel")["x"].nunique().max()
    return bool(len(chart.names) <= MOST_LACKING * most)


def width_of_cells(chart: Chart) -> float:
    return min(style.WIDTH, inches_beside_cells(chart) + WIDEST_CELL * len(chart.names))


def inches_beside_cells(chart: Chart) -> float:
    """Return the width in inches of the names beside a map, and of its colour bar."""
    return style.LETTER * letters_of(map(wrap_name, chart.all_series)) + SHADES_BESIDE


def has_words(chart: Chart) -> bool:
    """Return whether the cells of a map are wide enough for their texts."""
    room = width_of_panel(chart) / len(chart.names)
    return letters_of(chart.points["text"]) * CELL_LETTER < room


def wrap_name(name: object) -> str:
    return style.wrap_text(str(name), NAME_INCHES)


def is_crowd(chart: Chart) -> bool:
    return chart.mark in (BARS, DOTS) and chart.points["x"].nunique() > MOST_POINTS


def scale_axes(
    axis: Axes, chart: Chart, points: pd.DataFrame, is_horizontal: bool, width: float
) -> None:
    """Label and scale both axes by the points of all panels that share them."""
    across = style.wrap_text(chart.y.label if is_horizontal else chart.x.label, 0.8 * width)
    if is_horizontal:
        axis.set_xlabel(across)
        scale_values(axis, chart, points, "x")
        return
    place = axis.get_subplotspec()
    if not chart.is_shared or place is None or place.is_first_col():
        axis.set_ylabel(style.wrap_text(chart.y.label, 0.9 * style.PANEL_HEIGHT))
    scale_values(axis, chart, points, "y")
    if is_crowd(chart):
        axis.set_xlabel(f"{chart.x.label} from the lowest value to the highest [%]".strip())
    else:
        axis.set_xlabel(across)
        scale_settings(axis, chart)


def scale_settings(axis: Axes, chart: Chart) -> None:
    """Put ticks at the measured settings, with equal limits in all panels."""
    if chart.x.scale == NAMES:
        return
    settings = sorted(set(chart.points["x"]))
    values = [*settings, *curves_of(chart, chart.points)["x"]]
    low, high = min(values), max(values)
    if chart.x.scale == LOG:
        axis.set_xscale("log")
        formatter = format_bytes if chart.x.unit == BYTES else "{:g}".format
        style.log_ticks(axis.xaxis, settings, formatter)
        margin = max(1.05, (high / low) ** MARGIN)
        axis.set_xlim(low / margin, high * margin)
    else:
        axis.set_xticks(settings)
        margin = MARGIN * (high - low) or 1.0
        axis.set_xlim(low - margin, high + margin)


def scale_values(axis: Axes, chart: Chart, points: pd.DataFrame, along: str) -> None:
    """Scale the axis of values; a linear one starts at 0 unless a value is negative."""
    limit = axis.set_xlim if along == "x" else axis.set_ylim
    formatter = format_seconds if chart.y.unit == SECONDS else "{:g}".format
    if chart.y.scale != LOG:
        if (points["value"] >= 0).all():
            limit(0, 1.05 * highest(chart, points))
        of_values = axis.xaxis if along == "x" else axis.yaxis
        of_values.set_major_formatter(FuncFormatter(lambda value, _: formatter(value)))
        return
    values = points["value"][points["value"] > 0]
    if values.empty:
        return
    drawn = [
        *values,
        *curves_of(chart, points)["value"],
        *([] if chart.reference is None else [chart.reference]),
    ]
    low, high = min(drawn), max(drawn)
    lows, highs = (points.filter([bound, f"band_{bound}"]).to_numpy() for bound in ("low", "high"))
    low = max(low / BEYOND, np.nanmin([low, *lows.flat]))
    high = min(high * BEYOND, np.nanmax([high, *highs.flat]))
    margin = max(1.05, (high / low) ** MARGIN)
    if chart.reference is None:
        margin = max(margin, (LEAST_RANGE * low / high) ** 0.5)
    limit(low / margin, high * margin)
    style.log_values(axis, formatter, along)
    limit(low / margin, high * margin)


def mark_cut_bars(axis: Axes) -> int:
    """Mark error bars that exceed the axis by arrow heads; return their number."""
    num_cut = 0
    for bars in axis.containers:
        if not isinstance(bars, ErrorbarContainer):
            continue
        along = 0 if bars.has_xerr else 1
        low, high = sorted(axis.get_xlim() if bars.has_xerr else axis.get_ylim())
        for lines in bars.lines[2]:
            end_points = np.array(
                [path.vertices for path in lines.get_paths()]
            )  # [bar, end, x and y]
            beyond = (end_points[:, 0, along] < low, end_points[:, 1, along] > high)
            for index, (limit, head) in enumerate(zip((low, high), HEADS[along], strict=True)):
                tips = end_points[beyond[index], index]
                tips[:, along] = limit
                if len(tips):
                    axis.scatter(*tips.T, marker=head, color=lines.get_color(), clip_on=False)
                num_cut += len(tips)
    return num_cut


def highest(chart: Chart, points: pd.DataFrame) -> float:
    """Return the highest value on a linear axis, including intervals, stacks and curves."""
    values = points.filter(["value", "high", "band_high", "total"]).max().tolist()
    values += [curves_of(chart, points)["value"].max(), chart.reference or 0.0]
    if chart.mark == STACKS:
        values.append(points.groupby(["panel", "x"])["value"].sum().max())
    return float(np.nanmax([*values, np.finfo(float).tiny]))


def curves_of(chart: Chart, points: pd.DataFrame) -> pd.DataFrame:
    if chart.curves is None:
        return pd.DataFrame(columns=["series", "x", "value"])
    return chart.curves[chart.curves["panel"].isin(set(points["panel"]))]


def split_series(points: pd.DataFrame, chart: Chart) -> Iterator[tuple[str, float, pd.DataFrame]]:
    """Yield the name, offset from -0.5 to 0.5, and points of each series of a panel."""
    names = chart.all_series
    for index, name in enumerate(names):
        of_series = points[points["series"] == name]
        if not of_series.empty:
            yield name, (index + 0.5) / len(names) - 0.5, of_series


def draw_over(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw series over numbers or names, connected for LINES, with intervals and bands."""
    names = chart.names if chart.x.scale == NAMES else []
    for name, offset, of_series in split_series(points, chart):
        at = of_series["x"].map(names.index) + APART * offset if names else of_series["x"]
        of_series = of_series.assign(at=at.astype(float)).sort_values("at")
        looks = style.series_style(chart.style_number(name))
        if chart.mark != LINES:
            looks["linestyle"] = "none"
        bars = style.interval_bars(of_series, *ENDS)
        axis.errorbar(of_series["at"], of_series["value"], bars, label=name, capsize=3, **looks)
        if "band_low" in of_series:
            axis.fill_between(
                of_series["at"],
                of_series["band_low"],
                of_series["band_high"],
                alpha=0.15,
                color=looks["color"],
            )
    if names:
        name_below(axis, chart)
        axis.set_xlim(-0.5, len(names) - 0.5)
        axis.grid(axis="x", visible=False)


def name_below(axis: Axes, chart: Chart, first: float = 0.0) -> None:
    """Write the names of a chart below a panel, upright if they are too wide."""
    texts, is_upright = texts_below(chart)
    style.name_ticks(axis.xaxis, texts, first)
    axis.tick_params(axis="x", rotation=90 if is_upright else 0)


def texts_below(chart: Chart) -> tuple[list[str], bool]:
    """Wrap the names below a panel; return them, and whether they must be upright."""
    room = width_of_panel(chart) / len(chart.names)
    longest = max(len(word) for name in chart.names for word in name.split()) * style.LETTER
    texts = [style.wrap_text(name, max(longest, min(NAME_BELOW, room))) for name in chart.names]
    if letters_of(texts) * style.LETTER <= room:
        return texts, False
    return [style.wrap_text(name, NAME_UPRIGHT) for name in chart.names], True


def inches_below(chart: Chart) -> float:
    """Return the height in inches of the names below a panel, beyond a line."""
    texts, is_upright = texts_below(chart)
    if is_upright:
        return style.LETTER * letters_of(texts) - INCHES_OF_LINE
    return INCHES_OF_LINE * max(text.count("\n") for text in texts)


def width_of_panel(chart: Chart) -> float:
    """Estimate the width of a panel in inches."""
    if chart.mark == CELLS:
        return width_of_cells(chart) - inches_beside_cells(chart)
    columns = style.columns_of(len(chart.panels), style.LEAST_WIDTH)
    return (style.WIDTH - NUMBERS_BESIDE * (1 if chart.is_shared else columns)) / columns


def letters_of(texts: Iterable[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


def draw_beside(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw bars or dots beside names; the series of a name are drawn side by side."""
    if is_crowd(chart):
        draw_crowd(axis, points, chart)
        return
    places = place_names(axis, points, chart)
    has_groups = bool(points.duplicated(["x"]).any())
    for name, offset, of_series in split_series(points, chart):
        at = of_series["x"].map(places) + 0.8 * offset * has_groups
        bars = style.interval_bars(of_series, *ENDS)
        looks = style.series_style(chart.style_number(name))
        if chart.mark == BARS:
            thick = 0.8 / len(chart.all_series) if has_groups else 0.7
            colour = looks["color"]
            axis.barh(at, of_series["value"], thick, xerr=bars, color=colour, capsize=3, label=name)
        else:
            looks |= {"linestyle": "none", "capsize": 3}
            axis.errorbar(of_series["value"], at, xerr=bars, label=name, **looks)


def draw_crowd(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    for name, _, of_series in split_series(points, chart):
        values = of_series["value"].sort_values()
        at = np.linspace(0, 100, len(values)) if len(values) > 1 else [50]
        label = f"{name}: {len(values)} points"
        axis.plot(
            at, values, label=label, markevery=0.1, **style.series_style(chart.style_number(name))
        )


def draw_stacks(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw stacked bars, and a mark at the total if known."""
    places = place_names(axis, points, chart)
    left = pd.Series(0.0, list(places))
    for name in chart.all_series:
        lengths = points[points["series"] == name].groupby("x")["value"].sum().reindex(left.index)
        colour = style.series_style(chart.style_number(name))["color"]
        axis.barh(range(len(left)), lengths.fillna(0.0), left=left, color=colour, label=name)
        left += lengths.fillna(0.0)
    if "total" in points:
        totals = points.groupby("x", sort=False)["total"].max()
        at = [places[name] for name in totals.index]
        axis.plot(totals, at, "k|", markersize=12, markeredgewidth=2, label="whole")


def place_names(axis: Axes, points: pd.DataFrame, chart: Chart) -> dict[str, int]:
    """Put the names of a panel on the vertical axis, in the order of the chart; return places."""
    shown = set(chart.names if has_equal_names(chart) else points["x"])
    names = [name for name in chart.names if name in shown]
    places = {name: place for place, name in enumerate(names)}
    style.name_ticks(axis.yaxis, list(map(wrap_name, places)))
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    return places


def draw_cells(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw a heat map, with texts if cells are wide enough."""
    across = chart.names
    values = points.pivot_table(index="series", columns="x", values="value")
    values = values.reindex(index=chart.all_series, columns=across)
    texts = points.pivot(index="series", columns="x", values="text")
    shade: dict[str, Any] = {"cmap": "crest"}
    if chart.reference is not None:
        limits = (chart.reference / WIDEST, chart.reference * WIDEST)
        shade = {"cmap": "RdBu_r", "norm": LogNorm(*limits)}
    sns.heatmap(
        values,
        annot=texts.reindex_like(values).fillna("") if has_words(chart) else None,
        fmt="",
        annot_kws={"size": 7.5},
        cbar=values.size > 1,
        cbar_kws={"label": style.wrap_text(chart.y.label, axis.bbox.height / axis.figure.dpi)},
        ax=axis,
        xticklabels=False,  # seaborn would lay them out before there is room
        yticklabels=False,
        **shade,
    )
    name_below(axis, chart, first=0.5)
    style.name_ticks(axis.yaxis, list(map(wrap_name, chart.all_series)), first=0.5)
    if chart.reference is not None and values.size > 1:
        ticks = [chart.reference * factor for factor in (1 / WIDEST, 0.5, 1, 2, WIDEST)]
        bar: Any = axis.collections[0].colorbar
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    axis.grid(visible=False)
    axis.set(xlabel=chart.x.label, ylabel="")


def draw_curves(axis: Axes, curves: pd.DataFrame, chart: Chart) -> None:
    """Draw dashed curves in the colour of their series; black for those of no series."""
    parts = ["series", "part"] if "part" in curves else ["series"]
    for key, curve in curves.groupby(parts, sort=False):
        name = key[0] if isinstance(key, tuple) else key
        is_series = name in chart.all_series
        colour = style.series_style(chart.style_number(name))["color"] if is_series else "black"
        label = None if is_series else str(name)
        axis.plot(
            curve["x"], curve["value"], "--", color=colour, linewidth=1, label=label, zorder=1
        )
        if "low" in curve:
            axis.fill_between(curve["x"], curve["low"], curve["high"], color=colour, alpha=0.15)


MARKS: Mapping[str, Callable[[Axes, pd.DataFrame, Chart], None]] = {
    LINES: draw_over, SCATTER: draw_over, DOTS: draw_beside, BARS: draw_beside,
    STACKS: draw_stacks, CELLS: draw_cells,
}  # fmt: skip


def draw_all(
    charts: Mapping[str, Charts], attempt: Attempt = make_directly, most: int | None = None
) -> Iterator[tuple[str, Figure]]:
    """Yield file names and figures of at most `most` charts; a failing one is skipped by `attempt`.

    Args:
        charts: by module.
    """
    kept, left_out = choose_figures(charts, most)
    if left_out:
        complain("analysis", left_out)
    for key, chart in chain.from_iterable(by_name.items() for by_name in kept.values()):
        name = f"{key}.png"
        figure = attempt(f"plot {name}", partial(figure_of, chart))
        if figure is not None:
            yield name, figure

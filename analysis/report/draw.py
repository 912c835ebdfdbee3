"""Draws charts (analysis.report.chart) with matplotlib, for the files of a report.

What is too much to read is thinned, and the small print says so: series beyond MOST_SERIES, panels
beyond MOST_PANELS. More than MOST_POINTS points beside names are drawn in order of value, without
names.
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
"""Marks that lie beside names, which stand on the vertical axis."""
MOST_PANELS = 12
INCHES_OF_LINE, INCHES_OF_MARK = 0.17, 0.12
"""Height of a line of a name, and of each of several marks beside it."""
NAME_INCHES, PANEL_INCHES = 3.2, 1.9
"""The widest name beside a panel, and the narrowest panel."""
NAME_BELOW, NAME_UPRIGHT = 1.0, 1.6
"""The widest name below a panel, and the highest one where names stand upright."""
NUMBERS_BESIDE = 0.8
"""Inches of the numbers and the label of a vertical axis."""
CELL_LETTER, CELL_LINE = 0.062, 0.14
"""Inches of the words in a cell."""
WIDEST_CELL, SHADES_BESIDE = 1.6, 1.2
"""Inches of a cell, and of the bar of shades with its numbers and its label."""
WIDEST = 4.0
"""Factor from the reference of a map at which its shades end."""
LEAST_RANGE = 2.0
"""Least factor between the ends of a logarithmic axis: small differences must look small."""
BEYOND = 2.0
"""On a logarithmic axis, intervals may leave the range of the values by up to this factor."""
HEADS = tuple(
    tuple(map(MarkerStyle, heads)) for heads in ((CARETLEFT, CARETRIGHT), (CARETDOWN, CARETUP))
)
"""Of arrows along x, then along y."""
CUT = "arrow: the bar goes on beyond the axis"
APART = 0.25
"""Distance between the first and the last series at a name, over that between names."""
MARGIN = 0.06
"""Share of an axis beyond what is outermost, at each end."""
MOST_LACKING = 1.5
"""Panels have an axis of names in common that has at most so many times as many as one of them."""


def figure_of(chart: Chart) -> Figure:
    """Draw a chart: a panel each, title and legend above, the small print below."""
    chart, left_out = readable_part(chart)
    points = chart.points
    beside = chart.mark in BESIDE and not is_crowd(chart)
    figure, axes = panels_of(chart)
    width = style.WIDTH / max(1, len({axis.get_position().x0 for axis in axes}))
    for panel, axis in zip(chart.panels, axes, strict=True):
        own = points[points["panel"] == panel]
        MARKS[chart.mark](axis, own, chart)
        draw_curves(axis, curves_of(chart, own), chart)
        if chart.reference is not None and chart.mark != CELLS:
            (axis.axvline if beside else axis.axhline)(chart.reference, color="black", linewidth=1)
        axis.set_title(style.wrapped(str(panel), 0.8 * width))
    # Scales come last, because a logarithmic axis that others share collapses around one value.
    for panel, axis in zip(chart.panels, axes, strict=True):
        if chart.mark != CELLS:
            own = points if chart.is_shared else points[points["panel"] == panel]
            scale_axes(axis, chart, own, beside, width)
    num_cut = sum(map(mark_cut_bars, axes))
    note = "; ".join((chart.small_print, *[CUT][:num_cut], *left_out))
    style.lay_out(figure, chart.title, note, axes if chart.has_legend else [])
    return figure


def readable_part(chart: Chart) -> tuple[Chart, list[str]]:
    """Select what a reader can tell apart; return it, and in words what is left out."""
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
        gone = set(series) - shown
        curves = curves[~curves["series"].isin(gone) & curves["panel"].isin(set(points["panel"]))]
    looks = {name: chart.look(name) for name in series}
    kept = tuple(name for name in series if name in shown) if left_out else chart.series
    return replace(chart, points=points, series=kept, curves=curves, style_numbers=looks), left_out


def panels_of(chart: Chart) -> tuple[Figure, list[Axes]]:
    names = list(map(name_beside, chart.names))
    if chart.mark == CELLS:
        words = CELL_LINE * (chart.points["text"].str.count("\n").max() + 1)
        rows = list(map(name_beside, chart.all_series))
        heights = [max(words, INCHES_OF_LINE * (row.count("\n") + 1)) + 0.1 for row in rows]
        height = 0.9 + inches_below(chart) + max(heights) * len(rows)
        width = width_of_cells(chart)
        return style.panels(len(chart.panels), width, height, share=False, width=width)
    if chart.mark in BESIDE and not is_crowd(chart):
        several = chart.mark != STACKS and chart.points.duplicated(["panel", "x"]).any()
        lines = max(name.count("\n") for name in names) + 1
        marks = len(chart.all_series) if several else 0
        room = max(0.1 + INCHES_OF_LINE * lines, INCHES_OF_MARK * marks)
        alike = has_equal_names(chart)
        beside = style.LETTER * letters_of(names) / (style.MOST_COLUMNS if alike else 1)
        least_width = PANEL_INCHES + beside
        height = 0.8 + inches_of_texts(chart, chart.y.label, least_width) + room * len(names)
        return style.panels(len(chart.panels), least_width, height, share=alike)
    height = style.PANEL_HEIGHT + inches_of_texts(chart, chart.x.label)
    height += inches_below(chart) if chart.x.scale == NAMES and not is_crowd(chart) else 0
    return style.panels(len(chart.panels), height=height, share=chart.is_shared)


def inches_of_texts(chart: Chart, below: str, least_width: float = style.LEAST_WIDTH) -> float:
    """Return the height that names of panels, and the text below them, need beyond a line each."""
    width = 0.8 * style.WIDTH / style.columns_of(len(chart.panels), least_width)
    breaks = max(style.wrapped(str(panel), width).count("\n") for panel in chart.panels)
    return INCHES_OF_LINE * (breaks + style.wrapped(below, width).count("\n"))


def has_equal_names(chart: Chart) -> bool:
    """Return whether all panels have all names, since few panels lack any."""
    most = chart.points.groupby("panel")["x"].nunique().max()
    return bool(len(chart.names) <= MOST_LACKING * most)


def width_of_cells(chart: Chart) -> float:
    return min(style.WIDTH, beside_cells(chart) + WIDEST_CELL * len(chart.names))


def beside_cells(chart: Chart) -> float:
    """Return the inches of the names beside a map, and of the bar of its shades."""
    return style.LETTER * letters_of(map(name_beside, chart.all_series)) + SHADES_BESIDE


def has_words(chart: Chart) -> bool:
    """Return whether the cells of a map are wide enough for their words."""
    room = width_of_panel(chart) / len(chart.names)
    return letters_of(chart.points["text"]) * CELL_LETTER < room


def name_beside(name: object) -> str:
    return style.wrapped(str(name), NAME_INCHES)


def is_crowd(chart: Chart) -> bool:
    return chart.mark in (BARS, DOTS) and chart.points["x"].nunique() > MOST_POINTS


def scale_axes(
    axis: Axes, chart: Chart, points: pd.DataFrame, is_horizontal: bool, width: float
) -> None:
    """Label and scale both axes for the points of the panels that share them."""
    across = style.wrapped(chart.y.label if is_horizontal else chart.x.label, 0.8 * width)
    if is_horizontal:
        axis.set_xlabel(across)
        scale_values(axis, chart, points, "x")
        return
    place = axis.get_subplotspec()
    if not chart.is_shared or place is None or place.is_first_col():
        axis.set_ylabel(style.wrapped(chart.y.label, 0.9 * style.PANEL_HEIGHT))
    scale_values(axis, chart, points, "y")
    if is_crowd(chart):
        axis.set_xlabel(f"{chart.x.label} from the lowest value to the highest [%]".strip())
    else:
        axis.set_xlabel(across)
        scale_settings(axis, chart)


def scale_settings(axis: Axes, chart: Chart) -> None:
    """Put the ticks at the settings that were measured, at equal places in all panels."""
    if chart.x.scale == NAMES:
        return
    settings = sorted(set(chart.points["x"]))
    known = [*settings, *curves_of(chart, chart.points)["x"]]
    low, high = min(known), max(known)
    if chart.x.scale == LOG:
        axis.set_xscale("log")
        shown = format_bytes if chart.x.unit == BYTES else "{:g}".format
        style.log_ticks(axis.xaxis, settings, shown)
        rest = max(1.05, (high / low) ** MARGIN)
        axis.set_xlim(low / rest, high * rest)
    else:
        axis.set_xticks(settings)
        rest = MARGIN * (high - low) or 1.0
        axis.set_xlim(low - rest, high + rest)


def scale_values(axis: Axes, chart: Chart, points: pd.DataFrame, along: str) -> None:
    """Scale the axis of values; a linear one begins at 0 unless a value lies below."""
    limit = axis.set_xlim if along == "x" else axis.set_ylim
    shown = format_seconds if chart.y.unit == SECONDS else "{:g}".format
    if chart.y.scale != LOG:
        if (points["value"] >= 0).all():
            limit(0, 1.05 * highest(chart, points))
        of_values = axis.xaxis if along == "x" else axis.yaxis
        of_values.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
        return
    values = points["value"][points["value"] > 0]
    if values.empty:
        return
    known = [
        *values,
        *curves_of(chart, points)["value"],
        *([] if chart.reference is None else [chart.reference]),
    ]
    low, high = min(known), max(known)
    lows, highs = (points.filter([end, f"band_{end}"]).to_numpy() for end in ("low", "high"))
    low = max(low / BEYOND, np.nanmin([low, *lows.flat]))
    high = min(high * BEYOND, np.nanmax([high, *highs.flat]))
    rest = max(1.05, (high / low) ** MARGIN)
    if chart.reference is None:
        rest = max(rest, (LEAST_RANGE * low / high) ** 0.5)
    limit(low / rest, high * rest)
    style.log_values(axis, shown, along)
    limit(low / rest, high * rest)


def mark_cut_bars(axis: Axes) -> int:
    """Put an arrow head where an error bar goes on beyond the axis; return how many do."""
    num_cut = 0
    for bars in axis.containers:
        if not isinstance(bars, ErrorbarContainer):
            continue
        along = 0 if bars.has_xerr else 1
        low, high = sorted(axis.get_xlim() if bars.has_xerr else axis.get_ylim())
        for lines in bars.lines[2]:
            ends = np.array([path.vertices for path in lines.get_paths()])  # [bar, end, x and y]
            beyond = (ends[:, 0, along] < low, ends[:, 1, along] > high)
            for end, (limit, head) in enumerate(zip((low, high), HEADS[along], strict=True)):
                places = ends[beyond[end], end]
                places[:, along] = limit
                if len(places):
                    axis.scatter(*places.T, marker=head, color=lines.get_color(), clip_on=False)
                num_cut += len(places)
    return num_cut


def highest(chart: Chart, points: pd.DataFrame) -> float:
    """Return the highest value of a linear axis, with the ends of intervals, sums and curves."""
    ends = points.filter(["value", "high", "band_high", "total"]).max().tolist()
    ends += [curves_of(chart, points)["value"].max(), chart.reference or 0.0]
    if chart.mark == STACKS:
        ends.append(points.groupby(["panel", "x"])["value"].sum().max())
    return float(np.nanmax([*ends, np.finfo(float).tiny]))


def curves_of(chart: Chart, points: pd.DataFrame) -> pd.DataFrame:
    if chart.curves is None:
        return pd.DataFrame(columns=["series", "x", "value"])
    return chart.curves[chart.curves["panel"].isin(set(points["panel"]))]


def by_series(points: pd.DataFrame, chart: Chart) -> Iterator[tuple[str, float, pd.DataFrame]]:
    """Yield each series of a panel with its place among all of them, from -0.5 to 0.5."""
    names = chart.all_series
    for place, name in enumerate(names):
        own = points[points["series"] == name]
        if not own.empty:
            yield name, (place + 0.5) / len(names) - 0.5, own


def draw_over(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw series over numbers or names, joined for LINES, with intervals and bands."""
    names = chart.names if chart.x.scale == NAMES else []
    for name, apart, own in by_series(points, chart):
        at = own["x"].map(names.index) + APART * apart if names else own["x"]
        own = own.assign(at=at.astype(float)).sort_values("at")
        look = style.series_style(chart.look(name))
        if chart.mark != LINES:
            look["linestyle"] = "none"
        bars = style.interval_bars(own, *ENDS)
        axis.errorbar(own["at"], own["value"], bars, label=name, capsize=3, **look)
        if "band_low" in own:
            axis.fill_between(
                own["at"], own["band_low"], own["band_high"], alpha=0.15, color=look["color"]
            )
    if names:
        name_below(axis, chart)
        axis.set_xlim(-0.5, len(names) - 0.5)
        axis.grid(axis="x", visible=False)


def name_below(axis: Axes, chart: Chart, first: float = 0.0) -> None:
    """Write the names of a chart below a panel, upright where they are wider than their room."""
    texts, is_upright = texts_below(chart)
    style.name_ticks(axis.xaxis, texts, first)
    axis.tick_params(axis="x", rotation=90 if is_upright else 0)


def texts_below(chart: Chart) -> tuple[list[str], bool]:
    """Break the names below a panel; return them, and whether they must stand upright."""
    room = width_of_panel(chart) / len(chart.names)
    longest = max(len(word) for name in chart.names for word in name.split()) * style.LETTER
    texts = [style.wrapped(name, max(longest, min(NAME_BELOW, room))) for name in chart.names]
    if letters_of(texts) * style.LETTER <= room:
        return texts, False
    return [style.wrapped(name, NAME_UPRIGHT) for name in chart.names], True


def inches_below(chart: Chart) -> float:
    """Return the height of the names below a panel, beyond a line."""
    texts, is_upright = texts_below(chart)
    if is_upright:
        return style.LETTER * letters_of(texts) - INCHES_OF_LINE
    return INCHES_OF_LINE * max(text.count("\n") for text in texts)


def width_of_panel(chart: Chart) -> float:
    """Return about how many inches are between the ends of a panel's horizontal axis."""
    if chart.mark == CELLS:
        return width_of_cells(chart) - beside_cells(chart)
    columns = style.columns_of(len(chart.panels), style.LEAST_WIDTH)
    return (style.WIDTH - NUMBERS_BESIDE * (1 if chart.is_shared else columns)) / columns


def letters_of(texts: Iterable[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


def draw_beside(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw bars or dots beside names; several series of a name share its place."""
    if is_crowd(chart):
        draw_crowd(axis, points, chart)
        return
    places = place_names(axis, points, chart)
    several = bool(points.duplicated(["x"]).any())
    for name, apart, own in by_series(points, chart):
        at = own["x"].map(places) + 0.8 * apart * several
        bars = style.interval_bars(own, *ENDS)
        look = style.series_style(chart.look(name))
        if chart.mark == BARS:
            thick = 0.8 / len(chart.all_series) if several else 0.7
            colour = look["color"]
            axis.barh(at, own["value"], thick, xerr=bars, color=colour, capsize=3, label=name)
        else:
            look |= {"linestyle": "none", "capsize": 3}
            axis.errorbar(own["value"], at, xerr=bars, label=name, **look)


def draw_crowd(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    for name, _, own in by_series(points, chart):
        values = own["value"].sort_values()
        at = np.linspace(0, 100, len(values)) if len(values) > 1 else [50]
        label = f"{name}: {len(values)} points"
        axis.plot(at, values, label=label, markevery=0.1, **style.series_style(chart.look(name)))


def draw_stacks(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw lengths on top of each other, and a mark at the total where it is known."""
    places = place_names(axis, points, chart)
    left = pd.Series(0.0, list(places))
    for name in chart.all_series:
        own = points[points["series"] == name].groupby("x")["value"].sum().reindex(left.index)
        colour = style.series_style(chart.look(name))["color"]
        axis.barh(range(len(left)), own.fillna(0.0), left=left, color=colour, label=name)
        left += own.fillna(0.0)
    if "total" in points:
        totals = points.groupby("x", sort=False)["total"].max()
        at = [places[name] for name in totals.index]
        axis.plot(totals, at, "k|", markersize=12, markeredgewidth=2, label="whole")


def place_names(axis: Axes, points: pd.DataFrame, chart: Chart) -> dict[str, int]:
    """Give each name of a panel a place on the vertical axis, in the order of the chart."""
    here = set(chart.names if has_equal_names(chart) else points["x"])
    names = [name for name in chart.names if name in here]
    places = {name: place for place, name in enumerate(names)}
    style.name_ticks(axis.yaxis, list(map(name_beside, places)))
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    return places


def draw_cells(axis: Axes, points: pd.DataFrame, chart: Chart) -> None:
    """Draw a map whose shade is the value, with words in the cells that are wide enough."""
    across = chart.names
    values = points.pivot_table(index="series", columns="x", values="value")
    values = values.reindex(index=chart.all_series, columns=across)
    texts = points.pivot(index="series", columns="x", values="text")
    shade: dict[str, Any] = {"cmap": "crest"}
    if chart.reference is not None:
        ends = (chart.reference / WIDEST, chart.reference * WIDEST)
        shade = {"cmap": "RdBu_r", "norm": LogNorm(*ends)}
    sns.heatmap(
        values,
        annot=texts.reindex_like(values).fillna("") if has_words(chart) else None,
        fmt="",
        annot_kws={"size": 7.5},
        cbar=values.size > 1,
        cbar_kws={"label": style.wrapped(chart.y.label, axis.bbox.height / axis.figure.dpi)},
        ax=axis,
        xticklabels=False,  # seaborn draws the figure at once, where they find no room yet
        yticklabels=False,
        **shade,
    )
    name_below(axis, chart, first=0.5)
    style.name_ticks(axis.yaxis, list(map(name_beside, chart.all_series)), first=0.5)
    if chart.reference is not None and values.size > 1:
        ticks = [chart.reference * factor for factor in (1 / WIDEST, 0.5, 1, 2, WIDEST)]
        bar: Any = axis.collections[0].colorbar
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.minorticks_off()
    axis.grid(visible=False)
    axis.set(xlabel=chart.x.label, ylabel="")


def draw_curves(axis: Axes, curves: pd.DataFrame, chart: Chart) -> None:
    """Draw dashed curves in the colour of their series, in black what is no series."""
    parts = ["series", "part"] if "part" in curves else ["series"]
    for key, own in curves.groupby(parts, sort=False):
        name = key[0] if isinstance(key, tuple) else key
        known = name in chart.all_series
        colour = style.series_style(chart.look(name))["color"] if known else "black"
        label = None if known else str(name)
        axis.plot(own["x"], own["value"], "--", color=colour, linewidth=1, label=label, zorder=1)
        if "low" in own:
            axis.fill_between(own["x"], own["low"], own["high"], color=colour, alpha=0.15)


MARKS: Mapping[str, Callable[[Axes, pd.DataFrame, Chart], None]] = {
    LINES: draw_over, SCATTER: draw_over, DOTS: draw_beside, BARS: draw_beside,
    STACKS: draw_stacks, CELLS: draw_cells,
}  # fmt: skip


def draw_all(
    charts: Mapping[str, Charts], attempt: Attempt = make_directly, most: int | None = None
) -> Iterator[tuple[str, Figure]]:
    """Yield the file names and figures of at most so many charts; each is one attempt.

    Args:
        charts: by the modules that show them.
    """
    kept, left_out = choose_figures(charts, most)
    if left_out:
        complain("analysis", left_out)
    for key, chart in chain.from_iterable(own.items() for own in kept.values()):
        name = f"{key}.png"
        figure = attempt(f"plot {name}", partial(figure_of, chart))
        if figure is not None:
            yield name, figure

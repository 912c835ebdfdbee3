"""Specifies charts in Vega-Lite. Data, widths and ticks are the page's to fill in."""

from typing import Any

import altair as alt

from analysis.report.chart import (
    BARS,
    BYTES,
    CELLS,
    LINES,
    LOG,
    NAMES,
    SCATTER,
    SECONDS,
    STACKS,
    Axis,
    Chart,
)

ROWS = "rows"
"""Name of the data, which has a column `kind`: POINT, CURVE or REFERENCE."""
POINT, CURVE, REFERENCE = "point", "curve", "reference"
SHAPES = (
    "M0,-.8A.8,.8 0 1,1 0,.8A.8,.8 0 1,1 0,-.8Z",
    "M-.72,-.72H.72V.72H-.72Z",
    "M0,-1L.9,0L0,1L-.9,0Z",
    "M0,-.95L.95,.7H-.95Z",
    "M0,.95L.95,-.7H-.95Z",
    "M-.3,-.9H.3V-.3H.9V.3H.3V.9H-.3V.3H-.9V-.3H-.3Z",
    "M-.95,0L.7,-.95V.95Z",
    "M.95,0L-.7,-.95V.95Z",
)
"""Markers as paths of SVG, which tell series apart in black and white."""
NUM_COLOURS = 10
"""Custom properties `--series-0` and so on of page.css, for light and for dark pages."""
INK, SOFT, ACCENT, CARD = "var(--ink)", "var(--ink-soft)", "var(--accent)", "var(--card)"
LABELS = {"": "digits(datum.value)", BYTES: "bytes(datum.value)", SECONDS: "seconds(datum.value)"}
"""Expressions of Vega that format a value; page.js defines their functions."""
SIZE_OF_POINT = 65
"""In square pixels."""


def colour(index: int) -> str:
    return f"var(--series-{index % NUM_COLOURS})"


def shape(index: int, mark: str = LINES) -> str:
    """Return the marker of a series; lengths have squares in the legend."""
    return SHAPES[1 if mark in (BARS, STACKS) else index % len(SHAPES)]


def spec_of(chart: Chart) -> dict[str, Any]:
    """Return the specification as JSON."""
    drawing = {LINES: over_x, SCATTER: over_x, CELLS: cells, STACKS: stacks}
    layers = drawing.get(chart.mark, beside_names)(chart)
    ticks = [alt.param(name=f"{name}_ticks", value=[]) for name in ("x", "y")]
    shown: alt.LayerChart | alt.FacetChart = alt.layer(*layers, data=alt.NamedData(ROWS))
    if len(chart.panels) > 1:
        header = alt.Header(labelLimit=260)
        facet = alt.Facet("panel:N", title=None, sort=chart.panels, header=header)
        shown = shown.facet(facet=facet, columns=2).resolve_axis(x="independent")
        if not chart.is_shared:
            shown = shown.resolve_scale(x="independent")
    spec: dict[str, Any] = shown.add_params(*ticks).to_dict()
    return {name: part for name, part in spec.items() if name not in ("config", "$schema")}


def rows_of(kind: str) -> alt.Chart:
    chosen: alt.Chart = alt.Chart().transform_filter(alt.datum.kind == kind)
    return chosen


def scale_of(axis: Axis) -> alt.Scale:
    """Return the scale of numbers; the logarithm of bytes has powers of two."""
    if axis.scale != LOG:
        return alt.Scale(zero=True)
    return alt.Scale(type="log", base=2 if axis.unit == BYTES else 10, nice=False, padding=12)


def axis_of(axis: Axis, ticks: str) -> alt.Axis:
    """Return an axis of numbers; the page sets the ticks of a logarithm as a parameter."""
    overlap: dict[str, Any] = {"labelOverlap": "greedy", "labelSeparation": 5}
    values = alt.ExprRef(ticks) if axis.scale == LOG or ticks == "x_ticks" else alt.Undefined
    return alt.Axis(labelExpr=LABELS[axis.unit], values=values, tickCount=6, **overlap)


def colours_of(chart: Chart) -> alt.Color:
    """Return the colours of series; curves that are no series, such as an ideal, are grey."""
    names = chart.all_series
    curves = [] if chart.curves is None else dict.fromkeys(chart.curves["series"])
    others = [name for name in curves if name not in names]
    shades = [*map(colour, range(len(names))), *(SOFT for _ in others)]
    scale = alt.Scale(domain=[*names, *others], range=shades)
    return alt.Color("series:N", legend=None, scale=scale)


def shapes_of(chart: Chart) -> alt.Shape:
    names = chart.all_series
    scale = alt.Scale(domain=names, range=list(map(shape, range(len(names)))))
    return alt.Shape("series:N", legend=None, scale=scale)


def tooltip_of(chart: Chart) -> list[alt.Tooltip]:
    """Return what a point says; the page makes its texts."""
    shown = [alt.Tooltip("panel:N")] if len(chart.panels) > 1 else []
    if len(chart.all_series) > 1:
        shown.append(alt.Tooltip("series:N"))
    x = alt.Tooltip("x_text:N", title=chart.x.label)
    return [*shown, x, alt.Tooltip("value_text:N", title=chart.y.label)]


def names_of(chart: Chart) -> list[str]:
    return list(dict.fromkeys(chart.points["x"]))


def over_x(chart: Chart) -> list[alt.Chart]:
    """Draw points over numbers or names, joined for LINES, with intervals and curves."""
    if chart.x.scale == NAMES:
        across = alt.Axis(labelAngle=0)
        x = alt.X("x:N", title=chart.x.label, sort=names_of(chart), axis=across)
    else:
        across = axis_of(chart.x, "x_ticks")
        x = alt.X("x:Q", title=chart.x.label, scale=scale_of(chart.x), axis=across)
    up = axis_of(chart.y, "y_ticks")
    y = alt.Y("value:Q", title=chart.y.label, scale=scale_of(chart.y), axis=up)
    points = rows_of(POINT).encode(x=x, y=y, color=colours_of(chart))
    if chart.x.scale == NAMES and len(names_of(chart)) == 1:  # Marks would cover each other.
        points = points.encode(xOffset=alt.XOffset("series:N", sort=chart.all_series))
    dots = points.mark_point(filled=True, opacity=1, size=SIZE_OF_POINT, cursor="pointer")
    curves = rows_of(CURVE).mark_line(strokeDash=[5, 4], strokeWidth=1.2)
    layers = []
    if chart.reference is not None:
        layers.append(rows_of(REFERENCE).mark_rule(color=SOFT).encode(y="value:Q"))
    if chart.curves is not None:
        layers.append(curves.encode(x=x, y=y, color=colours_of(chart), detail="part:N"))
    if chart.points["low"].notna().any():
        layers.append(points.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"))
    if chart.mark == LINES:
        layers.append(points.mark_line(strokeWidth=1.8))
    return [*layers, dots.encode(shape=shapes_of(chart), tooltip=tooltip_of(chart))]


def names_down(chart: Chart) -> alt.Y:
    axis = alt.Axis(grid=False, ticks=False, domain=False)
    return alt.Y("x:N", title=None, sort=names_of(chart), axis=axis)


def beside_names(chart: Chart) -> list[alt.Chart]:
    """Draw bars or dots with intervals beside names, which need no turned labels there."""
    axis = axis_of(chart.y, "y_ticks")
    x = alt.X("value:Q", title=chart.y.label, scale=scale_of(chart.y), axis=axis)
    points = rows_of(POINT).encode(x=x, y=names_down(chart), color=colours_of(chart))
    if chart.points.duplicated(["panel", "x"]).any():
        points = points.encode(yOffset=alt.YOffset("series:N", sort=chart.all_series))
    if chart.mark == BARS:
        marks = points.mark_bar(cursor="pointer", cornerRadiusEnd=2)
    else:
        dots = points.mark_point(filled=True, opacity=1, size=SIZE_OF_POINT, cursor="pointer")
        marks = dots.encode(shape=shapes_of(chart))
    layers = [marks.encode(tooltip=tooltip_of(chart))]
    if chart.points["low"].notna().any():
        ends = points.mark_rule(strokeWidth=1.2)
        layers.append(ends.encode(x=alt.X("low:Q"), x2="high:Q", color=alt.value(INK)))
    if chart.reference is not None:
        layers.append(rows_of(REFERENCE).mark_rule(color=SOFT).encode(x="value:Q"))
    return layers


def stacks(chart: Chart) -> list[alt.Chart]:
    """Draw lengths on top of each other beside names, and a mark at the total where known."""
    x = alt.X("value:Q", title=chart.y.label, stack="zero", axis=axis_of(chart.y, "y_ticks"))
    bars = (
        rows_of(POINT)
        .mark_bar(cursor="pointer")
        .encode(
            x=x,
            y=names_down(chart),
            color=colours_of(chart),
            order=alt.Order("order:Q"),
            tooltip=tooltip_of(chart),
        )
    )
    if "total" not in chart.points:
        return [bars]
    marks = rows_of(POINT).mark_tick(color=INK, thickness=2)
    return [bars, marks.encode(x="total:Q", y=names_down(chart))]


def cells(chart: Chart) -> list[alt.Chart]:
    """Draw a map whose shade is the value, with words in each cell."""
    across, down = alt.Axis(labelAngle=0, ticks=False), alt.Axis(ticks=False)
    x = alt.X("x:N", title=chart.x.label, sort=names_of(chart), axis=across)
    y = alt.Y("series:N", title=None, sort=chart.all_series, axis=down)
    places = rows_of(POINT).encode(x=x, y=y)
    shade = alt.Opacity("value:Q", legend=None, scale=alt.Scale(range=[0.08, 0.45], zero=False))
    rectangles = places.mark_rect(color=ACCENT, cursor="pointer")
    words = places.mark_text(lineBreak="\n", lineHeight=15, color=INK, baseline="top")
    shaded = rectangles.encode(opacity=shade, tooltip=tooltip_of(chart))
    return [shaded, words.encode(text="text:N")]

"""Figures of the page in Vega-Lite: charts, and the samples of a case.

Histograms and quantiles are of all samples. Times over iterations are downsampled if the page would
become too large: consecutive iterations are reduced to their minimum, median and maximum.
"""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import altair as alt
import numpy as np
import pandas as pd

from analysis.report.chart import (
    BARS,
    BYTES,
    CELLS,
    LINES,
    LOG,
    NAMES,
    PAGE_ROW,
    SCATTER,
    SECONDS,
    STACKS,
    Axis,
    Chart,
)
from analysis.shared.text import format_number
from benchkit.record import files
from benchkit.record.record import CaseRecord, Record
from benchkit.statistics.intervals import Array

Spec = dict[str, Any]
"""A specification of Vega-Lite as JSON."""
ROWS = "rows"
"""Name of the data set; its column `kind` is POINT, CURVE or REFERENCE."""
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
"""Markers as SVG paths; they distinguish series in black and white."""
NUM_COLOURS = 10
"""Custom properties `--series-0` and so on of page.css, for light and dark mode."""
INK, SOFT, ACCENT, CARD = "var(--ink)", "var(--ink-soft)", "var(--accent)", "var(--card)"
LABELS = {"": "digits(datum.value)", BYTES: "bytes(datum.value)", SECONDS: "seconds(datum.value)"}
"""Expressions of Vega that format a value; page.js defines their functions."""
SIZE_OF_POINT = 65
"""In square pixels."""


def colour(index: int) -> str:
    return f"var(--series-{index % NUM_COLOURS})"


def shape(index: int, mark: str = LINES) -> str:
    """Return the marker of a series; bars and stacks have squares in the legend."""
    return SHAPES[1 if mark in (BARS, STACKS) else index % len(SHAPES)]


def spec_of(chart: Chart) -> Spec:
    """Return the specification of a chart as JSON."""
    drawing = {LINES: draw_over_x, SCATTER: draw_over_x, CELLS: cells, STACKS: stacks}
    layers = drawing.get(chart.mark, draw_beside_names)(chart)
    shown: alt.LayerChart | alt.FacetChart = alt.layer(*layers, data=alt.NamedData(ROWS))
    if len(chart.panels) > 1:
        header = alt.Header(labelLimit=260)
        facet = alt.Facet("panel:N", title=None, sort=chart.panels, header=header)
        shown = shown.facet(facet=facet, columns=2).resolve_axis(x="independent")
        if not chart.is_shared:
            along = "y" if is_over_x(chart) else "x"
            shown = shown.resolve_scale(**{along: "independent"})  # type: ignore[arg-type]
    return with_ticks(shown)


def with_ticks(shown: alt.LayerChart | alt.FacetChart) -> Spec:
    """Return a specification whose ticks the page sets, without the shared configuration."""
    ticks = [alt.param(name=f"{name}_ticks", value=[]) for name in ("x", "y")]
    spec: Spec = shown.add_params(*ticks).to_dict(validate=False)  # tests do
    return {name: part for name, part in spec.items() if name not in ("config", "$schema")}


def filter_kind(kind: str) -> alt.Chart:
    chosen: alt.Chart = alt.Chart().transform_filter(alt.datum.kind == kind)
    return chosen


def scale_of(axis: Axis) -> alt.Scale:
    """Return a numeric scale; a logarithmic scale of bytes has base 2."""
    if axis.scale != LOG:
        return alt.Scale(zero=True)
    return alt.Scale(type="log", base=2 if axis.unit == BYTES else 10, nice=False, padding=12)


def axis_of(axis: Axis, ticks: str) -> alt.Axis:
    """Return a numeric axis; the page sets the ticks of a logarithmic one as a parameter."""
    values = alt.ExprRef(ticks) if axis.scale == LOG or ticks == "x_ticks" else alt.Undefined
    return alt.Axis(
        labelExpr=LABELS[axis.unit],
        values=values,
        tickCount=6,
        labelOverlap="greedy",
        labelSeparation=5,
    )


def colours_of(chart: Chart) -> alt.Color:
    """Return the colours of series; curves of no series, such as an ideal, are grey."""
    names = chart.all_series
    curves = [] if chart.curves is None else dict.fromkeys(chart.curves["series"])
    curve_names = [name for name in curves if name not in names]
    shades = [*(colour(chart.style_number(name)) for name in names), *(SOFT for _ in curve_names)]
    scale = alt.Scale(domain=[*names, *curve_names], range=shades)
    return alt.Color("series:N", legend=None, scale=scale)


def shapes_of(chart: Chart) -> alt.Shape:
    names = chart.all_series
    scale = alt.Scale(domain=names, range=[shape(chart.style_number(name)) for name in names])
    return alt.Shape("series:N", legend=None, scale=scale)


def tooltip_of(chart: Chart) -> list[alt.Tooltip]:
    """Return the tooltip of a point; the page formats its texts."""
    shown = [alt.Tooltip("panel:N")] if len(chart.panels) > 1 else []
    if len(chart.all_series) > 1:
        shown.append(alt.Tooltip("series:N"))
    x = alt.Tooltip("x_text:N", title=chart.x.label)
    return [*shown, x, alt.Tooltip("value_text:N", title=chart.y.label)]


def draw_over_x(chart: Chart) -> list[alt.Chart]:
    """Draw points over numbers or names, connected for LINES, with intervals and curves."""
    if chart.x.scale == NAMES:
        across = alt.Axis(labelAngle=0)
        x = alt.X("x:N", title=chart.x.label, sort=chart.names, axis=across)
    else:
        across = axis_of(chart.x, "x_ticks")
        x = alt.X("x:Q", title=chart.x.label, scale=scale_of(chart.x), axis=across)
    up = axis_of(chart.y, "y_ticks")
    y = alt.Y("value:Q", title=chart.y.label, scale=scale_of(chart.y), axis=up)
    points = filter_kind(POINT).encode(x=x, y=y, color=colours_of(chart))
    dots = points.mark_point(filled=True, opacity=1, size=SIZE_OF_POINT, cursor="pointer")
    curves = filter_kind(CURVE).mark_line(strokeDash=[5, 4], strokeWidth=1.2)
    layers = []
    if "band_low" in chart.points:
        bands = points.mark_area(opacity=0.15).encode(y=alt.Y("band_low:Q"), y2="band_high:Q")
        layers.append(bands)
    if chart.reference is not None:
        layers.append(filter_kind(REFERENCE).mark_rule(color=SOFT).encode(y="value:Q"))
    if chart.curves is not None:
        if "low" in chart.curves:
            shade = filter_kind(CURVE).mark_area(opacity=0.15)
            shade = shade.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colours_of(chart))
            layers.append(shade.encode(detail="part:N"))
        layers.append(curves.encode(x=x, y=y, color=colours_of(chart), detail="part:N"))
    if chart.points["low"].notna().any():
        layers.append(points.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"))
    if chart.mark == LINES:
        layers.append(points.mark_line(strokeWidth=1.8))
    return [*layers, dots.encode(shape=shapes_of(chart), tooltip=tooltip_of(chart))]


def y_of_names(chart: Chart) -> alt.Y:
    axis = alt.Axis(grid=False, ticks=False, domain=False)
    return alt.Y("x:N", title=None, sort=chart.names, axis=axis)


def draw_beside_names(chart: Chart) -> list[alt.Chart]:
    """Draw bars or dots with intervals beside names, so that labels are horizontal."""
    axis = axis_of(chart.y, "y_ticks")
    x = alt.X("value:Q", title=chart.y.label, scale=scale_of(chart.y), axis=axis)
    points = filter_kind(POINT).encode(x=x, y=y_of_names(chart), color=colours_of(chart))
    if chart.points.duplicated(["panel", "x"]).any():
        points = points.encode(yOffset=alt.YOffset("series:N", sort=chart.all_series))
    if chart.mark == BARS:
        marks = points.mark_bar(cursor="pointer", cornerRadiusEnd=2)
    else:
        dots = points.mark_point(filled=True, opacity=1, size=SIZE_OF_POINT, cursor="pointer")
        marks = dots.encode(shape=shapes_of(chart))
    layers = [marks.encode(tooltip=tooltip_of(chart))]
    if chart.points["low"].notna().any():
        intervals = points.mark_rule(strokeWidth=1.2)
        layers.append(intervals.encode(x=alt.X("low:Q"), x2="high:Q", color=alt.value(INK)))
    if chart.reference is not None:
        layers.append(filter_kind(REFERENCE).mark_rule(color=SOFT).encode(x="value:Q"))
    return layers


def stacks(chart: Chart) -> list[alt.Chart]:
    """Draw stacked bars beside names, and a mark at the total if known."""
    x = alt.X("value:Q", title=chart.y.label, stack="zero", axis=axis_of(chart.y, "y_ticks"))
    bars = (
        filter_kind(POINT)
        .mark_bar(cursor="pointer")
        .encode(
            x=x,
            y=y_of_names(chart),
            color=colours_of(chart),
            order=alt.Order("order:Q"),
            tooltip=tooltip_of(chart),
        )
    )
    if "total" not in chart.points:
        return [bars]
    marks = filter_kind(POINT).mark_tick(color=INK, thickness=2)
    return [bars, marks.encode(x="total:Q", y=y_of_names(chart))]


def cells(chart: Chart) -> list[alt.Chart]:
    """Draw a heat map with text in each cell."""
    across, down = alt.Axis(labelAngle=0, ticks=False), alt.Axis(ticks=False)
    x = alt.X("x:N", title=chart.x.label, sort=chart.names, axis=across)
    y = alt.Y("series:N", title=None, sort=chart.all_series, axis=down)
    places = filter_kind(POINT).encode(x=x, y=y)
    shade = alt.Opacity("value:Q", legend=None, scale=alt.Scale(range=[0.08, 0.45], zero=False))
    rectangles = places.mark_rect(color=ACCENT, cursor="pointer")
    words = places.mark_text(lineBreak="\n", lineHeight=15, color=INK, baseline="top")
    shaded = rectangles.encode(opacity=shade, tooltip=tooltip_of(chart))
    return [shaded, words.encode(text="text:N")]


MOST_SERIES = 100
"""Most series of a readable legend; the table has all."""
MOST_NAMES = 60
"""Most names on the axis of a figure that fits on a screen; the table has all."""


class AxisData(TypedDict):
    label: str
    names: bool
    log: bool
    unit: str


class FigureData(TypedDict):
    """Input of page.js for one chart."""

    title: str
    spec: Spec
    layout: str
    rows: dict[str, list[Any]]
    series: list[dict[str, str]]
    reference: float | None
    x: AxisData
    y: AxisData


def figure_of(chart: Chart) -> FigureData:
    return {
        "title": chart.title,
        "spec": spec_of(chart),
        "layout": "map" if chart.mark == CELLS else "over" if is_over_x(chart) else "beside",
        "rows": columns_of(chart),
        "series": legend_of(chart),
        "reference": chart.reference,
        "x": axis_data(chart.x),
        "y": axis_data(chart.y),
    }


def is_over_x(chart: Chart) -> bool:
    """Return whether values are drawn over settings, not beside names."""
    return chart.mark in (LINES, SCATTER)


def too_large(chart: Chart) -> str:
    """Return why a chart is too large for a figure; "" if it is not."""
    if len(chart.all_series) > MOST_SERIES:
        return f"{len(chart.all_series)} series; at most {MOST_SERIES} are drawn"
    count = chart.points["x"].nunique()
    if chart.x.scale == NAMES and count > MOST_NAMES:
        return f"{count} names; at most {MOST_NAMES} are drawn"
    return ""


def axis_data(axis: Axis) -> AxisData:
    names, log = axis.scale == NAMES, axis.scale == LOG
    return {"label": axis.label, "names": names, "log": log, "unit": axis.unit}


def columns_of(chart: Chart) -> dict[str, list[Any]]:
    """Return points, then curves, as columns; missing values are None."""
    parts = [chart.points.assign(kind=POINT)]
    if chart.curves is not None:
        parts.append(chart.curves.assign(kind=CURVE))
    rows = pd.concat([part.dropna(axis="columns", how="all") for part in parts], ignore_index=True)
    rows = rows.drop(columns=["device_name", "suite"], errors="ignore").rename(
        columns={PAGE_ROW: "row"}
    )
    rows = rows.astype(object)
    return {str(name): rows[name].where(rows[name].notna(), None).tolist() for name in rows}


def legend_of(chart: Chart) -> list[dict[str, str]]:
    """Return name, colour and marker of each series; [] if no legend is needed."""
    shown = [name for name in chart.all_series if (chart.points["series"] == name).any()]
    if not chart.has_legend or len(shown) < 2:
        return []
    style_numbers = {name: chart.style_number(name) for name in shown}
    return [
        {"name": name, "colour": colour(number), "shape": shape(number, chart.mark)}
        for name, number in style_numbers.items()
    ]


def describe(chart: Chart) -> str:
    """Describe a figure in words, for screen readers."""
    points = chart.points
    low, high = map(format_number, (points["value"].min(), points["value"].max()))
    parts = [f"{chart.title}. {len(points)} points; {chart.y.label} from {low} to {high}"]
    if chart.mark != CELLS:
        parts[0] += f", over {chart.x.label}"
        if len(chart.all_series) > 1:
            parts.append(f"{len(chart.all_series)} series: {', '.join(chart.all_series)}")
    if len(chart.panels) > 1:
        parts.append(f"{len(chart.panels)} panels: {', '.join(chart.panels)}")
    return "; ".join(parts) + "."


TIME = "seconds(datum.value)"
SCALE = alt.Scale(type="log", nice=False, padding=8)
"""Logarithmic, because single slow times would flatten all others on a linear axis."""


def sample_specs() -> dict[str, Spec]:
    """Return the specifications by name of their element on the page."""
    drawn = {"times": draw_over_iterations(), "histogram": histogram(), "ranks": draw_by_rank()}
    return {
        name: with_ticks(alt.layer(*layers, data=alt.NamedData(ROWS)))
        for name, layers in drawn.items()
    }


def draw_over_iterations() -> list[alt.Chart]:
    """Draw times over iterations: a dot per iteration, or median and range of several."""
    axis = alt.Axis(values=alt.ExprRef("y_ticks"), labelExpr=TIME)
    rows = alt.Chart().encode(
        x=alt.X(
            "x:Q",
            title="iteration",
            scale=alt.Scale(nice=False, padding=8),
            axis=alt.Axis(tickCount=8, labelOverlap="greedy"),
        ),
        y=alt.Y("value:Q", title="time", scale=SCALE, axis=axis),
    )
    band = rows.mark_area(color=ACCENT, opacity=0.25).encode(y=alt.Y("low:Q"), y2="high:Q")
    line = rows.mark_line(color=ACCENT, strokeWidth=1, opacity=0.3)
    dots = rows.mark_point(filled=True, color=ACCENT, size=SIZE_OF_POINT / 4, opacity=0.9)
    median = alt.Chart().mark_rule(color=INK, strokeDash=[4, 3]).encode(y="mean(median):Q")
    return [band, line, dots, median]


def histogram() -> list[alt.Chart]:
    axis = alt.Axis(values=alt.ExprRef("x_ticks"), labelExpr=TIME)
    bars = alt.Chart().mark_rect(color=ACCENT, stroke=CARD, strokeWidth=0.5)
    median = alt.Chart().mark_rule(color=INK, strokeDash=[4, 3]).encode(x="mean(median):Q")
    drawn = bars.encode(
        x=alt.X("low:Q", title="time", scale=SCALE, axis=axis),
        x2="high:Q",
        y=alt.Y("count:Q", title="iterations"),
        y2=alt.datum(0),
    )
    return [drawn, median]


def draw_by_rank() -> list[alt.Chart]:
    """Draw the quantiles of each rank: 5 to 95 % as a line, 25 to 75 % as a bar, and the median."""
    axis = alt.Axis(values=alt.ExprRef("x_ticks"), labelExpr=TIME)
    down = alt.Axis(grid=False, ticks=False, domain=False)
    rows = alt.Chart().encode(y=alt.Y("rank:N", title="rank", sort=None, axis=down))
    start = alt.X("p5:Q", title="time", scale=SCALE, axis=axis)
    return [
        rows.mark_rule(color=SOFT).encode(x=start, x2="p95:Q"),
        rows.mark_bar(color=ACCENT, opacity=0.5, height={"band": 0.6}).encode(
            x="p25:Q", x2="p75:Q"
        ),
        rows.mark_tick(color=INK, thickness=2).encode(x="p50:Q"),
    ]


NUM_BYTES = 1_600_000
"""Size of all samples on a page, as text."""
MOST_VALUES, FEWEST_VALUES = 3000, 60
"""Limits of the number of times per case, whatever its share of NUM_BYTES."""
NUM_BINS, SPARK_HEIGHT = 32, 20
QUANTILES = (0, 5, 25, 50, 75, 95, 100)
"""Quantiles of each rank in percent."""
MOST_RANKS = 64
"""Most ranks shown, those with the longest medians."""
OVERHEAD_BYTES = 200
"""Size of a case without its times and quantiles."""


def records_of(table: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Record]]:
    """Read each record again, because tables have no samples; yield it with its rows.

    Rows are in the order of the record's cases; a record without cases has one row. Records that
    are no longer readable, or have changed, are skipped.
    """
    for path, rows in table.groupby("path", sort=False):
        try:
            record = files.read(Path(str(path)))
        except ValueError:
            continue
        if len(rows) == max(1, len(record.cases)):
            yield rows, record


class PackedSamples(TypedDict):
    """The samples of a case.

    Attributes:
        n: number of iterations.
        step: number of iterations per entry of `times`.
        times: seconds, `as_text`; with a step above 1 all minima, then medians, then maxima.
        low, high: limits of a histogram with bins of equal width in the logarithm.
        ranks: numbers of the shown ranks, of `num_ranks`.
        quantiles: QUANTILES of each of these ranks, `as_text`.
    """

    median: float
    n: int
    step: int
    times: str
    low: float
    high: float
    counts: list[int]
    ranks: list[int]
    num_ranks: int
    quantiles: str


Packed = dict[str, PackedSamples]
"""By PAGE_ROW."""


def samples_of(table: pd.DataFrame) -> Packed:
    """Return the samples of all measured cases."""
    measured = table[table["status"] == "ok"]
    num_values = values_per_case(len(measured), measured["world_size"].max())
    packed: Packed = {}
    for rows, record in records_of(table[table["path"].isin(measured["path"])]):
        for row, median_s, case in zip(rows[PAGE_ROW], rows["median_s"], record.cases, strict=True):
            if case.status == "ok":
                packed[row] = pack_samples(case, median_s, num_values)
    return packed


def values_per_case(num_cases: int, num_ranks: float) -> int:
    """Return the number of times per case such that all fit into NUM_BYTES."""
    if not num_cases:
        return MOST_VALUES
    room = NUM_BYTES / num_cases - OVERHEAD_BYTES
    numbers = room * 3 / 4 / 4  # Base64 has four letters for three bytes.
    left = numbers - len(QUANTILES) * min(num_ranks, MOST_RANKS)
    return int(np.clip(left, FEWEST_VALUES, MOST_VALUES))


def pack_samples(case: CaseRecord, median_s: float, num_values: int) -> PackedSamples:
    samples, times = case.samples.calls_s, case.samples.times
    step, kept = downsample(times, num_values)
    low, high = float(times.min()), float(times.max())
    counts = [len(times)]
    if high > low:
        counts = np.histogram(times, np.geomspace(low, high, NUM_BINS + 1))[0].tolist()
    medians = np.median(samples, axis=1)
    ranks = np.sort(np.argsort(-medians, kind="stable")[:MOST_RANKS])
    return {
        "median": median_s,
        "n": len(times),
        "step": step,
        "times": as_text(kept),
        "low": low,
        "high": high,
        "counts": counts,
        "ranks": ranks.tolist(),
        "num_ranks": len(samples),
        "quantiles": as_text(np.percentile(samples[ranks], QUANTILES, axis=1).T),
    }


def downsample(times: Array, num_values: int) -> tuple[int, Array]:
    """Reduce times to about `num_values`.

    Returns:
        The number of iterations per entry, and the times; with more than one iteration per entry
        minima, medians and maxima: [3][entry].
    """
    if len(times) <= num_values:
        return 1, times
    step = -(-len(times) // max(1, num_values // 3))
    rows = np.full(-(-len(times) // step) * step, np.nan)
    rows[: len(times)] = times
    parts = rows.reshape(-1, step)
    return step, np.array(
        [reduce(parts, axis=1) for reduce in (np.nanmin, np.nanmedian, np.nanmax)]
    )


def as_text(values: Array) -> str:
    """Encode numbers as little-endian float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def sparkline(counts: Sequence[int]) -> str:
    """Return the outline of a histogram as an SVG path, width 1 per bin and height SPARK_HEIGHT."""
    heights = [round(SPARK_HEIGHT * (1 - count / max(counts))) for count in counts]
    steps = "".join(f"V{top}h{NUM_BINS // len(counts)}" for top in heights)
    return f"M0,{SPARK_HEIGHT}{steps}V{SPARK_HEIGHT}Z"

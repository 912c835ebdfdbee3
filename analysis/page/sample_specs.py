"""Specifies, in Vega-Lite, the three figures that show the samples of a case."""

from typing import Any

import altair as alt

from analysis.page.specs import ACCENT, CARD, INK, ROWS, SIZE_OF_POINT, SOFT

TIME = "seconds(datum.value)"
SCALE = alt.Scale(type="log", nice=False, padding=8)
"""Times are positive, and single slow ones would flatten all others on a linear axis."""


def sample_specs() -> dict[str, dict[str, Any]]:
    """Return the specifications by the names of their places on the page."""
    drawn = {"times": over_iterations(), "histogram": histogram(), "ranks": by_rank()}
    return {name: as_spec(layers) for name, layers in drawn.items()}


def as_spec(layers: list[alt.Chart]) -> dict[str, Any]:
    ticks = [alt.param(name=f"{name}_ticks", value=[]) for name in ("x", "y")]
    spec: dict[str, Any] = alt.layer(*layers, data=alt.NamedData(ROWS)).add_params(*ticks).to_dict()
    return {name: part for name, part in spec.items() if name not in ("config", "$schema")}


def over_iterations() -> list[alt.Chart]:
    """Draw times over iterations: a dot for each, or the median and the range of several."""
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


def by_rank() -> list[alt.Chart]:
    """Draw the quantiles of each rank: 5 to 95 % as a line, 25 to 75 % as a bar, the median."""
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

"""Charts of implementations of tensor-parallel products: times, speedups, and maps over shapes."""

import pandas as pd

from analysis.report.chart import (
    BARS,
    CELLS,
    NAMES,
    TIMES,
    Axis,
    Chart,
    Charts,
    chart_points,
    group_charts,
)
from analysis.suites.tensor_parallel.summary import SHAPE, groups_of, shape_of, title_of
from analysis.table.repetitions import describe_error_bars, fill_with_ranges
from benchkit.suites.tensor_parallel.config import AUTO, BOUNDS, IMPLEMENTATION

MOST_PANELS = 6  # more shapes are only shown in maps
LIMIT = "share of the limit [%]"
LIMIT_NOTE = (
    "of the fastest without auto; the limit is the longer of its computation and its communication "
    "alone"
)
TIME = "time of one product [ms]"
WHOLE, PART = "implementation", "component"


def charts_of_suite(table: pd.DataFrame, suite: str) -> Charts:
    return group_charts(suite, groups_of(table, suite), charts_of)


def charts_of(rows: pd.DataFrame) -> Charts:
    rows, title = fill_with_ranges(rows), title_of(rows)
    charts: Charts = {}
    rivals = rows[~rows[IMPLEMENTATION].isin(BOUNDS)]
    if rows.groupby(SHAPE).ngroups <= MOST_PANELS:
        is_part = rows[IMPLEMENTATION].isin(BOUNDS)
        typical = rows.groupby("name")["median_s"].transform("median")
        in_order = rows.assign(is_part=is_part, typical=typical)
        in_order = in_order.sort_values([*SHAPE, "is_part", "typical"])
        charts["time"] = bars(in_order, f"{title}: time", TIMES, TIME, 1e3)
    fixed = rivals[rivals[IMPLEMENTATION] != AUTO]
    if fixed["limit_share"].notna().any():
        head = f"{title}: how near the limit"
        charts["limit"] = shape_map(limit_cells(fixed), head, LIMIT, LIMIT_NOTE)
    return charts


def bars(
    rows: pd.DataFrame,
    title: str,
    values: tuple[str, ...],
    label: str,
    scale: float,
    reference: float | None = None,
) -> Chart:
    """Return a chart with a bar and its interval per implementation, and a panel per shape."""
    shapes = [shape_of(shape) for shape in rows[SHAPE].itertuples(index=False)]
    kinds = rows[IMPLEMENTATION].isin(BOUNDS).map({True: PART, False: WHOLE})
    has_parts = (kinds == PART).any()
    parts = f"; {PART}: its computation or its communication, alone" if has_parts else ""
    return Chart(
        mark=BARS,
        title=title,
        note=f"median, {describe_error_bars(rows, values[1])}{parts}",
        x=Axis("implementation", NAMES),
        y=Axis(label),
        points=chart_points(rows, rows["name"], values, kinds, shapes, scale),
        series=(WHOLE, PART) if has_parts else (WHOLE,),
        reference=reference,
        is_shared=False,
    )


def shape_map(cells: pd.DataFrame, title: str, label: str, note: str) -> Chart:
    """Return a map of `value` and `text`, with m down, n and k across."""
    cells = cells.sort_values(SHAPE)
    across = [f"{n:.0f}, {k:.0f}" for n, k in zip(cells["n"], cells["k"], strict=True)]
    down = cells["m"].map("m {:.0f}".format)
    return Chart(
        mark=CELLS,
        title=title,
        note=f"{label}; {note}",
        x=Axis("n, k", NAMES),
        y=Axis(label),
        points=chart_points(cells, across, ("value",), down, text=cells["text"]),
    )


def limit_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest row of each shape with its share of the limit as `value` and `text`."""
    rows = rows[rows["limit_share"].notna()]
    best = rows.loc[rows.groupby(SHAPE)["median_s"].idxmin()]
    share = 100 * best["limit_share"]
    return best.assign(value=share, text=[f"{value:.0f} %" for value in share])

"""Shows implementations of tensor-parallel products: times, speedups, and maps over shapes."""

import pandas as pd

from analysis.repetitions import bars_of, with_ranges
from analysis.report.chart import BARS, CELLS, NAMES, Axis, Chart, Charts, points_of
from analysis.speedup import Baseline
from analysis.suites.tensor_parallel.plot import (
    BEST_NOTE,
    LIMIT,
    LIMIT_NOTE,
    MOST_PANELS,
    TIME,
    best_cells,
    limit_cells,
)
from analysis.suites.tensor_parallel.table import SHAPE, baselines_of, groups_of, shape_of, title_of
from benchkit.suites.tensor_parallel.names import AUTO, BOUNDS, IMPLEMENTATION

WHOLE, PART = "whole product", "a part alone"
TIMES = ("median_s", "ci_low_s", "ci_high_s")
SPEEDUPS = ("paired_speedup", "paired_speedup_low", "paired_speedup_high")


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return figures per suite and group of rows that differ in shape and implementation alone."""
    charts: Charts = {}
    for suite, suffix, rows in groups_of(table):
        for name, chart in charts_of(with_ranges(rows), title_of(rows)).items():
            charts[f"{suite}_{name}{suffix}"] = chart.of_group(suffix)
    return charts


def charts_of(rows: pd.DataFrame, title: str) -> Charts:
    charts: Charts = {}
    rivals = rows[~rows[IMPLEMENTATION].isin(BOUNDS)]
    compared = rivals[rivals["paired_speedup"].notna()]
    base = baselines_of(rivals)
    if rows.groupby(SHAPE).ngroups <= MOST_PANELS:
        charts["time"] = bars(rows, f"{title}: time", TIMES, TIME, 1e3)
        if not compared.empty:
            head, label = f"{title}: speedup over {base}", f"time of {base} / time"
            charts["speedup"] = bars(compared, head, SPEEDUPS, label, 1.0, reference=1)
    if not compared.empty:
        label, head = f"speedup over {base}", f"{title}: the fastest"
        charts["best"] = shape_map(best_cells(rivals), head, label, BEST_NOTE)
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
    """Show a bar with its interval per implementation, a panel per shape."""
    shapes = [shape_of(shape) for shape in rows[SHAPE].itertuples(index=False)]
    kinds = rows[IMPLEMENTATION].isin(BOUNDS).map({True: PART, False: WHOLE})
    return Chart(
        mark=BARS,
        title=title,
        note=f"median, {bars_of(rows, values[1])}",
        x=Axis("implementation", NAMES),
        y=Axis(label),
        points=points_of(rows, rows["name"], values, kinds, shapes, scale),
        series=(WHOLE, PART) if (kinds == PART).any() else (WHOLE,),
        reference=reference,
        is_shared=False,
    )


def shape_map(cells: pd.DataFrame, title: str, label: str, note: str) -> Chart:
    """Show a map of `value` and `text`, with m down, n and k across."""
    cells = cells.sort_values(SHAPE)
    across = [f"{n:.0f}, {k:.0f}" for n, k in zip(cells["n"], cells["k"], strict=True)]
    down = cells["m"].map("m {:.0f}".format)
    return Chart(
        mark=CELLS,
        title=title,
        note=f"{label}; {note}",
        x=Axis("n, k", NAMES),
        y=Axis(label),
        points=points_of(cells, across, ("value",), down, text=cells["text"]),
    )

"""Shows the look-up table of matmul_lut: time over size for each share, performance over share."""

import pandas as pd

from analysis.repetitions import bars_of, by_mechanism, over_runs, with_ranges
from analysis.report.chart import LINES, LOG, Axis, Chart, Charts, points_of
from analysis.sides import Baseline
from analysis.suites.matmul_lut.table import SUITE, of_single_ranks, shares
from benchkit.api.lut import SIZE


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return two figures for each group of rows that differ in size and share alone."""
    charts: Charts = {}
    rows = of_single_ranks(table)
    if rows.empty:
        return charts
    for suffix, group in by_mechanism(rows, SIZE, "slowdown"):
        points = with_ranges(over_runs(group.assign(share=shares(group)), "share", SIZE))
        charts[f"{SUITE}_time{suffix}"] = time_over_size(points).of_group(suffix)
        if points["share"].nunique() > 1:
            charts[f"{SUITE}_share{suffix}"] = performance_over_share(points).of_group(suffix)
    return charts


def time_over_size(rows: pd.DataFrame) -> Chart:
    rows = rows.sort_values(["share", SIZE], ascending=[False, True])
    times = ("median_s", "ci_low_s", "ci_high_s")
    return Chart(
        mark=LINES,
        title=f"matmul time by share of the device, {rows['dtype'].iloc[0]}",
        note=f"median, {bars_of(rows)}",
        x=Axis("size n of an n × n matmul", LOG),
        y=Axis("time of one matmul [ms]", LOG),
        points=points_of(rows, rows[SIZE], times, rows["share"].map("{:g} %".format), scale=1e3),
    )


def performance_over_share(rows: pd.DataFrame) -> Chart:
    """Show the time at the largest share over that at each, so that the ideal is the share."""
    rows = with_performance(rows).sort_values([SIZE, "share"])
    whole = rows["share"].max()
    ideal = pd.DataFrame({"panel": "", "series": "ideal", "x": [0, whole], "value": [0, 1]})
    sizes = rows[SIZE].map("n = {:.0f}".format)
    return Chart(
        mark=LINES,
        title=f"What a share is worth, {rows['dtype'].iloc[0]}",
        note=note_on(rows),
        x=Axis("share of the device asked for [%]"),
        y=Axis(f"performance, of that at {whole:g} %"),
        points=points_of(rows, rows["share"], ("performance",), sizes),
        curves=ideal,
    )


def with_performance(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the time of each size at the largest share over its time at the row's share.

    It is NaN where the size was not measured at the largest share.
    """
    full = rows[rows["share"] == rows["share"].max()].drop_duplicates(SIZE).set_index(SIZE)
    return rows.assign(performance=rows[SIZE].map(full["median_s"]) / rows["median_s"])


def note_on(rows: pd.DataFrame) -> str:
    several = "; of medians over runs" if rows["run"].nunique() > 1 else ""
    return f"dashed: performance = share{several}"

"""Plots the look-up table of matmul_lut: time over size for each share, performance over share."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis.repetitions import bars_of, by_mechanism, over_runs, with_ranges
from analysis.report import style
from analysis.report.chart import note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.matmul_lut.table import SUITE, measured, shares
from benchkit.api.lut import SIZE

MOST_TICKS = 40
"""Sizes named on the axis at most; of more sizes, every second, third, … is named."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw two figures for each group of rows that differ in size and share alone."""
    rows = measured(table)
    drawings = Drawings()
    if rows.empty:
        return drawings
    for suffix, group in by_mechanism(rows, SIZE, "slowdown"):
        points = with_ranges(over_runs(group.assign(share=shares(group)), "share", SIZE))
        drawings[f"{SUITE}_time{suffix}.png"] = partial(time_over_size, points)
        if points["share"].nunique() > 1:
            drawings[f"{SUITE}_share{suffix}.png"] = partial(performance_over_share, points)
    return drawings


def time_over_size(rows: pd.DataFrame) -> Figure:
    figure, (axis,) = style.panels(1)
    by_share = sorted(rows.groupby("share"), key=lambda item: -item[0])
    for index, (share, line) in enumerate(thinned(by_share)):
        line = line.sort_values(SIZE)
        times = line[["median_s", "ci_low_s", "ci_high_s"]] * 1e3
        bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
        label = f"{share:g} %"
        axis.errorbar(line[SIZE], times["median_s"], bars, label=label, **style.look(index))
    axis.set_xscale("log", base=2)
    sizes = sorted(rows[SIZE].unique())
    shown = sizes[:: -(-len(sizes) // MOST_TICKS)]
    axis.set_xticks(shown, [f"{size:.0f}" for size in shown])
    style.log_values(axis)
    axis.set_xlabel("size n of an n × n matmul")
    axis.set_ylabel("time of one matmul [ms]")
    style.legend(axis)
    title = f"matmul time by share of the device, {rows['dtype'].iloc[0]}"
    note = f"median, {bars_of(rows)}{note_thinned(by_share, 'shares')}"
    style.caption(figure, title, note, rows)
    return figure


def performance_over_share(rows: pd.DataFrame) -> Figure:
    """Plot time at the largest share over time at each, so that the ideal is the share itself."""
    figure, (axis,) = style.panels(1)
    whole = rows["share"].max()
    axis.plot([0, whole], [0, 1], color="black", linewidth=1, linestyle="--", label="ideal")
    measured = with_performance(rows)
    by_size = list(measured.groupby(SIZE))
    for index, (size, line) in enumerate(thinned(by_size)):
        line = line.sort_values("share").dropna(subset=["performance"])
        if not line.empty:
            label = f"n = {size:.0f}"
            axis.errorbar(line["share"], line["performance"], label=label, **style.look(index))
    axis.set_xlabel("share of the device asked for [%]")
    axis.set_ylabel(f"performance, of that at {whole:g} %")
    axis.set_ylim(bottom=0)
    style.legend(axis)
    note = note_on(rows) + note_thinned(by_size, "sizes")
    style.caption(figure, f"What a share is worth, {rows['dtype'].iloc[0]}", note, rows)
    return figure


def with_performance(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the time of each size at the largest share over its time at the row's share.

    It is NaN where the size was not measured at the largest share.
    """
    full = rows[rows["share"] == rows["share"].max()].drop_duplicates(SIZE).set_index(SIZE)
    return rows.assign(performance=rows[SIZE].map(full["median_s"]) / rows["median_s"])


def note_on(rows: pd.DataFrame) -> str:
    several = "; of medians over runs" if rows["run"].nunique() > 1 else ""
    return f"dashed: performance = share{several}"

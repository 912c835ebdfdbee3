"""The look-up table of matmul_lut: time over size for each share, and what a share is worth."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.groups import by_mechanism
from analysis.repetitions import over_runs
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.suites.matmul_lut.table import SUITE, measured, shares

MOST_TICKS = 40
"""Sizes named on the axis; of more, every second, third, … one."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Two figures for what is alike but for size and share."""
    rows, drawings = measured(table), Drawings()
    for suffix, group in by_mechanism(rows, "size", "slowdown") if len(rows) else []:
        points = with_ranges(over_runs(group.assign(share=shares(group)), "share", "size"))
        drawings[f"{SUITE}_time{suffix}.png"] = partial(time_over_size, points)
        if points["share"].nunique() > 1:
            drawings[f"{SUITE}_share{suffix}.png"] = partial(performance_over_share, points)
    return drawings


def time_over_size(rows: pd.DataFrame) -> Figure:
    figure, (axis,) = style.panels(1)
    for index, (share, line) in enumerate(sorted(rows.groupby("share"), key=lambda item: -item[0])):
        line = line.sort_values("size")
        times = line[["median_s", "ci_low_s", "ci_high_s"]] * 1e3
        bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
        axis.errorbar(line["size"], times["median_s"], bars, label=f"{share:g} %", **style.look(index))
    axis.set_xscale("log", base=2)
    sizes = sorted(rows["size"].unique())
    shown = sizes[:: -(-len(sizes) // MOST_TICKS)]
    axis.set_xticks(shown, [f"{size:.0f}" for size in shown])
    style.log_values(axis)
    axis.set_xlabel("size n of an n × n matmul")
    axis.set_ylabel("time of one matmul [ms]")
    style.legend(axis)
    title = f"matmul time by share of the device, {rows['dtype'].iloc[0]}"
    style.caption(figure, title, f"median, {bars_of(rows)}", rows)
    return figure


def performance_over_share(rows: pd.DataFrame) -> Figure:
    """Time at the largest share over time at each, so that the ideal is the share itself."""
    figure, (axis,) = style.panels(1)
    whole = rows["share"].max()
    axis.plot([0, whole], [0, 1], color="black", linewidth=1, linestyle="--", label="ideal")
    for index, (size, line) in enumerate(rows.groupby("size")):
        line = line.sort_values("share")
        full_s = line.loc[line["share"] == whole, "median_s"]
        if not full_s.empty:
            axis.errorbar(
                line["share"], full_s.iloc[0] / line["median_s"], label=f"n = {size:.0f}", **style.look(index)
            )
    axis.set_xlabel("share of the device asked for [%]")
    axis.set_ylabel(f"performance, of that at {whole:g} %")
    axis.set_ylim(bottom=0)
    style.legend(axis)
    several = "; of medians over runs" if rows["run"].nunique() > 1 else ""
    note = f"dashed: performance = share{several}"
    style.caption(figure, f"What a share is worth, {rows['dtype'].iloc[0]}", note, rows)
    return figure

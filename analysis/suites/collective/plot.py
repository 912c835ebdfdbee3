"""Measured times of collectives over sizes, with the fitted lines drawn over them."""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.suites.collective.fit import FAR_OFF
from analysis.suites.collective.table import Series, groups_of


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """A panel per collective, a line per number of ranks."""
    return {f"link{suffix}.png": partial(figure_of, series) for suffix, series in groups_of(table)}


def figure_of(series: list[Series]) -> Figure:
    names = list(dict.fromkeys(each.collective for each in series))
    counts = sorted({each.world_size for each in series})
    figure, axes = style.panels(len(names))
    for name, axis in zip(names, axes, strict=True):
        for each in series:
            if each.collective == name:
                draw_series(axis, each, counts.index(each.world_size))
        axis.set_title(name)
        finish(axis)
    for axis in axes[:: min(3, len(axes))]:
        axis.set_ylabel("time of one call")
    style.shared_legend(figure, max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[0])))
    measured = pd.concat([each.rows for each in series])
    what = (
        f"median, {bars_of(measured)}; dashed: fitted latency + bytes / bandwidth, shaded: its 95 % interval; "
        f"circled: more than {FAR_OFF:.0%} off"
    )
    style.caption(figure, "Collectives: time over payload", what, measured)
    return figure


def draw_series(axis: Axes, series: Series, index: int) -> None:
    times = with_ranges(series.rows)[["median_s", "ci_low_s", "ci_high_s"]].astype(float)
    bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
    label = f"{series.world_size} ranks"
    axis.errorbar(series.sizes, times["median_s"], bars, linestyle="", label=label, **style.look(index))
    for line, stop in zip(series.fit.lines, [each.low_bytes for each in series.fit.lines[1:]] + [None], strict=True):
        start = line.low_bytes or min(series.sizes)
        along = np.geomspace(start, stop or max(series.sizes), 50)
        colour = f"C{index % 10}"
        axis.plot(along, [line.seconds(size) for size in along], "--", color=colour, linewidth=1)
        ends = np.array([line.interval(1, size) or (np.nan, np.nan) for size in along])
        axis.fill_between(along, ends[:, 0], ends[:, 1], color=colour, alpha=0.15, linewidth=0)
    far = [abs(error) > FAR_OFF for error in series.errors]
    marked = [(size, time) for size, time, off in zip(series.sizes, series.times_s, far, strict=True) if off]
    if marked:
        axis.plot(*zip(*marked, strict=True), "o", color="black", fillstyle="none", markersize=11)


def finish(axis: Axes) -> None:
    style.log_bytes(axis, 1)
    axis.set_xlabel("payload")
    style.log_values(axis, style.readable_time)

"""Plots the times of collectives over payloads, with the fitted lines."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.repetitions import bars_of, titled, with_ranges
from analysis.report import style
from analysis.report.chart import note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.collective.fit import FAR_OFF
from analysis.suites.collective.table import Series, groups_of

TITLE = "Collectives: time over payload"
MARGIN = 2.0
"""Factor from the outermost times to the ends of the axis; intervals may go on beyond it."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw a figure per group: a panel per collective, a line per number of ranks."""
    return {
        f"link{suffix}.png": partial(figure_of, series, titled(TITLE, suffix))
        for suffix, series in groups_of(table)
    }


def figure_of(series: list[Series], title: str) -> Figure:
    names = list(dict.fromkeys(one.collective for one in series))
    counts = sorted({one.world_size for one in series})
    shown = thinned(counts)
    figure, axes = style.panels(len(names))
    for name, axis in zip(names, axes, strict=True):
        for one in series:
            if one.collective == name and one.world_size in shown:
                draw_series(axis, one, shown.index(one.world_size))
        axis.set_title(name)
        finish(axis, np.concatenate([one.times_s for one in series]))
    for axis in axes[:: min(3, len(axes))]:
        axis.set_ylabel("time of one call")
    style.shared_legend(figure, max(axes, key=num_labels))
    measured = pd.concat([one.rows for one in series])
    what = (
        f"median, {bars_of(measured)}; dashed: fitted latency + bytes / bandwidth, "
        f"shaded: its 95 % interval above 0; circled: more than {FAR_OFF:.0%} off"
        f"{note_thinned(counts, 'numbers of ranks')}"
    )
    style.caption(figure, title, what, measured)
    return figure


def num_labels(axis: Axes) -> int:
    return len(axis.get_legend_handles_labels()[0])


def draw_series(axis: Axes, series: Series, index: int) -> None:
    """Draw the measured times, the fit, and circles around times far from it."""
    times = with_ranges(series.rows)[["median_s", "ci_low_s", "ci_high_s"]].astype(float)
    bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
    look = style.look(index)
    label = f"{series.world_size} ranks"
    axis.errorbar(series.sizes, times["median_s"], bars, linestyle="", label=label, **look)
    draw_fit(axis, series, f"C{index % 10}")
    points = zip(series.sizes, series.times_s, series.errors, strict=True)
    far = [(size, time) for size, time, error in points if abs(error) > FAR_OFF]
    if far:
        axis.plot(*zip(*far, strict=True), "o", color="black", fillstyle="none", markersize=11)


def draw_fit(axis: Axes, series: Series, colour: str) -> None:
    """Draw each line of the fit, dashed, with its interval shaded.

    An interval that reaches 0, which a logarithmic axis cannot show, is left out.
    """
    for line, (along, times_s) in zip(series.fit.lines, fitted(series), strict=True):
        axis.plot(along, times_s, "--", color=colour, linewidth=1)
        ends = np.array([line.interval(1, size) or (np.nan, np.nan) for size in along])
        ends[ends[:, 0] <= 0] = np.nan
        axis.fill_between(along, ends[:, 0], ends[:, 1], color=colour, alpha=0.15, linewidth=0)


def fitted(series: Series) -> Iterator[tuple[list[float], list[float]]]:
    """Yield payloads along each line of the fit, and the fitted times in seconds."""
    starts = [line.low_bytes or min(series.sizes) for line in series.fit.lines]
    stops = [*starts[1:], max(series.sizes)]
    for line, start, stop in zip(series.fit.lines, starts, stops, strict=True):
        along = np.geomspace(start, stop, 50).tolist()
        yield along, [line.seconds(size) for size in along]


def finish(axis: Axes, times_s: np.ndarray) -> None:
    axis.set_ylim(times_s.min() / MARGIN, times_s.max() * MARGIN)
    style.log_bytes(axis, 1)
    axis.set_xlabel("payload")
    style.log_values(axis, style.readable_time)

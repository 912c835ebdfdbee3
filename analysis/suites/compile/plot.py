"""Plots the time of all calls so far over their number, with the calls at which compiling pays."""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.discover import Drawings
from analysis.report import style
from analysis.sides import Baseline
from analysis.suites.compile.table import ESTIMATED, Curve, Group, comparisons, groups
from benchkit.record.naming import readable_time
from benchkit.statistics.intervals import Array

FARTHEST = 1000.0
"""An estimate beyond this multiple of the calls that were measured is not drawn."""
NOTE = (
    "each line: the sum of all calls so far, on the slowest rank; dashed: with later calls as long "
    "as the median of the steady ones; circle: compiling has paid"
)


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw a figure for each group of comparable points."""
    return {f"compile{group.suffix}.png": partial(figure_of, group) for group in groups(table)}


def figure_of(group: Group) -> Figure:
    figure, (axis,) = style.panels(1, width=6.4, height=4.2)
    crossings = {
        curve.name: found.call
        for curve, found in comparisons(group)
        if found and found.call and found.call <= FARTHEST * len(curve.times)
    }
    estimated = [
        found.call
        for curve, found in comparisons(group)
        if found and found.outcome == ESTIMATED and curve.name in crossings and found.call
    ]
    end = max(estimated, default=0) * 1.5
    for index, curve in enumerate(group.curves):
        draw_curve(axis, curve, end, index)
        if call := crossings.get(curve.name):
            at = sums(curve, [call])
            axis.scatter([call], at, s=90, facecolor="white", edgecolor=f"C{index}", zorder=5)
    style.log_sizes(axis, group.curves[0].times.tolist())
    style.log_values(axis, readable_time)
    axis.set_xlabel("calls")
    axis.set_ylabel("time of all calls so far")
    style.legend(axis)
    suffix = f" ({group.suffix.strip('_')})" if group.suffix else ""
    rows = pd.DataFrame([curve.row for curve in group.curves])
    style.caption(figure, f"When compiling pays: {group.title}{suffix}", NOTE, rows)
    return figure


def draw_curve(axis: Axes, curve: Curve, end: float, index: int) -> None:
    """Draw the calls that were measured, and with dashes later ones up to the call `end`."""
    number = len(curve.times)
    color = f"C{index % 10}"
    calls = np.arange(1, number + 1)
    every = np.unique(np.geomspace(1, number, 12).astype(int)) - 1
    marker = style.MARKERS[index % len(style.MARKERS)]
    axis.plot(
        calls, np.cumsum(curve.times), color=color, label=curve.name, marker=marker,
        markevery=list(every), markersize=5,
    )  # fmt: skip
    if end > number:
        later = np.geomspace(number, end, 50)
        axis.plot(later, sums(curve, later), color=color, linestyle="--", linewidth=1)


def sums(curve: Curve, calls: "list[int] | Array") -> Array:
    """Return the seconds of the first calls, of several numbers of calls.

    Calls beyond those that were measured take the median of the steady ones.
    """
    known, number = np.cumsum(curve.times), len(curve.times)
    asked = np.asarray(calls, dtype=float)
    within = known[np.minimum(asked, number).astype(int) - 1]
    return np.asarray(within + np.maximum(asked - number, 0) * curve.steady_s)

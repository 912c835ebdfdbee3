"""Plots speedup or scaling efficiency of auto_shard over the number of devices."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.repetitions import bars_of
from analysis.report import style
from analysis.report.chart import note_thinned, thinned
from analysis.suites.auto_shard.rows import LIMITS, Group, amdahl, serial_share
from analysis.suites.auto_shard.table import SCOPES, SHOWN
from analysis.text import format_settings
from benchkit.suites.auto_shard.names import RANKS, SCOPE, SHARDING, WEAK

SPEEDUP = ("speedup", *LIMITS)
EFFICIENCY = ("efficiency", "efficiency_low", "efficiency_high")
FEWEST_FOR_FIT = 2
"""Speedups that a fit needs: a law with one unknown goes through any single one."""
FEW_TIMES = 4
"""Ratio of the most to the fewest devices up to which the axis is linear; beyond, logarithmic."""


def scaling(group: Group) -> Figure:
    """Plot a line per workload over the devices, a panel per scope."""
    rows = scaling_rows(group)
    weak = is_weak(rows)
    scopes = [scope for scope in SCOPES if scope in set(rows[SCOPE])]
    figure, axes = style.panels(len(scopes))
    for scope, axis in zip(scopes, axes, strict=True):
        draw_lines(axis, rows, scope, weak)
        limit(axis, rows, weak)
        axis.set_title(scope)
        axis.set_xlabel("devices")
    # Scales come last, because a logarithmic axis that others share collapses around one value.
    for axis in axes:
        over_devices(axis, group.counts, weak)
    axes[0].set_ylabel("scaling efficiency [%]" if weak else "speedup")
    style.shared_legend(figure, axes[-1])
    note = note_on(group, rows) + note_thinned(workloads_of(rows), "workloads")
    explain(figure, title_of(group, weak), note, rows)
    return figure


def title_of(group: Group, weak: bool) -> str:
    return f"{'Weak' if weak else 'Strong'} scaling, sharding {group.main}"


def note_on(group: Group, rows: pd.DataFrame) -> str:
    note = f"over the fewest devices; median of paired blocks, {bars_of(rows, SPEEDUP[1])}"
    has_fit = not is_weak(rows) and len(group.counts) > FEWEST_FOR_FIT
    return f"{note}; dashed: Amdahl's law, fitted" if has_fit else note


def scaling_rows(group: Group) -> pd.DataFrame:
    """Select the rows of the main sharding that have a speedup, and add their EFFICIENCY."""
    rows = group.rows[(group.rows[SHARDING] == group.main) | group.rows["is_base"]]
    rows = rows.dropna(subset=["speedup"])
    ideal = 100 * rows["base_ranks"] / rows[RANKS]
    columns = zip(EFFICIENCY, SPEEDUP, strict=True)
    return rows.assign(**{efficiency: rows[speedup] * ideal for efficiency, speedup in columns})


def is_weak(rows: pd.DataFrame) -> bool:
    return bool((rows["scaling"] == WEAK).any())


def draw_lines(axis: Axes, rows: pd.DataFrame, scope: str, weak: bool) -> None:
    """Draw a line per workload of a scope, with its fit where scaling is strong."""
    columns = EFFICIENCY if weak else SPEEDUP
    for index, workload in enumerate(thinned(workloads_of(rows))):
        line = rows[(rows[SCOPE] == scope) & (rows["workload"] == workload)].sort_values(RANKS)
        bars = style.interval_bars(line, *columns)
        axis.errorbar(line[RANKS], line[columns[0]], bars, label=workload, **style.look(index))
        if not weak:
            fit(axis, line, index)


def workloads_of(rows: pd.DataFrame) -> list[str]:
    return list(rows["workload"].unique())


def explain(figure: Figure, title: str, note: str, rows: pd.DataFrame) -> None:
    """Write the title above; below, how to read the plot and the settings of what was measured."""
    known = [name for name in SHOWN if rows[name].notna().all()]
    style.caption(figure, title, f"{note}\n{format_settings(rows, known)}")


def fit(axis: Axes, line: pd.DataFrame, index: int) -> None:
    """Draw Amdahl's law as fitted to the speedups of one workload."""
    axis.plot(*fitted(line), "--", color=f"C{index % 10}", linewidth=0.8)


def fitted(line: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Fit Amdahl's law to the speedups of one workload; return devices and speedups along it.

    Both are empty where the speedups are too few for a fit.
    """
    further = line[line[RANKS] > line["base_ranks"]]
    if len(further) < FEWEST_FOR_FIT:
        return [], []
    base = int(line["base_ranks"].iloc[0])
    serial = serial_share(dict(zip(further[RANKS], further["speedup"], strict=True)), base)
    at = np.geomspace(base, further[RANKS].max(), 50).tolist()
    return at, [amdahl(serial, devices, base) for devices in at]


def limit(axis: Axes, rows: pd.DataFrame, weak: bool) -> None:
    """Draw what the devices would reach if nothing were lost."""
    axis.plot(*ideal(rows, weak), color="black", linewidth=1, label="ideal", zorder=1)


def ideal(rows: pd.DataFrame, weak: bool) -> tuple[list[float], list[float]]:
    """Return the fewest and the most devices, and the ideal speedup or efficiency on them."""
    least, most = rows["base_ranks"].min(), rows[RANKS].max()
    return [least, most], [100, 100] if weak else [1, most / least]


def over_devices(axis: Axes, counts: list[int], weak: bool) -> None:
    """Put ticks at the numbers of devices.

    Where these range far, both axes are logarithmic, so that the ideal is straight.
    """
    wide = counts[-1] / counts[0] > FEW_TIMES
    if wide:
        axis.set_xscale("log", base=2)
        axis.set_xlim(counts[0] / 1.1, counts[-1] * 1.1)
    axis.xaxis.set_major_locator(FixedLocator(counts))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if wide and not weak:
        style.log_values(axis)
    else:
        axis.set_ylim(bottom=0)

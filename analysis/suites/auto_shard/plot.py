"""Plots the same program on one device and on several: shardings side by side, phases of a step."""

from collections.abc import Callable, Iterator
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis.repetitions import bars_of, with_ranges
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.auto_shard.rows import SHARDINGS, SUITE, Group, counted, groups_of
from analysis.suites.auto_shard.scaling_plot import SPEEDUP, explain, scaling
from analysis.suites.auto_shard.table import SCOPES
from benchkit.suites.auto_shard.names import END_TO_END, RANKS, SCOPE, SHARDING, UNSHARDED, Phase

MOST_PANELS = 12
"""More workloads than this have their phases in the table alone."""
WORKLOAD_INCHES = 0.6


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw the figures that there is data for, per group of rows that differ in the case alone."""
    drawings: Drawings = {}
    for group in groups_of(table):
        for name, figure in figures_of(group):
            drawings[f"{SUITE}_{name}{group.suffix}.png"] = figure
    return drawings


def figures_of(group: Group) -> Iterator[tuple[str, Callable[[], Figure]]]:
    group = Group(group.suffix, with_ranges(group.rows))
    further = group.further[group.further[SHARDING].isin(SHARDINGS)]
    if (further[SHARDING] == group.main).any():
        yield "scaling", partial(scaling, group)
    if not further.empty:
        yield "shardings", partial(shardings, further)
    rows = group.rows[(group.rows[SCOPE] == END_TO_END) & (group.rows["status"] == "ok")]
    if rows[[f"{phase}_s" for phase in Phase]].notna().any(axis=None):
        yield "phases", partial(phases, rows)


def shardings(rows: pd.DataFrame) -> Figure:
    """Plot speedups on the most devices: a panel per scope, a place per workload."""
    most = rows[RANKS].max()
    rows = rows[rows[RANKS] == most]
    workloads = list(rows["workload"].unique())
    scopes = [scope for scope in SCOPES if scope in set(rows[SCOPE])]
    width = 2.2 + WORKLOAD_INCHES * len(workloads)
    figure, axes = style.panels(len(scopes), width=width, height=4.6)
    names = [name for name in SHARDINGS if name in set(rows[SHARDING])]
    for scope, axis in zip(scopes, axes, strict=True):
        for index, name in enumerate(names):
            part = rows[(rows[SCOPE] == scope) & (rows[SHARDING] == name)]
            offset = 0.22 * (index - (len(names) - 1) / 2)
            at = [workloads.index(workload) + offset for workload in part["workload"]]
            bars = style.interval_bars(part, *SPEEDUP)
            look = style.look(index)
            axis.errorbar(at, part["speedup"], bars, label=name, linestyle="none", **look)
        axis.axhline(1, color="black", linewidth=1)
        style.log_values(axis)
        places = range(len(workloads))
        axis.set_xticks(places, workloads, rotation=40, ha="right", rotation_mode="anchor")
        axis.set_xlim(-0.6, len(workloads) - 0.4)
        axis.grid(axis="x", visible=False)
        axis.set_title(scope)
    axes[0].set_ylabel("speedup")
    style.shared_legend(figure, axes[-1])
    note = f"over the fewest devices; median of paired blocks, {bars_of(rows, SPEEDUP[1])}"
    explain(figure, f"Shardings on {most:g} devices", note, rows)
    return figure


def phases(rows: pd.DataFrame) -> Figure:
    """Plot the phases of a step: a panel per workload, a bar per sharding and number of devices."""
    workloads = list(rows["workload"].unique())
    shown = workloads[:MOST_PANELS]
    num_bars = rows.groupby([RANKS, SHARDING], sort=False).ngroups
    figure, axes = style.panels(len(shown), height=1.6 + 0.32 * num_bars, share=False)
    for workload, axis in zip(shown, axes, strict=True):
        part = rows[rows["workload"] == workload]
        names = [label(*bar) for bar in zip(part[SHARDING], part[RANKS], strict=True)]
        left = pd.Series(0.0, part.index)
        for index, phase in enumerate(Phase):
            spent = 1e3 * part[f"{phase}_s"].fillna(0)
            axis.barh(range(len(part)), spent, left=left, color=f"C{index}", label=phase)
            left += spent
        axis.set_yticks(range(len(part)), names)
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.set_xlim(0, 1.05 * left.max())
        axis.grid(axis="y", visible=False)
        axis.set_title(workload)
        axis.set_xlabel("time [ms]")
    style.shared_legend(figure, axes[-1])
    note = "medians of the rank that was longest in each"
    if len(workloads) > MOST_PANELS:
        note += f"; {len(workloads) - MOST_PANELS} more workloads in the table"
    explain(figure, "Phases of a step end to end", note, rows)
    return figure


def label(sharding: str, count: float) -> str:
    return counted(count) if sharding == UNSHARDED else f"{sharding} x{count:g}"

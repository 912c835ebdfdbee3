"""The same program on one device and on several: scaling, the phases of a step, and shardings beside each other."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.baseline import Baseline
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.suites.auto_shard.rows import END_TO_END, LIMITS, ONE, SHARDINGS, SUITE, Group, groups_of
from analysis.suites.auto_shard.scaling import PHASES, amdahl, counted, serial_share
from analysis.suites.auto_shard.table import SCOPES, TOLD
from analysis.text import format_settings

SPEEDUP = ("speedup", *LIMITS)
EFFICIENCY = ("efficiency", "efficiency_low", "efficiency_high")
MOST_PANELS = 12
"""More workloads than this have their phases in the table alone."""
FEWEST_FOR_FIT = 2
"""Speedups: a law with one unknown goes through a single one whatever it is."""
WORKLOAD_INCHES = 0.6
FEW_TIMES = 4
"""From the fewest devices to the most: up to this their places are proportional, beyond logarithmic."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Per group of what is alike but for the case the figures that there is data for."""
    return {
        f"{SUITE}_{name}{group.suffix}.png": figure for group in groups_of(table) for name, figure in figures_of(group)
    }


def figures_of(group: Group) -> Iterator[tuple[str, Callable[[], Figure]]]:
    group = Group(group.suffix, with_ranges(group.rows))
    further = group.further[group.further["sharding"].isin(SHARDINGS)]
    if (further["sharding"] == group.main).any():
        yield "scaling", partial(scaling, group)
    if not further.empty:
        yield "shardings", partial(shardings, further)
    rows = group.rows[(group.rows["scope"] == END_TO_END) & (group.rows["status"] == "ok")]
    if rows[[f"{phase}_s" for phase in PHASES]].notna().any(axis=None):
        yield "phases", partial(phases, rows)


def scaling(group: Group) -> Figure:
    """A line per workload over the devices, a panel per scope."""
    rows = group.rows[(group.rows["sharding"] == group.main) | group.rows["is_base"]].dropna(subset=["speedup"])
    ideal = 100 * rows["base_ranks"] / rows["ranks"]
    rows = rows.assign(**{name: rows[of] * ideal for name, of in zip(EFFICIENCY, SPEEDUP, strict=True)})
    weak, workloads = bool((rows["scaling"] == "weak").any()), list(rows["workload"].unique())
    scopes = [scope for scope in SCOPES if scope in set(rows["scope"])]
    figure, axes = style.panels(len(scopes))
    for scope, axis in zip(scopes, axes, strict=True):
        for index, workload in enumerate(workloads):
            line = rows[(rows["scope"] == scope) & (rows["workload"] == workload)].sort_values("ranks")
            columns = EFFICIENCY if weak else SPEEDUP
            bars = style.interval_bars(line, *columns)
            axis.errorbar(line["ranks"], line[columns[0]], bars, label=workload, **style.look(index))
            if not weak:
                fit(axis, line, index)
        limit(axis, rows, weak)
        axis.set_title(scope)
        axis.set_xlabel("devices")
    for axis in axes:  # only now: a logarithmic axis that others share collapses around one value
        over_devices(axis, group.counts, weak)
    axes[0].set_ylabel("scaling efficiency [%]" if weak else "speedup")
    style.shared_legend(figure, axes[-1])
    fitted = "; dashed: Amdahl's law, fitted" if not weak and len(group.counts) > FEWEST_FOR_FIT else ""
    note = f"over the fewest devices; median of paired blocks, {bars_of(rows)}{fitted}"
    explain(figure, f"{'Weak' if weak else 'Strong'} scaling, sharding {group.main}", note, rows)
    return figure


def explain(figure: Figure, title: str, note: str, rows: pd.DataFrame) -> None:
    """Title above; below how to read the plot, and what all of it was measured with."""
    told = format_settings(rows, [name for name in TOLD if rows[name].notna().all()])
    style.caption(figure, title, f"{note}\n{told}")


def fit(axis: Axes, line: pd.DataFrame, index: int) -> None:
    """Amdahl's law through the speedups of one workload."""
    further = line[line["ranks"] > line["base_ranks"]]
    if len(further) < FEWEST_FOR_FIT:
        return
    base = int(line["base_ranks"].iloc[0])
    serial = serial_share(dict(zip(further["ranks"], further["speedup"], strict=True)), base)
    at = np.geomspace(base, further["ranks"].max(), 50)
    axis.plot(at, [amdahl(serial, devices, base) for devices in at], "--", color=f"C{index % 10}", linewidth=0.8)


def limit(axis: Axes, rows: pd.DataFrame, weak: bool) -> None:
    """What as many devices would reach if nothing were lost."""
    least, most = rows["base_ranks"].min(), rows["ranks"].max()
    values = [100, 100] if weak else [1, most / least]
    axis.plot([least, most], values, color="black", linewidth=1, label="ideal", zorder=1)


def over_devices(axis: Axes, counts: list[int], weak: bool) -> None:
    """Ticks at the numbers of devices; where these range far both axes are logarithmic, and ideal is straight."""
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


def shardings(rows: pd.DataFrame) -> Figure:
    """Speedups on the most devices: a place per workload, a point per sharding, a panel per scope."""
    most = rows["ranks"].max()
    rows = rows[rows["ranks"] == most]
    workloads, names = list(rows["workload"].unique()), [name for name in SHARDINGS if name in set(rows["sharding"])]
    scopes = [scope for scope in SCOPES if scope in set(rows["scope"])]
    figure, axes = style.panels(len(scopes), width=2.2 + WORKLOAD_INCHES * len(workloads), height=4.6)
    for scope, axis in zip(scopes, axes, strict=True):
        for index, name in enumerate(names):
            part = rows[(rows["scope"] == scope) & (rows["sharding"] == name)]
            at = [workloads.index(workload) + 0.22 * (index - (len(names) - 1) / 2) for workload in part["workload"]]
            bars = style.interval_bars(part, *SPEEDUP)
            axis.errorbar(at, part["speedup"], bars, label=name, linestyle="none", **style.look(index))
        axis.axhline(1, color="black", linewidth=1)
        style.log_values(axis)
        axis.set_xticks(range(len(workloads)), workloads, rotation=40, ha="right", rotation_mode="anchor")
        axis.set_xlim(-0.6, len(workloads) - 0.4)
        axis.grid(axis="x", visible=False)
        axis.set_title(scope)
    axes[0].set_ylabel("speedup")
    style.shared_legend(figure, axes[-1])
    note = f"over the fewest devices; median of paired blocks, {bars_of(rows)}"
    explain(figure, f"Shardings on {most:g} devices", note, rows)
    return figure


def phases(rows: pd.DataFrame) -> Figure:
    """A panel per workload, a bar per sharding and number of devices."""
    workloads = list(rows["workload"].unique())
    names = rows.groupby(["ranks", "sharding"], sort=False).ngroups
    figure, axes = style.panels(len(workloads[:MOST_PANELS]), height=1.6 + 0.32 * names, share=False)
    for workload, axis in zip(workloads, axes, strict=False):
        part = rows[rows["workload"] == workload]
        bars = [label(name, count) for name, count in zip(part["sharding"], part["ranks"], strict=True)]
        left = pd.Series(0.0, part.index)
        for index, phase in enumerate(PHASES):
            spent = 1e3 * part[f"{phase}_s"].fillna(0)
            axis.barh(range(len(part)), spent, left=left, color=f"C{index}", label=phase)
            left += spent
        axis.set_yticks(range(len(part)), bars)
        axis.set_ylim(len(part) - 0.5, -0.5)
        axis.set_xlim(0, 1.05 * left.max())
        axis.grid(axis="y", visible=False)
        axis.set_title(workload)
        axis.set_xlabel("time [ms]")
    style.shared_legend(figure, axes[-1])
    left_out = f"; {len(workloads) - MOST_PANELS} more workloads in the table" if len(workloads) > MOST_PANELS else ""
    explain(figure, "Phases of a step end to end", f"medians of the rank that was longest in each{left_out}", rows)
    return figure


def label(sharding: str, count: float) -> str:
    return counted(count) if sharding == ONE else f"{sharding} x{count:g}"

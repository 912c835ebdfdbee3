"""Charts of the same program on one device and on several: scaling, shardings, phases of a step."""

import numpy as np
import pandas as pd

from analysis.report.chart import (
    DOTS,
    LINEAR,
    LINES,
    LOG,
    NAMES,
    Axis,
    Chart,
    Charts,
    chart_points,
    group_charts,
    phases_of_step,
)
from analysis.suites.auto_shard.rows import (
    SHARDINGS,
    SPEEDUP,
    SUITE,
    ShardingGroup,
    amdahl,
    format_devices,
    groups_of,
    serial_share,
)
from analysis.suites.auto_shard.table import SCOPES, settings_of
from analysis.table.repetitions import describe_error_bars, fill_with_ranges
from analysis.table.variants import Baseline
from benchkit.suites.auto_shard.suite import END_TO_END, RANKS, SCOPE, SHARDING, UNSHARDED, WEAK
from benchkit.suites.auto_shard.workloads import Phase

EFFICIENCY = ("efficiency", "efficiency_low", "efficiency_high")
FEWEST_FOR_FIT = (
    2  # least number of speedups for a fit: any single one fits a law with one parameter
)
FEW_TIMES = 4
IDEAL = "ideal"


COMPARED = ("auto_shard",)
"""Suites whose comparisons are drawn here."""


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    groups = ((group.suffix, group) for group in groups_of(table))
    return group_charts(SUITE, groups, charts_of)


def charts_of(group: ShardingGroup) -> Charts:
    group = ShardingGroup(group.suffix, fill_with_ranges(group.rows))
    further = group.further[group.further[SHARDING].isin(SHARDINGS)]
    charts: Charts = {}
    if (further[SHARDING] == group.main).any():
        charts["scaling"] = scaling(group)
    if not further.empty:
        charts["shardings"] = shardings(further)
    rows = group.rows[(group.rows[SCOPE] == END_TO_END) & (group.rows["status"] == "ok")]
    if rows[[f"{phase}_s" for phase in Phase]].notna().any(axis=None):
        charts["phases"] = phases(rows)
    return charts


def scaling(group: ShardingGroup) -> Chart:
    """Return a chart with a line per workload over the devices, and a panel per scope."""
    rows = scaling_rows(group)
    rows = rows.assign(scope_order=rows[SCOPE].map(list(SCOPES).index))
    rows = rows.sort_values(["scope_order", RANKS], kind="stable")
    further = rows[rows[RANKS] > rows["base_ranks"]]
    is_one = further[RANKS].nunique() == 1
    if is_one:  # The base is 1 by definition.
        rows = further
    weak = bool((rows["scaling"] == WEAK).any())
    # For a wide range of devices both axes are logarithmic, so that the ideal is straight.
    wide = rows[RANKS].max() > FEW_TIMES * rows[RANKS].min()
    values = EFFICIENCY if weak else SPEEDUP
    note = (
        f"over the fewest devices; median of paired blocks, {describe_error_bars(rows, SPEEDUP[1])}"
    )
    if not weak and len(group.counts) > FEWEST_FOR_FIT:
        note += "; dashed: Amdahl's law, fitted"
    goal = 100.0 if weak else float((rows[RANKS] / rows["base_ranks"]).max())
    note += "; black line: the ideal" if is_one else ""
    return Chart(
        mark=LINES,
        title=f"{'Weak' if weak else 'Strong'} scaling, sharding {group.main}",
        note=f"{note}\n{settings_of(rows)}",
        x=Axis("devices", LOG if wide else LINEAR),
        y=Axis("scaling efficiency [%]") if weak else Axis("speedup", LOG if wide else LINEAR),
        points=chart_points(rows, rows[RANKS], values, rows["workload"], rows[SCOPE]),
        curves=curves(rows, weak),
        reference=goal if is_one else None,
    )


def curves(rows: pd.DataFrame, weak: bool) -> pd.DataFrame:
    """Return the ideal of each scope and, for strong scaling, the fit of each workload."""
    tables = []
    for scope, part in rows.groupby(SCOPE, sort=False):
        lines = {IDEAL: ideal_curve(rows, weak)}
        if not weak:
            lines |= {str(name): fit_curve(line) for name, line in part.groupby("workload")}
        for series, (x, value) in lines.items():
            curve = {"panel": scope, "series": series, "x": x, "value": value}
            tables.append(pd.DataFrame(curve))
    return pd.concat(tables, ignore_index=True)


def shardings(rows: pd.DataFrame) -> Chart:
    """Return a chart of speedups on the most devices: a panel per scope, a name per workload."""
    most = rows[RANKS].max()
    rows = rows[rows[RANKS] == most]
    note = (
        f"over the fewest devices; median of paired blocks, {describe_error_bars(rows, SPEEDUP[1])}"
    )
    return Chart(
        mark=DOTS,
        title=f"Shardings on {most:g} devices",
        note=f"{note}\n{settings_of(rows)}",
        x=Axis("workload", NAMES),
        y=Axis("speedup", LOG),
        points=chart_points(rows, rows["workload"], SPEEDUP, rows[SHARDING], rows[SCOPE]),
        series=tuple(str(name) for name in SHARDINGS if name in set(rows[SHARDING])),
        reference=1,
    )


def phases(rows: pd.DataFrame) -> Chart:
    """Return a chart of the phases of a step: a panel per workload, bars per sharding."""
    bars = [label(*bar) for bar in zip(rows[SHARDING], rows[RANKS], strict=True)]
    return phases_of_step(
        rows,
        bars,
        rows["workload"],
        list(Phase),
        title="Phases of a step end to end",
        note=f"\n{settings_of(rows)}",
        x="sharding",
    )


def scaling_rows(group: ShardingGroup) -> pd.DataFrame:
    """Select the rows of the main sharding with a speedup, and add EFFICIENCY."""
    rows = group.rows[(group.rows[SHARDING] == group.main) | group.rows["is_base"]]
    rows = rows.dropna(subset=["speedup"])
    ideal_percent = 100 * rows["base_ranks"] / rows[RANKS]
    columns = zip(EFFICIENCY, SPEEDUP, strict=True)
    return rows.assign(
        **{efficiency: rows[speedup] * ideal_percent for efficiency, speedup in columns}
    )


def fit_curve(line: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return devices and fitted speedups of Amdahl's law for one workload; [] for too few rows."""
    further = line[line[RANKS] > line["base_ranks"]]
    if len(further) < FEWEST_FOR_FIT:
        return [], []
    base = int(line["base_ranks"].iloc[0])
    serial = serial_share(dict(zip(further[RANKS], further["speedup"], strict=True)), base)
    at = np.geomspace(base, further[RANKS].max(), 50).tolist()
    return at, [amdahl(serial, devices, base) for devices in at]


def ideal_curve(rows: pd.DataFrame, weak: bool) -> tuple[list[float], list[float]]:
    """Return devices, and the ideal speedup or efficiency for each."""
    least = rows["base_ranks"].min()
    at = np.geomspace(least, rows[RANKS].max(), 50)
    return at.tolist(), [100.0] * len(at) if weak else (at / least).tolist()


def label(sharding: str, count: float) -> str:
    return format_devices(count) if sharding == UNSHARDED else f"{sharding} x{count:g}"

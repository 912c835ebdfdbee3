"""Plots utilisation, phases of a step and scaling efficiency of language models as bars.

There is a bar per line of the other plots and context.
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.report import style
from analysis.report.chart import MOST_POINTS
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.transformer.groups import Group
from analysis.suites.transformer.plot import Kinds, drawn, explain
from benchkit.api.details import PEAK_FROM
from benchkit.suites.transformer.names import FORWARD, PASS, PHASES


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    return drawn(table, KINDS)


def by_pass(
    group: Group, columns: list[str], least: float = 0
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]], str]:
    """Make a panel per pass with a place for each cell.

    Args:
        group: whose passes and cells to show.
        columns: shares of 1.
        least: the share in % up to which the axis reaches at least.

    Returns:
        The figure; each panel with the columns in %, in the order of the places; and which cells
        are left out, in words.
    """
    kept, left_out = cells_of(group.rows, ["line", "context_length"])
    figure, axes = style.panels(len(group.passes), width=4.2, height=1.8 + 0.35 * len(kept))
    panels = []
    for name, axis in zip(group.passes, axes, strict=True):
        rows = group.rows[group.rows[PASS] == name]
        values = rows.set_index(kept.names)[columns].reindex(kept) * 100
        places(axis, kept)
        axis.set_title(name)
        panels.append((axis, values))
    most = max(values.max(axis=None) for _, values in panels)
    for axis in axes:
        axis.set_xlim(0, 1.05 * max(most, least))
    return figure, panels, left_out


def cells_of(rows: pd.DataFrame, columns: list[str]) -> tuple[pd.MultiIndex, str]:
    """Return the lines and contexts that have a place, and in words which contexts have none.

    Where these are more than MOST_POINTS, a line keeps its longest context.

    Args:
        rows: of one figure.
        columns: the name of a line, and the context.
    """
    left_out = ""
    if len(rows[columns].drop_duplicates()) > MOST_POINTS:
        rows = rows[
            rows["context_length"] == rows.groupby("line")["context_length"].transform("max")
        ]
        left_out = "; longest context of each line"
    return pd.MultiIndex.from_frame(rows[columns].drop_duplicates()), left_out


def places(axis: Axes, cells: pd.MultiIndex) -> None:
    names = [", ".join(filter(None, (line, f"{context} tokens"))) for line, context in cells]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def utilisation(group: Group) -> Figure:
    figure, panels, left_out = by_pass(group, ["mfu_full", "mfu_causal"])
    for axis, values in panels:
        axis.barh(range(len(values)), values["mfu_full"], color="C0", label="every pair of tokens")
        draw_marks(axis, values["mfu_causal"], "pairs seen")
        axis.set_xlabel("MFU [%]")
    style.shared_legend(figure, panels[-1][0])
    peaks = " or ".join(dict.fromkeys(group.rows[PEAK_FROM].dropna()))
    note = f"against: {peaks}; in attention every pair of tokens counts, or those seen"
    note += left_out
    return explain(figure, "model FLOP/s utilisation", note, group)


def draw_marks(axis: Axes, values: pd.Series, label: str) -> None:
    """Draw a black mark on each bar."""
    at = range(len(values))
    axis.plot(values, at, "k|", markersize=12, markeredgewidth=2, label=label)


def scaling(group: Group) -> Figure:
    labels = {"scaling_efficiency": "efficiency", "comm_share": "communication"}
    figure, panels, left_out = by_pass(group, list(labels), least=100)
    for axis, values in panels:
        for index, (column, label) in enumerate(labels.items()):
            at = [place - 0.2 + 0.4 * index for place in range(len(values))]
            axis.barh(at, values[column], height=0.4, color=f"C{index}", label=label)
        axis.axvline(100, color="black", linewidth=1)
        axis.set_xlabel("share [%]")
    style.shared_legend(figure, panels[-1][0])
    note = (
        "efficiency: speedup over one rank alone, per rank; "
        f"communication: what a step sends, alone, over its time{left_out}"
    )
    return explain(figure, "scaling", note, group)


def phases(group: Group) -> Figure:
    """Plot the phases of the largest pass.

    There is a panel per model, because times of models differ by orders of magnitude.
    """
    largest = group.passes[-1]
    rows = group.rows[group.rows[PASS] == largest]
    models = list(rows["model"].unique())
    kept, left_out = cells_of(rows, ["variant", "context_length"])
    shown = [phase for phase in PHASES if rows[f"{phase}_s"].notna().any()]
    figure, axes = style.panels(len(models), height=1.8 + 0.35 * len(kept), share=False)
    for model, axis in zip(models, axes, strict=True):
        of_model = rows[rows["model"] == model].set_index(kept.names)
        draw_phases(axis, of_model.reindex(kept), shown)
        axis.set_title(model)
    style.shared_legend(figure, axes[-1])
    note = f"medians of the rank that was longest in each{left_out}"
    return explain(figure, f"phases of {largest}", note, group)


def draw_phases(axis: Axes, rows: pd.DataFrame, shown: list[str]) -> None:
    """Draw the phases of each row as a bar of parts, and the whole step as a mark."""
    places(axis, rows.index)
    left = pd.Series(0.0, rows.index)
    for phase in shown:
        times = rows[f"{phase}_s"].fillna(0) * 1e3
        colour = f"C{PHASES.index(phase)}"
        axis.barh(range(len(rows)), times, left=left, color=colour, label=phase)
        left += times
    draw_marks(axis, rows["median_s"] * 1e3, "whole step")
    axis.set_xlabel("time [ms]")


KINDS: Kinds = {
    "mfu": ("mfu_full", utilisation),
    "phases": (f"{FORWARD}_s", phases),
    "scaling": ("scaling_efficiency", scaling),
}

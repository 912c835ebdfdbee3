"""Plots utilisation, phases of a step and scaling efficiency of language models as bars.

There is a bar per model and context.
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.suites.transformer.plot import Group, Kinds, drawn, explain
from benchkit.api.details import PEAK_FROM
from benchkit.suites.transformer.names import FORWARD, PASS, PHASES

CELL = ["model", "context_length"]


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    return drawn(table, KINDS)


def by_pass(
    group: Group, columns: list[str], least: float = 0
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Make a panel per pass with a place for each cell.

    Args:
        group: whose passes and cells to show.
        columns: shares of 1.
        least: the share in % up to which the axis reaches at least.

    Returns:
        The figure, and each panel with the columns in %, in the order of the places.
    """
    contexts = zip(group.rows["model"], group.rows["context_length"], strict=True)
    cells = list(dict.fromkeys(contexts))
    names = [f"{model}, {context} tokens" for model, context in cells]
    figure, axes = style.panels(len(group.passes), width=4.2, height=1.8 + 0.35 * len(cells))
    most = 100 * group.rows[columns].max(axis=None)
    panels = []
    for name, axis in zip(group.passes, axes, strict=True):
        rows = group.rows[group.rows[PASS] == name]
        values = rows.set_index(CELL)[columns].reindex(cells) * 100
        places(axis, names)
        axis.set_title(name)
        axis.set_xlim(0, 1.05 * max(most, least))
        panels.append((axis, values))
    return figure, panels


def places(axis: Axes, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def utilisation(group: Group) -> Figure:
    figure, panels = by_pass(group, ["mfu_full", "mfu_causal"])
    for axis, values in panels:
        axis.barh(range(len(values)), values["mfu_full"], color="C0", label="every pair of tokens")
        draw_marks(axis, values["mfu_causal"], "pairs seen")
        axis.set_xlabel("MFU [%]")
    style.shared_legend(figure, panels[-1][0])
    peaks = " or ".join(dict.fromkeys(group.rows[PEAK_FROM].dropna()))
    note = f"against: {peaks}; in attention every pair of tokens counts, or those seen"
    return explain(figure, "model FLOP/s utilisation", note, group)


def draw_marks(axis: Axes, values: pd.Series, label: str) -> None:
    """Draw a black mark on each bar."""
    at = range(len(values))
    axis.plot(values, at, "k|", markersize=12, markeredgewidth=2, label=label)


def scaling(group: Group) -> Figure:
    labels = {"scaling_efficiency": "efficiency", "comm_share": "communication"}
    figure, panels = by_pass(group, list(labels), least=100)
    for axis, values in panels:
        for index, (column, label) in enumerate(labels.items()):
            at = [place - 0.2 + 0.4 * index for place in range(len(values))]
            axis.barh(at, values[column], height=0.4, color=f"C{index}", label=label)
        axis.axvline(100, color="black", linewidth=1)
        axis.set_xlabel("share [%]")
    style.shared_legend(figure, panels[-1][0])
    note = (
        "efficiency: speedup over one rank alone, per rank; "
        "communication: what a step sends, alone, over its time"
    )
    return explain(figure, "scaling", note, group)


def phases(group: Group) -> Figure:
    """Plot the phases of the largest pass.

    There is a panel per model, because times of models differ by orders of magnitude.
    """
    largest = group.passes[-1]
    rows = group.rows[group.rows[PASS] == largest]
    models = list(rows["model"].unique())
    contexts = sorted(rows["context_length"].unique())
    shown = [phase for phase in PHASES if rows[f"{phase}_s"].notna().any()]
    figure, axes = style.panels(len(models), height=1.8 + 0.35 * len(contexts), share=False)
    for model, axis in zip(models, axes, strict=True):
        part = rows[rows["model"] == model].set_index("context_length").reindex(contexts)
        places(axis, [f"{context} tokens" for context in contexts])
        left = pd.Series(0.0, part.index)
        for phase in shown:
            times = part[f"{phase}_s"].fillna(0) * 1e3
            colour = f"C{PHASES.index(phase)}"
            axis.barh(range(len(contexts)), times, left=left, color=colour, label=phase)
            left += times
        draw_marks(axis, part["median_s"] * 1e3, "whole step")
        axis.set_title(model)
        axis.set_xlabel("time [ms]")
    style.shared_legend(figure, axes[-1])
    note = "medians of the rank that was longest in each"
    return explain(figure, f"phases of {largest}", note, group)


KINDS: Kinds = {
    "mfu": ("mfu_full", utilisation),
    "phases": (f"{FORWARD}_s", phases),
    "scaling": ("scaling_efficiency", scaling),
}

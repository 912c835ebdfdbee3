"""Language models in bars: utilisation, phases of a step, scaling efficiency; a bar per model and context."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.suites.transformer.plot import Group, Kinds, drawn, explain
from analysis.suites.transformer.rows import PHASES

CELL = ["model", "context_length"]


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    return drawn(table, KINDS)


def by_pass(group: Group, columns: list[str], least: float = 0) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A panel per pass with a place for each cell, and the columns in %, by place. least: how far to show at least."""
    cells = list(dict.fromkeys(zip(group.rows["model"], group.rows["context_length"], strict=True)))
    figure, axes = style.panels(len(group.passes), width=4.2, height=1.8 + 0.35 * len(cells))
    panels, most = [], 100 * group.rows[columns].max(axis=None)
    for name, axis in zip(group.passes, axes, strict=True):
        values = group.rows[group.rows["pass"] == name].set_index(CELL)[columns].reindex(cells) * 100
        places(axis, [f"{model}, {context} tokens" for model, context in cells])
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
        at = range(len(values))
        axis.barh(at, values["mfu_full"], color="C0", label="every pair of tokens")
        axis.plot(values["mfu_causal"], at, "k|", markersize=12, markeredgewidth=2, label="pairs seen")
        axis.set_xlabel("MFU [%]")
    style.shared_legend(figure, panels[-1][0])
    peaks = " or ".join(dict.fromkeys(group.rows["peak_from"].dropna()))
    note = f"against: {peaks}; in attention every pair of tokens counts, or those seen"
    return explain(figure, "model FLOP/s utilisation", note, group)


def scaling(group: Group) -> Figure:
    figure, panels = by_pass(group, ["scaling_efficiency", "comm_share"], least=100)
    for axis, values in panels:
        for index, (column, label) in enumerate(zip(values, ("efficiency", "communication"), strict=True)):
            at = [place - 0.2 + 0.4 * index for place in range(len(values))]
            axis.barh(at, values[column], height=0.4, color=f"C{index}", label=label)
        axis.axvline(100, color="black", linewidth=1)
        axis.set_xlabel("share [%]")
    style.shared_legend(figure, panels[-1][0])
    note = "efficiency: speedup over one rank alone, per rank; communication: what a step sends, alone, over its time"
    return explain(figure, "scaling", note, group)


def phases(group: Group) -> Figure:
    """Of the largest pass: a panel per model, since their times differ by orders of magnitude."""
    largest = group.passes[-1]
    rows = group.rows[group.rows["pass"] == largest]
    models, contexts = list(rows["model"].unique()), sorted(rows["context_length"].unique())
    figure, axes = style.panels(len(models), height=1.8 + 0.35 * len(contexts), share=False)
    for model, axis in zip(models, axes, strict=True):
        part = rows[rows["model"] == model].set_index("context_length").reindex(contexts)
        at = range(len(contexts))
        places(axis, [f"{context} tokens" for context in contexts])
        left = pd.Series(0.0, part.index)
        for index, phase in enumerate(PHASES):
            times = part[f"{phase}_s"].fillna(0) * 1e3
            if rows[f"{phase}_s"].notna().any():
                axis.barh(at, times, left=left, color=f"C{index}", label=phase)
            left += times
        axis.plot(part["median_s"] * 1e3, at, "k|", markersize=12, markeredgewidth=2, label="whole step")
        axis.set_title(model)
        axis.set_xlabel("time [ms]")
    style.shared_legend(figure, axes[-1])
    return explain(figure, f"phases of {largest}", "medians of the rank that was longest in each", group)


KINDS: Kinds = {
    "mfu": ("mfu_full", utilisation),
    "phases": ("forward_s", phases),
    "scaling": ("scaling_efficiency", scaling),
}

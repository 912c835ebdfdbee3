"""Language models over their context: step time, tokens per second and memory, a panel per pass, a line per model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.groups import alike
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.suites.transformer.rows import CASE, PASSES, SUITE, rows_of, varying
from analysis.text import format_settings

SHARED = ("device", "device_name", "dtype", "batch_size", "parallel", "ranks")
"""Settings that every figure tells, be they the same in all."""
VALUES = ("value", "low", "high")
MARGIN, LEAST_RANGE = 1.3, 6.0
"""Factors: around all points; from the lowest value shown to the highest, so that several have labels."""


@dataclass(frozen=True)
class Group:
    """Measured rows that may stand in one figure, with what they share in a file's name and in words.

    known: the models of all groups, so that each looks the same in all.
    """

    suffix: str
    setting: str
    rows: pd.DataFrame
    known: list[str]

    @property
    def passes(self) -> list[str]:
        return [name for name in PASSES if (self.rows["pass"] == name).any()]

    @property
    def contexts(self) -> list[int]:
        return sorted(self.rows["context_length"].unique())

    def having(self, column: str) -> "Group":
        """Of the rows those that have a number there."""
        return replace(self, rows=self.rows[self.rows[column] > 0])


Kinds = Mapping[str, tuple[str, Callable[[Group], Figure]]]
"""Names of figures, with the column that each cannot be drawn without."""


def drawn(table: pd.DataFrame, kinds: Kinds) -> Drawings:
    """Figures of all kinds that there is data for, for each group."""
    drawings: Drawings = {}
    for group in groups_of(table):
        for name, (column, figure_of) in kinds.items():
            part = group.having(column)
            if not part.rows.empty:
                drawings[f"{SUITE}_{name}{group.suffix}.png"] = partial(closed, figure_of, part)
    return drawings


def closed(figure_of: Callable[[Group], Figure], group: Group) -> Figure:
    """A figure that pyplot has let go of: it can be saved all the same, and pyplot warns of many that are open."""
    figure = figure_of(group)
    plt.close(figure)
    return figure


def groups_of(table: pd.DataFrame) -> list[Group]:
    """All that was measured, by what is alike but for model, context and pass."""
    rows = rows_of(table)
    if rows.empty:
        return []
    rows = rows[rows["ranks"] == rows["world_size"]]  # what one rank did alone tells scaling only
    told = [name for name in dict.fromkeys((*SHARED, *varying(rows))) if name in rows and rows[name].notna().all()]
    rows = with_ranges(rows)
    found = [(suffix, part[part["status"] == "ok"]) for suffix, part in alike(rows, *CASE)]
    known = list(rows["model"].unique())
    return [Group(suffix, format_settings(part, told), part, known) for suffix, part in found if not part.empty]


def explain(figure: Figure, title: str, note: str, group: Group) -> Figure:
    """Title above; below how to read the plot, and what all of it was measured with."""
    style.caption(figure, f"Language model: {title}", f"{note}\n{group.setting}")
    return figure


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    return drawn(table, KINDS)


def step_time(group: Group) -> Figure:
    times = group.rows[["median_s", "ci_low_s", "ci_high_s"]].set_axis(VALUES, axis="columns")
    figure = over_context(group, times * 1e3, "time of one step [ms]")
    return explain(figure, "step time", f"median of the slowest rank, {bars_of(group.rows)}", group)


def throughput(group: Group) -> Figure:
    rows = group.rows
    tokens = rows["tokens_per_second"] * rows["median_s"]
    limits = {name: tokens / rows[f"ci_{other}_s"] for name, other in (("low", "high"), ("high", "low"))}
    figure = over_context(group, pd.DataFrame({"value": rows["tokens_per_second"], **limits}), "tokens per second")
    return explain(figure, "throughput", f"tokens of a step over its median time, {bars_of(group.rows)}", group)


def memory(group: Group) -> Figure:
    peaks = pd.DataFrame({"value": group.rows["peak_bytes"] / 1e9}).reindex(columns=VALUES)
    return explain(over_context(group, peaks, "peak memory [GB]"), "peak memory", "of one rank", group)


KINDS: Kinds = {
    "step_time": ("median_s", step_time),
    "tokens_per_second": ("tokens_per_second", throughput),
    "memory": ("peak_bytes", memory),
}


def over_context(group: Group, values: pd.DataFrame, label: str) -> Figure:
    """A line per model over the context, with intervals; both axes logarithmic."""
    figure, axes = style.panels(len(group.passes))
    for name, axis in zip(group.passes, axes, strict=True):
        rows = group.rows[group.rows["pass"] == name]
        for model in group.rows["model"].unique():  # one that lacks this pass is in the legend all the same
            line = rows[rows["model"] == model]
            mine = values.loc[line.index]
            look = style.look(group.known.index(model))
            axis.errorbar(
                line["context_length"], mine["value"], style.interval_bars(mine, *VALUES), label=model, **look
            )
        axis.set_title(name)
        axis.set_xlabel("context [tokens]")
    low, high = values.min(axis=None), values.max(axis=None)
    margin = max(MARGIN, (LEAST_RANGE * low / high) ** 0.5)
    for axis in axes:  # only now: a logarithmic axis that others share collapses around one value
        style.log_sizes(axis, group.contexts)
        axis.set_xlim(group.contexts[0] / MARGIN, group.contexts[-1] * MARGIN)
        axis.set_ylim(low / margin, high * margin)
        style.log_values(axis)
    axes[0].set_ylabel(label)
    style.shared_legend(figure, axes[-1])
    return figure

"""Plots step time, tokens per second and memory of language models over their context.

Each figure has a panel per pass and a line per model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.groups import alike
from analysis.report import style
from analysis.report.crowds import note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.suites.transformer.rows import CASE, SUITE, rows_of, varying
from analysis.text import format_settings
from benchkit.suites.transformer.names import PASS, PASSES, PEAK_BYTES, RANKS

TIMES = ("median_s", "ci_low_s", "ci_high_s")
SHARED = ("device", "device_name", "dtype", "batch_size", "parallel", RANKS)
"""Settings that every figure names, even where they are the same in all."""
VALUES = ("value", "low", "high")
MARGIN = 1.3
"""Factor from the outermost points to the ends of an axis."""
LEAST_RANGE = 6.0
"""Least factor from the lowest value shown to the highest, so that several ticks have labels."""


@dataclass(frozen=True)
class Group:
    """Measured rows that may stand in one figure.

    Attributes:
        suffix: what they share, in the name of a file.
        setting: what they share, in words.
        rows: of one or several models, contexts and passes.
        known: the models of all groups, so that each model looks the same in all figures.
    """

    suffix: str
    setting: str
    rows: pd.DataFrame
    known: list[str]

    @property
    def passes(self) -> list[str]:
        return [name for name in PASSES if (self.rows[PASS] == name).any()]

    @property
    def contexts(self) -> list[int]:
        return sorted(self.rows["context_length"].unique())

    def having(self, column: str) -> "Group":
        """Select the rows that have a positive number in a column."""
        return replace(self, rows=self.rows[self.rows[column] > 0])


Kinds = Mapping[str, tuple[str, Callable[[Group], Figure]]]
"""Names of figures; each with the column that it needs, and the function that draws it."""


def drawn(table: pd.DataFrame, kinds: Kinds) -> Drawings:
    """Draw figures of all kinds that there is data for, per group."""
    drawings: Drawings = {}
    for group in groups_of(table):
        for name, (column, figure_of) in kinds.items():
            part = group.having(column)
            if not part.rows.empty:
                drawings[f"{SUITE}_{name}{group.suffix}.png"] = partial(closed, figure_of, part)
    return drawings


def closed(figure_of: Callable[[Group], Figure], group: Group) -> Figure:
    """Draw a figure and close it in pyplot, which warns of many open figures.

    A closed figure can still be saved.
    """
    figure = figure_of(group)
    plt.close(figure)
    return figure


def groups_of(table: pd.DataFrame) -> list[Group]:
    """Group all measured rows that differ in model, context and pass alone."""
    rows = rows_of(table)
    if rows.empty:
        return []
    # What one rank did alone is for the figure of scaling only.
    rows = rows[rows[RANKS] == rows["world_size"]]
    names = [name for name in dict.fromkeys((*SHARED, *varying(rows))) if name in rows]
    shown = [name for name in names if rows[name].notna().all()]
    rows = with_ranges(rows)
    models = list(rows["model"].unique())
    groups = []
    for suffix, part in alike(rows, *CASE):
        measured = part[part["status"] == "ok"]
        if not measured.empty:
            groups.append(Group(suffix, format_settings(measured, shown), measured, models))
    return groups


def explain(figure: Figure, title: str, note: str, group: Group) -> Figure:
    """Write the title above; below, how to read the plot and the settings of what was measured."""
    style.caption(figure, f"Language model: {title}", f"{note}\n{group.setting}")
    return figure


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    return drawn(table, KINDS)


def step_time(group: Group) -> Figure:
    times = group.rows[list(TIMES)].set_axis(VALUES, axis="columns")
    figure = over_context(group, times * 1e3, "time of one step [ms]")
    note = f"median of the slowest rank, {bars_of(group.rows)}{thinned_models(group)}"
    return explain(figure, "step time", note, group)


def throughput(group: Group) -> Figure:
    figure = over_context(group, rates_of(group.rows), "tokens per second")
    note = f"tokens of a step over its median time, {bars_of(group.rows)}{thinned_models(group)}"
    return explain(figure, "throughput", note, group)


def rates_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return tokens per second; the upper limit of the time gives the lower limit of the rate."""
    tokens = rows["tokens_per_second"] * rows["median_s"]
    ends = (rows["tokens_per_second"], tokens / rows["ci_high_s"], tokens / rows["ci_low_s"])
    return pd.DataFrame(dict(zip(VALUES, ends, strict=True)))


def memory(group: Group) -> Figure:
    peaks = pd.DataFrame({"value": group.rows[PEAK_BYTES] / 1e9}).reindex(columns=VALUES)
    figure = over_context(group, peaks, "peak memory [GB]")
    return explain(figure, "peak memory", f"of one rank{thinned_models(group)}", group)


def thinned_models(group: Group) -> str:
    return note_thinned(list(group.rows["model"].unique()), "models")


KINDS: Kinds = {
    "step_time": ("median_s", step_time),
    "tokens_per_second": ("tokens_per_second", throughput),
    "memory": (PEAK_BYTES, memory),
}


def over_context(group: Group, values: pd.DataFrame, label: str) -> Figure:
    """Plot a line per model over the context, a panel per pass; both axes are logarithmic.

    Args:
        group: whose models, contexts and passes to show.
        values: the columns VALUES of each row, of which both limits may be NaN.
        label: of the vertical axis.
    """
    figure, axes = style.panels(len(group.passes))
    for name, axis in zip(group.passes, axes, strict=True):
        rows = group.rows[group.rows[PASS] == name]
        # A model that lacks this pass is drawn without points, so that the legend has it.
        for model in thinned(list(group.rows["model"].unique())):
            contexts = rows.loc[rows["model"] == model, "context_length"]
            line = values.loc[contexts.index]
            bars = style.interval_bars(line, *VALUES)
            look = style.look(group.known.index(model))
            axis.errorbar(contexts, line["value"], bars, label=model, **look)
        axis.set_title(name)
        axis.set_xlabel("context [tokens]")
    low, high = values.min(axis=None), values.max(axis=None)
    margin = max(MARGIN, (LEAST_RANGE * low / high) ** 0.5)
    # Scales come last, because a logarithmic axis that others share collapses around one value.
    for axis in axes:
        style.log_sizes(axis, group.contexts)
        axis.set_xlim(group.contexts[0] / MARGIN, group.contexts[-1] * MARGIN)
        axis.set_ylim(low / margin, high * margin)
        style.log_values(axis)
    axes[0].set_ylabel(label)
    style.shared_legend(figure, axes[-1])
    return figure

"""Plots step time, tokens per second and memory of language models over their context.

Each figure has a panel per pass and a line per model and variant of its settings.
"""

from collections.abc import Callable, Mapping
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.repetitions import bars_of
from analysis.report import style
from analysis.report.chart import note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.transformer.groups import Group, groups_of
from analysis.suites.transformer.rows import SUITE
from benchkit.suites.transformer.names import PASS, PEAK_BYTES

TIMES = ("median_s", "ci_low_s", "ci_high_s")
VALUES = ("value", "low", "high")
MARGIN = 1.3
"""Factor from the outermost points to the ends of an axis."""
LEAST_RANGE = 6.0
"""Least factor from the lowest value shown to the highest, so that several ticks have labels."""


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


def explain(figure: Figure, title: str, note: str, group: Group) -> Figure:
    """Write the title above; below, how to read the plot and the settings of what was measured."""
    style.caption(figure, f"Language model: {title}", f"{note}\n{group.setting}")
    return figure


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    return drawn(table, KINDS)


def step_time(group: Group) -> Figure:
    times = group.rows[list(TIMES)].set_axis(VALUES, axis="columns")
    figure = over_context(group, times * 1e3, "time of one step [ms]")
    note = f"median of the slowest rank, {bars_of(group.rows)}{thinned_lines(group)}"
    return explain(figure, "step time", note, group)


def throughput(group: Group) -> Figure:
    figure = over_context(group, rates_of(group.rows), "tokens per second")
    note = f"tokens of a step over its median time, {bars_of(group.rows)}{thinned_lines(group)}"
    return explain(figure, "throughput", note, group)


def rates_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return tokens per second; the upper limit of the time gives the lower limit of the rate."""
    tokens = rows["tokens_per_second"] * rows["median_s"]
    ends = (rows["tokens_per_second"], tokens / rows["ci_high_s"], tokens / rows["ci_low_s"])
    return pd.DataFrame(dict(zip(VALUES, ends, strict=True)))


def memory(group: Group) -> Figure:
    peaks = pd.DataFrame({"value": group.rows[PEAK_BYTES] / 1e9}).reindex(columns=VALUES)
    figure = over_context(group, peaks, "peak memory [GB]")
    return explain(figure, "peak memory", f"of one rank{thinned_lines(group)}", group)


def thinned_lines(group: Group) -> str:
    return note_thinned(group.lines, "lines")


KINDS: Kinds = {
    "step_time": ("median_s", step_time),
    "tokens_per_second": ("tokens_per_second", throughput),
    "memory": (PEAK_BYTES, memory),
}


def over_context(group: Group, values: pd.DataFrame, label: str) -> Figure:
    """Plot the lines over the context, a panel per pass; both axes are logarithmic.

    Args:
        group: whose lines, contexts and passes to show.
        values: the columns VALUES of each row, of which both limits may be NaN.
        label: of the vertical axis.
    """
    figure, axes = style.panels(len(group.passes))
    for name, axis in zip(group.passes, axes, strict=True):
        rows = group.rows[group.rows[PASS] == name]
        # A line that lacks this pass is drawn without points, so that the legend has it.
        for name_of_line in thinned(group.lines):
            contexts = rows.loc[rows["line"] == name_of_line, "context_length"]
            line = values.loc[contexts.index]
            bars = style.interval_bars(line, *VALUES)
            look = style.look(group.known.index(name_of_line))
            axis.errorbar(contexts, line["value"], bars, label=name_of_line, **look)
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

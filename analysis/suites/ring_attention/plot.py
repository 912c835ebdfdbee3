"""Plots strategies of splitting a sequence over slowdown and length, and which is the fastest."""

from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.repetitions import bars_of, with_ranges
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.ring_attention.table import (
    EFFICIENCY,
    RATIO,
    SPEEDUP,
    SUITE,
    cells_of,
    label_of,
    with_efficiencies,
)
from analysis.suites.ring_attention.token_plot import tokens
from analysis.suites.ring_attention.winner_plot import winners
from benchkit.suites.ring_attention.names import EVEN, REFERENCE, STRATEGY, TOKENS, TORCH

OTHERS = (REFERENCE, TORCH)
"""Measured beside the strategies, but not meant for ranks of unequal speed."""
TIMES = ("median_s", "ci_low_s", "ci_high_s")
OF_IDEAL = (
    EFFICIENCY, "ideal time / time [%]", "ideal: all the work over all the speed, by the cost model"
)  # fmt: skip
OF_REFERENCE = (
    RATIO, "T_ref / T [%]", "T_ref: measured with an even split and all ranks at full speed"
)  # fmt: skip
"""What an efficiency refers to: columns, label and note."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw up to six figures per group of rows that differ in strategy, length and slowdown."""
    drawings: Drawings = {}
    for suffix, rows in cells_of(table):
        for name, drawing in drawings_of(with_ranges(rows)).items():
            drawings[f"{SUITE}_{name}{suffix}.png"] = drawing
    return drawings


def drawings_of(rows: pd.DataFrame) -> Drawings:
    strategies = strategies_of(rows)
    drawings: Drawings = {
        "efficiency": partial(efficiency, rows, strategies, *OF_IDEAL),
        "latency_scaling": partial(latency_scaling, rows, strategies),
        "winner": partial(winners, rows[rows[STRATEGY].isin(strategies)]),
    }
    if with_efficiencies(rows)[RATIO[0]].notna().any():
        drawings["reference_efficiency"] = partial(efficiency, rows, strategies, *OF_REFERENCE)
    if rows["paired_speedup"].notna().any():
        drawings["speedup_over_even"] = partial(speedup_over_even, rows, strategies)
    if TOKENS in rows and rows[TOKENS].notna().any():
        drawings["tokens"] = partial(tokens, rows[rows[STRATEGY].isin(strategies)])
    return drawings


def strategies_of(rows: pd.DataFrame) -> list[str]:
    """Return the strategies of splitting, without OTHERS, in the order of their rows."""
    return [name for name in dict.fromkeys(rows[STRATEGY]) if name not in OTHERS]


def by_length(rows: pd.DataFrame, draw_panel: Callable[[Axes, pd.DataFrame], None]) -> Figure:
    """Draw a panel per sequence length."""
    lengths = sorted(rows["seq_len"].unique())
    figure, axes = style.panels(len(lengths))
    label = label_of(rows)
    for length, axis in zip(lengths, axes, strict=True):
        draw_panel(axis, rows[rows["seq_len"] == length])
        axis.set_title(f"{length:g} tokens")
        axis.set_xlabel(label)
    style.shared_legend(figure, axes[-1])
    return figure


def over_slowdown(
    axis: Axes,
    rows: pd.DataFrame,
    looks: dict[str, int],
    columns: tuple[str, str, str],
    scale: float,
) -> None:
    """Draw a line per strategy over the slowdown, with intervals.

    Args:
        axis: where to draw; slowdowns are at equal distances.
        rows: of one sequence length.
        looks: the strategies, each with the number of its look.
        columns: a value and both ends of its interval.
        scale: what all three are multiplied by.
    """
    factors = sorted(rows["slowdown"].unique())
    spread = 0.8 if len(factors) == 1 else 0.0  # marks of one slowdown do not cover each other
    for place, (name, index) in enumerate(looks.items()):
        line = rows[rows[STRATEGY] == name]
        values = line[list(columns)].astype(float) * scale
        bars = style.interval_bars(values, *columns)
        aside = spread * ((place + 0.5) / len(looks) - 0.5)
        at = [factors.index(factor) + aside for factor in line["slowdown"]]
        axis.errorbar(at, values[columns[0]], bars, label=name, **style.look(index))
    axis.set_xticks(range(len(factors)), [f"{factor}" for factor in factors])


def speedup_over_even(rows: pd.DataFrame, strategies: list[str]) -> Figure:
    looks = {name: index for index, name in enumerate(strategies) if name != EVEN}

    def panel(axis: Axes, part: pd.DataFrame) -> None:
        over_slowdown(axis, part, looks, SPEEDUP, 1.0)
        axis.axhline(1, color="black", linewidth=1)
        style.log_values(axis)

    figure = by_length(rows, panel)
    figure.axes[0].set_ylabel("time of even / time")
    note = f"median of paired blocks, {bars_of(rows, SPEEDUP[1])}"
    style.caption(figure, "Ring attention: speedup over an even split", note, rows)
    return figure


def efficiency(
    rows: pd.DataFrame, strategies: list[str], columns: tuple[str, str, str], label: str, note: str
) -> Figure:
    """Plot a time over that of each strategy, in percent, over the slowdown."""
    looks = {name: index for index, name in enumerate(strategies)}

    def panel(axis: Axes, part: pd.DataFrame) -> None:
        over_slowdown(axis, part, looks, columns, 100)
        axis.axhline(100, color="black", linewidth=1)
        axis.set_ylim(bottom=0)

    figure = by_length(with_efficiencies(rows), panel)
    figure.axes[0].set_ylabel(label)
    style.caption(figure, efficiency_title(label), f"{note}; {bars_of(rows)}", rows)
    return figure


def efficiency_title(label: str) -> str:
    """Format "Ring attention: efficiency T_ref / T" for the label of its axis."""
    return f"Ring attention: efficiency {label.removesuffix(' [%]')}"


def latency_scaling(rows: pd.DataFrame, strategies: list[str]) -> Figure:
    """Plot time over length, a panel per slowdown; of one length, time over slowdown."""
    names = [*strategies, *(name for name in OTHERS if name in set(rows[STRATEGY]))]
    looks = {name: index for index, name in enumerate(names)}
    if rows["seq_len"].nunique() == 1:
        figure = by_length(rows, partial(over_slowdown, looks=looks, columns=TIMES, scale=1e3))
        style.log_values(figure.axes[0])
    else:
        figure = over_length(rows, looks)
    figure.axes[0].set_ylabel("time of one layer [ms]")
    style.caption(figure, "Ring attention: latency", f"median, {bars_of(rows)}", rows)
    return figure


def over_length(rows: pd.DataFrame, looks: dict[str, int]) -> Figure:
    """Plot the time of each strategy over the length, a panel per slowdown."""
    factors = sorted(rows["slowdown"].unique())
    figure, axes = style.panels(len(factors))
    for factor, axis in zip(factors, axes, strict=True):
        for name, index in looks.items():
            line = rows[(rows["slowdown"] == factor) & (rows[STRATEGY] == name)]
            line = line.sort_values("seq_len")
            times = line[list(TIMES)].astype(float) * 1e3
            bars = style.interval_bars(times, *TIMES)
            axis.errorbar(line["seq_len"], times["median_s"], bars, label=name, **style.look(index))
        style.log_sizes(axis, sorted(rows["seq_len"].unique()))
        style.log_values(axis)
        axis.set_title(f"slowdown {factor}")
        axis.set_xlabel("tokens")
    style.shared_legend(figure, axes[-1])
    return figure

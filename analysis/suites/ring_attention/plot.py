"""Strategies of splitting against slowdown, a panel per sequence length; and who wins where."""

import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.suites.ring_attention.table import SUITE, cells_of

OTHERS = ("reference", "torch")
"""Measured beside the strategies, and no answer to unequal speeds."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Five figures for what is alike but for strategy, length and slowdown."""
    return {
        f"{SUITE}_{name}{suffix}.png": drawing
        for suffix, rows in cells_of(table)
        for name, drawing in drawings_of(with_ranges(rows)).items()
    }


def drawings_of(rows: pd.DataFrame) -> Drawings:
    strategies = [name for name in dict.fromkeys(rows["strategy"]) if name not in OTHERS]
    drawings: Drawings = {
        "efficiency": partial(efficiency, rows, strategies),
        "latency_scaling": partial(latency_scaling, rows, strategies),
        "winner": partial(winners, rows[rows["strategy"].isin(strategies)]),
    }
    if rows["paired_speedup"].notna().any():
        drawings["speedup_over_even"] = partial(speedup_over_even, rows, strategies)
    if "tokens" in rows and rows["tokens"].notna().any():
        drawings["tokens"] = partial(tokens, rows[rows["strategy"].isin(strategies)])
    return drawings


def by_length(rows: pd.DataFrame, draw_panel: Callable[[Axes, pd.DataFrame], None]) -> Figure:
    """A panel per sequence length."""
    lengths = sorted(rows["seq_len"].unique())
    figure, axes = style.panels(len(lengths))
    label = label_of(rows)
    for length, axis in zip(lengths, axes, strict=True):
        draw_panel(axis, rows[rows["seq_len"] == length])
        axis.set_title(f"{length:g} tokens")
        axis.set_xlabel(label)
    style.shared_legend(figure, axes[-1])
    return figure


def label_of(rows: pd.DataFrame) -> str:
    """What an axis of slowdowns is called."""
    alone = all(slowdown.last_alone for slowdown in rows["slowdown"])
    return "slowdown of the last rank" if alone else "slowdown of each rank, or of the last"


def over_slowdown(
    axis: Axes, rows: pd.DataFrame, names: list[str], columns: tuple[str, str, str], scale: float
) -> None:
    """A line per strategy over the slowdown, with intervals; slowdowns at equal distances."""
    factors = sorted(rows["slowdown"].unique())
    for index, name in enumerate(names):
        line = rows[rows["strategy"] == name]
        values = line[list(columns)].astype(float) * scale
        bars = style.interval_bars(values, *columns)
        at = [factors.index(factor) for factor in line["slowdown"]]
        axis.errorbar(at, values[columns[0]], bars, label=name, **style.look(index))
    axis.set_xticks(range(len(factors)), [f"{factor}" for factor in factors])


def speedup_over_even(rows: pd.DataFrame, strategies: list[str]) -> Figure:
    names = [name for name in strategies if name != "even"]
    columns = ("paired_speedup", "paired_speedup_low", "paired_speedup_high")

    def panel(axis: Axes, part: pd.DataFrame) -> None:
        over_slowdown(axis, part, names, columns, 1.0)
        axis.axhline(1, color="black", linewidth=1)
        style.log_values(axis)

    figure = by_length(rows, panel)
    figure.axes[0].set_ylabel("time of even / time")
    note = f"median of paired blocks, {bars_of(rows)}"
    style.caption(figure, "Ring attention: speedup over an even split", note, rows)
    return figure


def efficiency(rows: pd.DataFrame, strategies: list[str]) -> Figure:
    at_limits = rows.assign(
        efficiency_low=rows["ideal_s"] / rows["ci_high_s"], efficiency_high=rows["ideal_s"] / rows["ci_low_s"]
    )

    def panel(axis: Axes, part: pd.DataFrame) -> None:
        over_slowdown(axis, part, strategies, ("efficiency", "efficiency_low", "efficiency_high"), 100)
        axis.axhline(100, color="black", linewidth=1)
        axis.set_ylim(bottom=0)

    figure = by_length(at_limits, panel)
    figure.axes[0].set_ylabel("ideal time / time [%]")
    note = f"ideal: all the work over all the speed, by the cost model; {bars_of(rows)}"
    style.caption(figure, "Ring attention: efficiency", note, rows)
    return figure


def latency_scaling(rows: pd.DataFrame, strategies: list[str]) -> Figure:
    """Time over length, a panel per slowdown."""
    factors = sorted(rows["slowdown"].unique())
    figure, axes = style.panels(len(factors))
    for factor, axis in zip(factors, axes, strict=True):
        for index, name in enumerate([*strategies, *(name for name in OTHERS if name in set(rows["strategy"]))]):
            line = rows[(rows["slowdown"] == factor) & (rows["strategy"] == name)].sort_values("seq_len")
            times = line[["median_s", "ci_low_s", "ci_high_s"]].astype(float) * 1e3
            bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
            axis.errorbar(line["seq_len"], times["median_s"], bars, label=name, **style.look(index))
        style.log_sizes(axis, sorted(rows["seq_len"].unique()))
        style.log_values(axis)
        axis.set_title(f"slowdown {factor}")
        axis.set_xlabel("tokens")
    axes[0].set_ylabel("time of one layer [ms]")
    style.shared_legend(figure, axes[-1])
    style.caption(figure, "Ring attention: latency", f"median, {bars_of(rows)}", rows)
    return figure


def winners(rows: pd.DataFrame) -> Figure:
    """The fastest strategy of each cell and its speedup over even, with those whose intervals reach its own."""
    cells = rows.groupby(["seq_len", "slowdown"])
    named, gained = {}, {}
    for cell, group in cells:
        best = group.loc[group["median_s"].idxmin()]
        gains = group[["paired_speedup", "paired_speedup_low", "paired_speedup_high"]].astype(float)
        gains[group["strategy"] == "even"] = 1.0
        # without an interval nothing tells a strategy from others
        gain, low, _ = gains.loc[best.name].fillna({"paired_speedup": 1.0, "paired_speedup_low": 0.0})
        highs = gains["paired_speedup_high"].fillna(float("inf"))
        tied = group.loc[(highs >= low) & (group.index != best.name), "strategy"]
        text = textwrap.fill("≈ " + ", ".join(tied), 18) if len(tied) else ""
        named[cell], gained[cell] = f"{best['strategy']}\n{gain:.2f}×\n{text}".strip(), gain
    values, texts = pd.Series(gained).unstack(), pd.Series(named).unstack()
    figure, axis = plt.subplots(figsize=(2.6 + 1.9 * values.shape[1], 1.9 + 1.1 * values.shape[0]))
    options: dict[str, Any] = {"cmap": "crest", "fmt": "", "annot_kws": {"size": "small"}}
    bar = {"cbar": values.size > 1, "cbar_kws": {"label": "speedup over even"}}
    sns.heatmap(values, annot=texts, ax=axis, **bar, **options)
    axis.set_xlabel(label_of(rows))
    axis.set_ylabel("tokens")
    axis.set_xticklabels([f"{factor}" for factor in values.columns])
    axis.set_yticklabels([f"{length:.0f}" for length in values.index])
    note = f"≈: as fast, as far as is known: {bars_of(rows)}"
    style.caption(figure, "Ring attention: the fastest strategy", note, rows)
    return figure


def tokens(rows: pd.DataFrame) -> Figure:
    """How each strategy shares out the longest sequence, a panel per slowdown."""
    longest = rows[rows["seq_len"] == rows["seq_len"].max()]
    factors = sorted(longest["slowdown"].unique())
    figure, axes = style.panels(len(factors), width=4.0)
    for factor, axis in zip(factors, axes, strict=True):
        part = longest[longest["slowdown"] == factor]
        counts = [[float(count) for count in str(text).strip("[]").split(",")] for text in part["tokens"]]
        left = [0.0] * len(counts)
        for rank in range(max(map(len, counts))):
            shares = [100 * count[rank] / sum(count) for count in counts]
            axis.barh(part["strategy"], shares, left=left, label=f"rank {rank}", color=f"C{rank % 10}")
            left = [before + share for before, share in zip(left, shares, strict=True)]
        axis.set_title(f"slowdown {factor}")
        axis.set_xlabel("share of the tokens [%]")
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
    style.shared_legend(figure, axes[-1])
    note = "of the latest run" if longest["num_runs"].max() > 1 else ""
    style.caption(figure, f"Ring attention: tokens per rank of {longest['seq_len'].max():g}", note, rows)
    return figure

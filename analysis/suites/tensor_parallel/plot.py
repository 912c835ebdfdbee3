"""Tensor-parallel products: implementations beside each other, speedup over the baseline, and maps over shapes."""

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
from analysis.suites.tensor_parallel.rows import BOUNDS, SHAPE, groups_of, shape_of, title_of

MOST_PANELS = 6
"""More shapes than this are told by the maps alone."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Per suite, and what is alike but for shape and implementation."""
    return {
        f"{suite}_{name}{suffix}.png": drawing
        for suite, suffix, rows in groups_of(table)
        for name, drawing in drawings_of(with_ranges(rows), title_of(rows)).items()
    }


def drawings_of(part: pd.DataFrame, title: str) -> Drawings:
    drawings: Drawings = {}
    rivals = part[~part["implementation"].isin(BOUNDS)]
    if part.groupby(SHAPE).ngroups <= MOST_PANELS:
        drawings["time"] = partial(bars, part, title, "median_s", "time of one product [ms]", 1e3)
        if rivals["paired_speedup"].notna().any():
            compared = rivals[rivals["paired_speedup"].notna()]
            drawings["speedup"] = partial(bars, compared, title, "paired_speedup", "time of baseline / time", 1)
    if rivals["paired_speedup"].notna().any():
        drawings["best"] = partial(best_map, rivals, title)
    if rivals["limit_share"].notna().any():
        drawings["limit"] = partial(limit_map, rivals, title)
    return drawings


def bars(rows: pd.DataFrame, title: str, value: str, label: str, scale: float) -> Figure:
    """A bar with its interval per implementation, a panel per shape."""
    shapes = list(rows.groupby(SHAPE))
    figure, axes = style.panels(len(shapes), width=6.0, height=1.2 + 0.28 * rows["name"].nunique(), share=False)
    low, high = ("ci_low_s", "ci_high_s") if value == "median_s" else (f"{value}_low", f"{value}_high")
    for (shape, part), axis in zip(shapes, axes, strict=True):
        values = part[[value, low, high]] * scale
        errors = style.interval_bars(values, value, low, high)
        bounds = part["implementation"].isin(BOUNDS)
        colours = ["lightgray" if bound else "C0" for bound in bounds]
        axis.barh(part["name"], values[value], xerr=errors, color=colours, capsize=3)
        if value != "median_s":
            axis.axvline(1, color="black", linewidth=1)
        axis.set_title(shape_of(shape))
        axis.set_xlabel(label)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
    note = "grey: a part alone; " if value == "median_s" else ""
    style.caption(figure, title, f"{note}median, {bars_of(rows)}", rows)
    return figure


def best_map(rows: pd.DataFrame, title: str) -> Figure:
    """The fastest implementation of each shape, `auto` apart, and its speedup over the baseline."""
    fixed = rows[rows["implementation"] != "auto"]
    best = fixed.loc[fixed.groupby(SHAPE)["median_s"].idxmin()]
    known = fixed.groupby(SHAPE)["paired_speedup"].transform(lambda part: part.notna().any())  # the rest is baseline
    gain = best["paired_speedup"].fillna(1.0).where(known)
    texts = [f"{name}\n{speedup:.2f}×".replace(" ", "\n", 1) for name, speedup in zip(best["name"], gain, strict=True)]
    return shape_map(best.assign(value=gain, text=texts), f"{title}: the fastest", "speedup over the baseline")


def limit_map(rows: pd.DataFrame, title: str) -> Figure:
    """How near the limit the fastest comes: the longer of its computation and communication alone, over its time."""
    rows = rows[rows["limit_share"].notna()]
    best = rows.loc[rows.groupby(SHAPE)["median_s"].idxmin()]
    share = 100 * best["limit_share"]
    texts = [f"{value:.0f} %" for value in share]
    return shape_map(best.assign(value=share, text=texts), f"{title}: how near the limit", "share of the limit [%]")


def shape_map(rows: pd.DataFrame, title: str, label: str) -> Figure:
    """m down, n and k across."""
    index, columns = "m", ["n", "k"]
    values, texts = (
        rows.pivot_table(index=index, columns=columns, values="value"),
        rows.set_index([index, *columns])["text"].unstack(columns),
    )
    figure, axis = plt.subplots(figsize=(2.5 + 1.5 * values.shape[1], 2.0 + 1.0 * values.shape[0]))
    annotate(axis, values, texts, label)
    axis.set_xticklabels([f"{n:.0f}, {k:.0f}" for n, k in values.columns])
    axis.set_yticklabels([f"{m:.0f}" for m in values.index])
    axis.set_xlabel("n, k")
    style.caption(figure, title, label if values.size == 1 else "", rows)  # one cell has no colour bar to tell it
    return figure


def annotate(axis: Axes, values: pd.DataFrame, texts: pd.DataFrame, label: str) -> None:
    options: dict[str, Any] = {"cmap": "crest", "fmt": "", "annot_kws": {"size": "x-small"}}
    bar = {"cbar": values.size > 1, "cbar_kws": {"label": label}}
    sns.heatmap(values, annot=texts.reindex_like(values).fillna(""), ax=axis, **bar, **options)

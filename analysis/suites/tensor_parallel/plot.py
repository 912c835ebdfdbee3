"""Plots implementations of tensor-parallel products: times, speedups, and maps over shapes."""

from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.repetitions import bars_of, with_ranges
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.tensor_parallel.table import SHAPE, baselines_of, groups_of, shape_of, title_of
from benchkit.suites.tensor_parallel.names import AUTO, BOUNDS, IMPLEMENTATION

MOST_PANELS = 6
"""More shapes than this are shown in the maps alone."""
LIMIT = "share of the limit [%]"
BEST_NOTE = "without auto, which is one of the others"
LIMIT_NOTE = (
    "of the fastest without auto; the limit is the longer of its computation and its communication "
    "alone"
)
TIME = "time of one product [ms]"


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw figures per suite and group of rows that differ in shape and implementation alone."""
    drawings: Drawings = {}
    for suite, suffix, rows in groups_of(table):
        for name, drawing in drawings_of(with_ranges(rows), title_of(rows)).items():
            drawings[f"{suite}_{name}{suffix}.png"] = drawing
    return drawings


def drawings_of(part: pd.DataFrame, title: str) -> Drawings:
    drawings: Drawings = {}
    rivals = part[~part[IMPLEMENTATION].isin(BOUNDS)]
    compared = rivals[rivals["paired_speedup"].notna()]
    base = baselines_of(rivals)
    if part.groupby(SHAPE).ngroups <= MOST_PANELS:
        drawings["time"] = partial(bars, part, f"{title}: time", "median_s", TIME, 1e3)
        if not compared.empty:
            head, label = f"{title}: speedup over {base}", f"time of {base} / time"
            drawings["speedup"] = partial(bars, compared, head, "paired_speedup", label, 1)
    if not compared.empty:
        drawings["best"] = partial(best_map, rivals, title, f"speedup over {base}")
    fixed = rivals[rivals[IMPLEMENTATION] != AUTO]
    if fixed["limit_share"].notna().any():
        drawings["limit"] = partial(limit_map, fixed, title)
    return drawings


def bars(rows: pd.DataFrame, title: str, value: str, label: str, scale: float) -> Figure:
    """Plot a bar per implementation, a panel per shape; of speedups the highest comes first.

    Args:
        rows: one per shape and implementation.
        title: of the figure.
        value: the column to show, median_s or paired_speedup.
        label: of the horizontal axis.
        scale: what the column is multiplied by.
    """
    shapes = list(rows.groupby(SHAPE))
    height = 2.0 + 0.28 * rows["name"].nunique()
    figure, axes = style.panels(len(shapes), width=6.0, height=height, share=False)
    low, high = f"{value}_low", f"{value}_high"
    if value == "median_s":
        low, high = "ci_low_s", "ci_high_s"
    else:
        shapes = [(shape, part.sort_values(value, ascending=False)) for shape, part in shapes]
    for (shape, part), axis in zip(shapes, axes, strict=True):
        values = part[[value, low, high]] * scale
        errors = style.interval_bars(values, value, low, high)
        bounds = part[IMPLEMENTATION].isin(BOUNDS)
        colours = ["lightgray" if bound else "C0" for bound in bounds]
        axis.barh(part["name"], values[value], xerr=errors, color=colours, capsize=3)
        if value != "median_s":
            axis.axvline(1, color="black", linewidth=1)
        axis.set_title(shape_of(shape))
        axis.set_xlabel(label)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
    note = "grey: a part alone; " if value == "median_s" else ""
    style.caption(figure, title, f"{note}median, {bars_of(rows, low)}", rows)
    return figure


def best_map(rows: pd.DataFrame, title: str, label: str) -> Figure:
    """Map the fastest implementation of each shape, without `auto`, and its speedup."""
    return shape_map(best_cells(rows), f"{title}: the fastest", label, BEST_NOTE)


def best_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest row of each shape with its speedup as `value`, and both as `text`."""
    fixed = rows[rows[IMPLEMENTATION] != AUTO]
    shapes = fixed.groupby(SHAPE)
    best = fixed.loc[shapes["median_s"].idxmin()]
    # Where others of a shape have a speedup, a row without one is the baseline.
    known = shapes["paired_speedup"].transform(lambda part: part.notna().any())
    gain = best["paired_speedup"].fillna(1.0).where(known)
    texts = []
    for name, speedup in zip(best["name"], gain, strict=True):
        texts.append(f"{name}\n{speedup:.2f}×".replace(" ", "\n", 1))
    return best.assign(value=gain, text=texts)


def limit_map(rows: pd.DataFrame, title: str) -> Figure:
    """Map how near the fastest implementation of each shape, without `auto`, comes to its limit."""
    return shape_map(limit_cells(rows), f"{title}: how near the limit", LIMIT, LIMIT_NOTE)


def limit_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest row of each shape with its share of the limit as `value` and `text`."""
    rows = rows[rows["limit_share"].notna()]
    best = rows.loc[rows.groupby(SHAPE)["median_s"].idxmin()]
    share = 100 * best["limit_share"]
    return best.assign(value=share, text=[f"{value:.0f} %" for value in share])


def shape_map(rows: pd.DataFrame, title: str, label: str, note: str) -> Figure:
    """Draw a map of `value` and `text`, with m down, n and k across.

    Args:
        rows: one per shape.
        title: of the figure.
        label: of the values.
        note: how to read the figure.
    """
    index, columns = "m", ["n", "k"]
    values = rows.pivot_table(index=index, columns=columns, values="value")
    texts = rows.set_index([index, *columns])["text"].unstack(columns)
    size = (2.5 + 1.5 * values.shape[1], 2.0 + 1.0 * values.shape[0])
    figure, axis = plt.subplots(figsize=size)
    annotate(axis, values, texts, label)
    axis.set_xticklabels([f"{n:.0f}, {k:.0f}" for n, k in values.columns])
    axis.set_yticklabels([f"{m:.0f}" for m in values.index])
    axis.set_xlabel("n, k")
    # One cell has no colour bar, whose label would say what the figure is.
    note = f"{label}; {note}" if values.size == 1 else note
    style.caption(figure, title, note, rows)
    return figure


def annotate(axis: Axes, values: pd.DataFrame, texts: pd.DataFrame, label: str) -> None:
    options: dict[str, Any] = {"cmap": "crest", "fmt": "", "annot_kws": {"size": "x-small"}}
    bar = {"cbar": values.size > 1, "cbar_kws": {"label": label}}
    sns.heatmap(values, annot=texts.reindex_like(values).fillna(""), ax=axis, **bar, **options)

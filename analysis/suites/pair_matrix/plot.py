"""Draws the matrix of pairs as a heat map, and the nested groups as a tree."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.discover import Drawings
from analysis.records.of_suite import by_layout, records_of
from analysis.records.places import Place
from analysis.report import style
from analysis.sides import Baseline
from analysis.suites.pair_matrix.matrix import SUITE, Level, Matrix, levels, matrices
from benchkit.record.naming import readable, readable_time
from benchkit.statistics.intervals import Array

MOST_NAMED = 16  # of more ranks, cells have no numbers and axes name nodes alone
SIDE_INCHES = 0.55
WIDEST = 4.0  # ratio of the colours' ends: slower pairs have the darkest colour
SHADES, PALETTE = LogNorm(1 / WIDEST, WIDEST), mpl.colormaps["RdBu_r"]


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    drawings = Drawings()
    rows = table[table["suite"] == SUITE]
    for suffix, records in by_layout(records_of(table, SUITE)):
        for each in matrices(records):
            size = readable(each.size_mib * 2**20).replace(" ", "")
            drawings[f"pairs_{size}{suffix}.png"] = partial(heat_map, each, rows)
        if found := levels(records):
            places = matrices(records)[0].places
            drawings[f"groups{suffix}.png"] = partial(tree, found, places, rows)
    return drawings


def order_of(places: Sequence[Place]) -> list[int]:
    hosts = list(dict.fromkeys(place.host for place in places))
    return sorted(range(len(places)), key=lambda rank: (hosts.index(places[rank].host), rank))


def heat_map(matrix: Matrix, table: pd.DataFrame | None = None) -> Figure:
    """Draw the time of each pair over the median of its kind: a row per sender.

    The rows of `table` name their hardware.
    """
    order, count = order_of(matrix.places), len(matrix.places)
    by_node = np.ix_(order, order)
    seconds, ratios = matrix.seconds()[by_node], matrix.ratios()[by_node]
    side = min(12.0, max(4.0, SIDE_INCHES * count))
    figure, (axis,) = style.panels(1, width=side + 2.2, height=side + 1.2)
    image = axis.imshow(ratios, norm=SHADES, cmap=PALETTE)
    bar = figure.colorbar(image, ax=axis, shrink=0.8, label="time over the median of such pairs")
    ticks = [1 / WIDEST, 0.5, 1, 2, WIDEST]
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.ax.minorticks_off()
    axis.grid(visible=False)
    name_ranks(axis, [matrix.places[rank] for rank in order])
    if count <= MOST_NAMED:
        write_times(axis, seconds, SHADES(ratios))
    axis.set_xlabel("receives")
    axis.set_ylabel("sends")
    size = readable(matrix.size_mib * 2**20)
    unit = "; numbers are ms" if count <= MOST_NAMED else ""
    text = f"median of a message and its short answer{unit}; such pairs: on one node, or "
    text += "across nodes; lines part nodes"
    style.caption(figure, f"Pairs of ranks, {size}", text, table)
    return figure


def name_ranks(axis: Axes, places: Sequence[Place]) -> None:
    """Name each rank, or each node where ranks are many, and draw lines between nodes."""
    hosts = [place.host for place in places]
    starts = bounds(hosts)
    for start in starts[1:-1]:
        axis.axhline(start - 0.5, color="black", linewidth=0.8)
        axis.axvline(start - 0.5, color="black", linewidth=0.8)
    if len(places) <= MOST_NAMED:
        ticks: list[float] = list(range(len(places)))
        labels = [f"{place.rank} {place.host}" for place in places]
    else:
        ticks = [(low + high - 1) / 2 for low, high in pairwise(starts)]
        labels = [hosts[start] for start in starts[:-1]]
        step = -(-len(labels) // MOST_NAMED)
        ticks, labels = ticks[::step], labels[::step]
    axis.set_xticks(ticks, labels, rotation=90)
    axis.set_yticks(ticks, labels)


def bounds(labels: Sequence[object]) -> list[int]:
    """Return where each run of equal labels begins, and where the last one ends."""
    differs = (before != after for before, after in pairwise(labels))
    return [0, *(place for place, here in enumerate(differs, 1) if here), len(labels)]


def write_times(axis: Axes, seconds: Array, shade: Array) -> None:
    """Write the milliseconds of each pair into its cell, white on dark colours."""
    for (row, column), value in np.ndenumerate(seconds):
        if np.isfinite(value):
            dark = abs(float(shade[row, column]) - 0.5) > 0.3
            colour = "white" if dark else "black"
            text = f"{1e3 * value:.3g}"
            axis.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)


def tree(
    found: Sequence[Level], places: Sequence[Place], table: pd.DataFrame | None = None
) -> Figure:
    """Draw a row per level: each group over its ranks, with its time."""
    order = order_of(places)
    width = min(20.0, max(6.0, 0.8 * len(order)))
    figure, (axis,) = style.panels(1, width=width, height=1.2 + 0.8 * len(found))
    for height, level in enumerate(found):
        typical = float(np.median(level.seconds))
        groups = [level.group_of[rank] for rank in order]
        for low, high in pairwise(bounds(groups)):
            seconds = level.seconds[groups[low]]
            colour = PALETTE(SHADES(seconds / typical))
            box = Rectangle((low, height), high - low, 0.9, facecolor=colour, edgecolor="black")
            axis.add_patch(box)
            if len(groups) / (high - low) <= 2 * MOST_NAMED:
                text = readable_time(seconds).replace(" ", "\n", 1)
                middle = (low + high) / 2
                axis.text(middle, height + 0.45, text, ha="center", va="center", fontsize=7)
    axis.set_xlim(0, len(order))
    axis.set_ylim(0, len(found))
    axis.set_yticks([height + 0.45 for height in range(len(found))], [each.name for each in found])
    axis.grid(visible=False)
    if len(order) <= 2 * MOST_NAMED:
        labels = [f"{rank} {places[rank].host}" for rank in order]
        axis.set_xticks([rank + 0.5 for rank in range(len(order))], labels, rotation=90)
    text = "median time of an all-reduce of the largest size in each group, all groups of a level "
    text += "at the same time; red: slower than the others of its level"
    style.caption(figure, "Nested groups", text, table)
    return figure

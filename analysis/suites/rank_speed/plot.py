"""Draws what each rank reaches in each test, with the line of the data sheet."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.discover import Drawings
from analysis.records.of_suite import by_layout, records_of
from analysis.records.places import numbered
from analysis.report import style
from analysis.sides import Baseline
from analysis.suites.rank_speed.speeds import SUITE, Speeds, speeds

MOST_NAMED = 24  # of more ranks, only some are named


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    rows = table[table["suite"] == SUITE]
    drawings = Drawings()
    for suffix, records in by_layout(records_of(table, SUITE)):
        if tests := speeds(records):
            drawings[f"ranks{suffix}.png"] = partial(bars, tests, rows)
    return drawings


def bars(tests: Sequence[Speeds], table: pd.DataFrame | None = None) -> Figure:
    """Draw a panel per test: a bar per rank, its colour that of its node."""
    count = len(tests[0].places)
    width = min(12.0, max(3.6, 0.3 * count))
    figure, axes = style.panels(len(tests), width=width, share=False)
    for axis, test in zip(axes, tests, strict=True):
        draw_test(axis, test)
    text = (
        "median of each rank, all ranks at the same time; a colour per node; whiskers: the first "
    )
    text += "and the second half of the samples, or of the runs; dashed: the data sheet"
    style.caption(figure, "What each rank reaches", text, table)
    return figure


def draw_test(axis: Axes, test: Speeds) -> None:
    scale, unit = (1e-12, "TFLOP/s") if test.is_compute else (1e-9, "GB/s")
    ranks = np.arange(len(test.places))
    rates = scale * test.rates()
    halves = scale * test.amount / np.exp(test.halves)
    whiskers = np.abs(np.stack([rates - halves.min(axis=0), halves.max(axis=0) - rates]))
    colours = [f"C{node % 10}" for node in numbered([place.host for place in test.places])]
    axis.bar(ranks, rates, color=colours, yerr=whiskers, ecolor="black", capsize=2)
    promised = [each.rate * scale for each in test.promises() if each is not None]
    for rate in sorted(set(promised)):
        axis.axhline(rate, color="black", linestyle="--", linewidth=1)
    step = -(-len(ranks) // MOST_NAMED)
    axis.set_xticks(ranks[::step], [str(rank) for rank in ranks[::step]])
    axis.set_xlabel("rank")
    axis.set_ylabel(unit)
    axis.set_title(test.name)

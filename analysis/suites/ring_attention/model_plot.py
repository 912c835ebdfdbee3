"""Plots the time to the first token and per new token of a decoder over implementations."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis.repetitions import bars_of, with_ranges
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.speedup import Baseline
from analysis.suites.ring_attention.model_table import CELL, SUITE, TIMES, groups_of
from benchkit.suites.ring_attention import names

COLOURS = {names.RING: "C0", names.ALL_GATHER: "C1", names.SINGLE: "gray"}


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Draw a figure per phase of each group, with a panel per length and slowdown."""
    drawings: Drawings = {}
    for suffix, rows in groups_of(table):
        for phase, own in with_ranges(rows).groupby(names.PHASE, sort=False):
            drawings[f"{SUITE}_{phase}{suffix}.png"] = partial(bars, own, str(phase))
    return drawings


def bars(rows: pd.DataFrame, phase: str) -> Figure:
    """Draw a bar with its interval per implementation and strategy."""
    cells = list(rows.groupby(CELL))
    num_cases = rows[[names.IMPLEMENTATION, names.STRATEGY]].drop_duplicates().shape[0]
    figure, axes = style.panels(len(cells), height=1.4 + 0.28 * num_cases, share=False)
    for (cell, part), axis in zip(cells, axes, strict=True):
        length, slowdown = cell
        calls = 1.0 if phase == names.PREFILL else part["decode_tokens"].astype(float)
        times = part[["median_s", "ci_low_s", "ci_high_s"]].astype(float).mul(1e3)
        times = times.div(calls, axis=0)
        errors = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
        labels = part[names.IMPLEMENTATION] + " " + part[names.STRATEGY]
        colours = part[names.IMPLEMENTATION].map(COLOURS)
        axis.barh(labels, times["median_s"], xerr=errors, color=list(colours), capsize=3)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_title(f"{length:g} tokens, slowdown {slowdown}")
        axis.set_xlabel(TIMES[phase])
    note = f"median, {bars_of(rows)}; single: the first rank alone, which is not slowed"
    style.caption(figure, f"Decoder on a split sequence: {phase}", note, rows)
    return figure

"""Plots the speedup over a chosen baseline, for every suite that has one."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.repetitions import FEWEST_RUNS, WITHIN
from analysis.report import style
from analysis.report.chart import MOST_SERIES, note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.speedup import ACROSS, Baseline, compared, inner_columns
from benchkit.record.naming import named

ENDS = ("low", "high")
SIZE = "data_size"
FEW_SIZES = 8
"""Of more sizes, powers of two are on the axis."""
HIGHEST = 10.0
"""Inches for names of points below each other."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Return one figure per title that measured more than the baseline."""
    return {
        f"{title}_speedup.png": partial(speedup_figure, rows, chosen, title)
        for title, chosen, rows in compared(table, baseline)
    }


def speedup_figure(rows: pd.DataFrame, baseline: Baseline, title: str) -> Figure:
    """Draw the speedup of every point, over its size or else beside its name."""
    outer, inner = list(baseline.values), inner_columns(rows, baseline)
    if has_sizes(rows, inner):
        others = [*outer, *(name for name in inner if name != SIZE)]
        rows = rows.assign(series=joined(rows, others, ", "))
        if rows["series"].nunique() <= MOST_SERIES:
            return over_size(rows, baseline, title, others)
    rows = rows.assign(series=joined(rows, outer, ", "), point=joined(rows, inner, ", "))
    room = max(0.25, 0.12 * rows["series"].nunique())  # Inches for the marks of a point.
    if rows["point"].nunique() * room > HIGHEST or rows["series"].nunique() > MOST_SERIES:
        return crowd_figure(rows, baseline, title)
    return beside_names(rows, baseline, title, room)


def has_sizes(rows: pd.DataFrame, inner: list[str]) -> bool:
    """Return whether the rows can be drawn over their sizes."""
    return SIZE in inner and bool(rows[SIZE].notna().all())


def over_size(rows: pd.DataFrame, baseline: Baseline, title: str, others: list[str]) -> Figure:
    """Draw a line over size per combination of the other settings."""
    figure, (axis,) = style.panels(1)
    for index, (name, line) in enumerate(rows.groupby("series", sort=False)):
        line = line.sort_values(SIZE)
        bars = style.interval_bars(line.assign(**ends_of(line)), "speedup", *ENDS)
        axis.errorbar(line[SIZE], line["speedup"], bars, label=name, **style.look(index))
    axis.axhline(1, color="black", linewidth=1)
    style.log_bytes(axis, 2**20)
    if rows[SIZE].nunique() <= FEW_SIZES:
        axis.set_xticks(sorted(rows[SIZE].unique()))
    axis.set_xlabel(SIZE)
    axis.set_ylabel(f"time of {baseline} / time")
    style.log_values(axis)
    style.legend(axis, beside=True, title=", ".join(others))
    style.caption(figure, head_of(title, baseline, rows), note_on(rows), rows)
    return figure


def beside_names(rows: pd.DataFrame, baseline: Baseline, title: str, room: float) -> Figure:
    """Draw a mark per value of the baseline's keys beside the name of each point.

    Args:
        rows: with `series` and `point`.
        baseline: of the speedups.
        title: of the rows.
        room: for a point, in inches.
    """
    points, series = list(dict.fromkeys(rows["point"])), list(dict.fromkeys(rows["series"]))
    figure, (axis,) = style.panels(1, width=7.0, height=2.0 + room * len(points))
    for index, name in enumerate(series):
        group = rows[rows["series"] == name]
        offset = 0.6 * ((index + 0.5) / len(series) - 0.5)
        at = [points.index(point) + offset for point in group["point"]]
        bars = style.interval_bars(group.assign(**ends_of(group)), "speedup", *ENDS)
        look = {**style.look(index), "linestyle": ""}
        axis.errorbar(group["speedup"], at, xerr=bars, label=name, **look)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_yticks(range(len(points)), points)
    axis.invert_yaxis()
    axis.set_ylabel(", ".join(inner_columns(rows, baseline)))
    axis.set_xlabel(f"time of {baseline} / time")
    style.log_values(axis, along="x")
    axis.legend(title=", ".join(baseline.values))
    style.caption(figure, head_of(title, baseline, rows), note_on(rows), rows)
    return figure


def head_of(title: str, baseline: Baseline, rows: pd.DataFrame) -> str:
    """Return "all_reduce on gloo: speedup over world_size=2"; of several backends none is named."""
    backends = rows["backend"].dropna().unique()
    of = f" on {backends[0]}" if len(backends) == 1 and "backend" not in baseline.values else ""
    return f"{title}{of}: speedup over {baseline}"


def crowd_figure(rows: pd.DataFrame, baseline: Baseline, title: str) -> Figure:
    """Draw the speedups of many points in order, a line per value of the baseline's keys."""
    series = list(dict.fromkeys(rows["series"]))
    figure, (axis,) = style.panels(1, width=7.0)
    for index, name in enumerate(thinned(series)):
        speedups = rows.loc[rows["series"] == name, "speedup"].sort_values()
        at = np.linspace(0, 100, len(speedups)) if len(speedups) > 1 else [50]
        label = f"{', '.join(baseline.values)} {name}: {len(speedups)} points"
        axis.plot(at, speedups, label=label, markevery=0.1, **style.line_look(index))
    axis.axhline(1, color="black", linewidth=1)
    axis.set_xlabel("points, from the lowest to the highest speedup [%]")
    axis.set_ylabel(f"time of {baseline} / time")
    style.log_values(axis)
    style.legend(axis)
    note = "the points of each in order of their speedup; speedups.csv has them with intervals"
    note += note_thinned(series, f"values of {', '.join(baseline.values)}")
    style.caption(figure, head_of(title, baseline, rows), note, rows)
    return figure


def ends_of(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return ENDS: those of each speedup's interval or, without one, of its range over runs."""
    ranges = ("speedup_range_low", "speedup_range_high")
    pairs = zip(("speedup_low", "speedup_high"), ranges, strict=True)
    return dict(zip(ENDS, (rows[end].fillna(rows[other]) for end, other in pairs), strict=True))


def note_on(rows: pd.DataFrame) -> str:
    """Say what the bars of these rows are."""
    basis, known = rows["speedup_basis"], rows["speedup_low"].notna()
    within, across = basis == WITHIN, basis.str.startswith(ACROSS)
    runs = ~within & ~across
    of_medians = (
        f"what both medians' 95 % intervals allow,\nwhich are {WITHIN}: "
        "no spread between runs is in them"
    )
    notes = {
        of_medians: within & known,
        f"range of the ratios of fewer than {FEWEST_RUNS} runs": runs & ~known,
        "95 % interval between runs": runs & known,
        "what both 95 % intervals between runs allow": across & known,
    }
    applying = [note for note, applies in notes.items() if applies.any()]
    lines = ["bars: " + ";\n".join(applying)] if applying else []
    if ((within | across) & ~known).any():
        lines.append("no bar: the spread is not known")
    return "\n".join(lines)


def joined(rows: pd.DataFrame, columns: list[str], separator: str) -> pd.Series:
    """Join the values of some columns into one label per row."""

    def text(column: str, value: Any) -> str:
        return named(column, value) if pd.notna(value) else "-"

    texts = [rows[column].map(partial(text, column)) for column in columns]
    labels = [separator.join(cells) for cells in zip(*texts, strict=True)]
    return pd.Series(labels or "", index=rows.index)

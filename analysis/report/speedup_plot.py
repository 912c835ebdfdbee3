"""Plots the speedup over a chosen baseline, for every suite that has one."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.repetitions import FEWEST_RUNS
from analysis.report import style
from analysis.report.crowds import MOST_POINTS, MOST_SERIES, note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.run_spread import WITHIN
from analysis.speedup import ACROSS, compared
from analysis.table import identity_columns
from benchkit.record.naming import named


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Return one figure per title that measured more than the baseline."""
    return {
        f"{title}_speedup.png": partial(speedup_figure, rows, chosen, title)
        for title, chosen, rows in compared(table, baseline)
    }


def speedup_figure(rows: pd.DataFrame, baseline: Baseline, title: str) -> Figure:
    """Draw the speedup of every point, with a marker per value of the baseline's keys.

    The axis is logarithmic, so that speedups of 2 and 1/2 are equally far from 1.
    """
    outer, inner = list(baseline.values), inner_columns(rows, baseline)
    rows = rows.assign(series=joined(rows, outer, ", "), point=joined(rows, inner, "\n"))
    points, series = list(dict.fromkeys(rows["point"])), list(dict.fromkeys(rows["series"]))
    if max(len(points) / MOST_POINTS, len(series) / MOST_SERIES) > 1:
        return crowd_figure(rows, baseline, title, series)
    longest = max(len(line) for point in points for line in str(point).split("\n"))
    room = max(0.25 * len(series), 0.11 * longest)  # Inches for a point's bars, and for its label.
    figure, (axis,) = style.panels(1, width=max(5.0, 1.5 + room * len(points)))
    for index, name in enumerate(series):
        group = rows[rows["series"] == name]
        offset = 0.6 * ((index + 0.5) / len(series) - 0.5)
        at = [points.index(point) + offset for point in group["point"]]
        marker = style.MARKERS[index % len(style.MARKERS)]
        look: dict[str, Any] = {"marker": marker, "linestyle": "", "capsize": 3}
        axis.errorbar(at, group["speedup"], bars_around(group), label=name, **look)
    axis.axhline(1, color="black", linewidth=1)
    axis.set_xticks(range(len(points)), points)
    axis.set_xlabel(" / ".join(inner))
    axis.set_ylabel(f"time of {baseline} / time")
    style.log_values(axis)
    axis.legend(title=", ".join(outer))
    style.caption(figure, f"{title}: speedup over {baseline}", note_on(rows), rows)
    return figure


def inner_columns(rows: pd.DataFrame, baseline: Baseline) -> list[str]:
    """Return the settings in which the rows differ, apart from the keys of the baseline."""
    varied = [name for name in identity_columns(rows) if rows[name].nunique(dropna=False) > 1]
    return [name for name in varied if name not in baseline.values]


def crowd_figure(rows: pd.DataFrame, baseline: Baseline, title: str, series: list[str]) -> Figure:
    """Draw the speedups of many points in order, a line per value of the baseline's keys.

    Args:
        rows: one per point.
        baseline: of the speedups.
        title: of the rows.
        series: the values of the baseline's keys.
    """
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
    style.caption(figure, f"{title}: speedup over {baseline}", note, rows)
    return figure


def bars_around(rows: pd.DataFrame) -> list[pd.Series]:
    """Return the lengths of each bar below and above the speedup.

    Where there is neither an interval nor a range, the lengths are NaN and no bar is drawn.
    """
    low, high = ends_of(rows)
    return [(rows["speedup"] - low).clip(lower=0), (high - rows["speedup"]).clip(lower=0)]


def ends_of(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the ends of each speedup's interval or, without one, of its range over runs."""
    low = rows["speedup_low"].fillna(rows["speedup_range_low"])
    return low, rows["speedup_high"].fillna(rows["speedup_range_high"])


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

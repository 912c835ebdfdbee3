"""Speedup over a chosen baseline, for every suite that has one."""

import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from analysis.speedup import Baseline, default_baseline, speedups
from analysis.table import identity_columns, named, subjects


def draw(table: pd.DataFrame, baseline: Baseline | None) -> dict[str, Figure]:
    """One figure per suite (or collective) in which something else than the baseline was measured.

    By default each has its own baseline.
    """
    figures = {}
    measured = table[table["status"] == "ok"]
    for suite, rows in measured.groupby(subjects(measured)):
        chosen = baseline or default_baseline(rows)
        if not chosen.holds(rows).any():
            continue
        compared = speedups(rows, chosen)
        compared = compared[~chosen.holds(compared)]
        if not compared.empty:
            figures[f"{suite}_speedup.png"] = speedup_figure(compared, chosen, str(suite))
    return figures


def speedup_figure(rows: pd.DataFrame, baseline: Baseline, suite: str) -> Figure:
    """Speedup of every point, a marker per value of the baseline's keys; logarithmic, so that 2 and 1/2 are alike."""
    compared = list(baseline.values)
    inner = [name for name in identity_columns(rows) if name not in compared and rows[name].nunique() > 1]
    rows = rows.assign(series=joined(rows, compared, ", "), point=joined(rows, inner, "\n"))
    points, series = list(dict.fromkeys(rows["point"])), list(dict.fromkeys(rows["series"]))
    longest = max(len(line) for point in points for line in str(point).split("\n"))
    room = max(0.25 * len(series), 0.11 * longest)  # inches for a point's bars, and for its label
    figure, (axis,) = style.panels(1, width=max(5.0, 1.5 + room * len(points)))
    for index, name in enumerate(series):
        group = rows[rows["series"] == name].drop_duplicates("point", keep="last")
        at = [points.index(point) + 0.6 * ((index + 0.5) / len(series) - 0.5) for point in group["point"]]
        bars = style.interval_bars(group, "speedup", "speedup_low", "speedup_high")
        marker = style.MARKERS[index % len(style.MARKERS)]
        axis.errorbar(at, group["speedup"], bars, marker=marker, linestyle="", capsize=3, label=name)
    axis.axhline(1, color="black", linewidth=1)
    axis.set_xticks(range(len(points)), points)
    axis.set_xlabel(" / ".join(inner))
    axis.set_ylabel(f"time of {baseline} / time")
    style.log_values(axis)
    axis.legend(title=", ".join(compared))
    style.caption(figure, f"{suite}: speedup over {baseline}", "bars: what both medians' 95 % intervals allow", rows)
    return figure


def joined(rows: pd.DataFrame, columns: list[str], separator: str) -> pd.Series:
    """The values of some columns as one label per row."""
    texts = [[named(name, row[name]) for name in columns] for row in rows[columns].to_dict("records")]
    return pd.Series([separator.join(text) for text in texts], index=rows.index)

"""Speedup over a chosen baseline, for every suite that has one."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis.repetitions import FEWEST_RUNS
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import WITHIN
from analysis.speedup import ACROSS, Baseline, compared
from analysis.table import identity_columns
from analysis.text import named


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """One figure per suite (or collective) in which something else than the baseline was measured."""
    return {
        f"{suite}_speedup.png": partial(speedup_figure, rows, chosen, suite)
        for suite, chosen, rows in compared(table, baseline)
    }


def speedup_figure(rows: pd.DataFrame, baseline: Baseline, suite: str) -> Figure:
    """Speedup of every point, a marker per value of the baseline's keys; logarithmic, so that 2 and 1/2 are alike."""
    outer = list(baseline.values)
    varied = [name for name in identity_columns(rows) if rows[name].nunique(dropna=False) > 1]
    inner = [name for name in varied if name not in outer]
    rows = rows.assign(series=joined(rows, outer, ", "), point=joined(rows, inner, "\n"))
    points, series = list(dict.fromkeys(rows["point"])), list(dict.fromkeys(rows["series"]))
    style.require_few_series(len(series))
    longest = max(len(line) for point in points for line in str(point).split("\n"))
    room = max(0.25 * len(series), 0.11 * longest)  # inches for a point's bars, and for its label
    figure, (axis,) = style.panels(1, width=max(5.0, 1.5 + room * len(points)))
    for index, name in enumerate(series):
        group = rows[rows["series"] == name]
        at = [
            points.index(point) + 0.6 * ((index + 0.5) / len(series) - 0.5)
            for point in group["point"]
        ]
        bars = bars_around(group)
        marker = style.MARKERS[index % len(style.MARKERS)]
        axis.errorbar(
            at, group["speedup"], bars, marker=marker, linestyle="", capsize=3, label=name
        )
    axis.axhline(1, color="black", linewidth=1)
    axis.set_xticks(range(len(points)), points)
    axis.set_xlabel(" / ".join(inner))
    axis.set_ylabel(f"time of {baseline} / time")
    style.log_values(axis)
    axis.legend(title=", ".join(outer))
    style.caption(figure, f"{suite}: speedup over {baseline}", note_on(rows), rows)
    return figure


def bars_around(rows: pd.DataFrame) -> list[pd.Series]:
    """Lengths below and above of the interval, or of the range over runs; NaN, hence no bar, where there is neither."""
    low, high = (
        rows[f"speedup_{end}"].fillna(rows[f"speedup_range_{end}"]) for end in ("low", "high")
    )
    return [(rows["speedup"] - low).clip(lower=0), (high - rows["speedup"]).clip(lower=0)]


def note_on(rows: pd.DataFrame) -> str:
    """What the bars of these rows are."""
    basis, known = rows["speedup_basis"], rows["speedup_low"].notna()
    within, across = basis == WITHIN, basis.str.startswith(ACROSS)
    runs = ~within & ~across
    notes = {
        f"what both medians' 95 % intervals allow,\nwhich are {WITHIN}: no spread between runs is in them": within
        & known,
        f"range of the ratios of fewer than {FEWEST_RUNS} runs": runs & ~known,
        "95 % interval between runs": runs & known,
        "what both 95 % intervals between runs allow": across & known,
    }
    told = [note for note, rows_of_it in notes.items() if rows_of_it.any()]
    unknown = "no bar: the spread is not known" if ((within | across) & ~known).any() else ""
    return "\n".join(filter(None, ("bars: " + ";\n".join(told) if told else "", unknown)))


def joined(rows: pd.DataFrame, columns: list[str], separator: str) -> pd.Series:
    """The values of some columns as one label per row."""
    told = [
        rows[name].map(lambda value, name=name: named(name, value) if pd.notna(value) else "-")
        for name in columns
    ]
    return pd.Series(
        [separator.join(texts) for texts in zip(*told, strict=True)] or "", index=rows.index
    )

"""Maps the fastest strategy of splitting a sequence over length and slowdown."""

import textwrap
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.repetitions import bars_of
from analysis.report import style
from analysis.suites.ring_attention.table import SPEEDUP, label_of
from benchkit.suites.ring_attention.names import EVEN, STRATEGY


def winners(rows: pd.DataFrame) -> Figure:
    """Map the fastest strategy of each cell, with its ties and its speedup over even."""
    gains, texts = {}, {}
    for cell, group in rows.groupby(["seq_len", "slowdown"]):
        _, gains[cell], texts[cell] = winner_of(group)
    values = pd.Series(gains).unstack()
    size = (2.6 + 1.9 * values.shape[1], 1.9 + 1.1 * values.shape[0])
    figure, axis = plt.subplots(figsize=size)
    options: dict[str, Any] = {"cmap": "crest", "fmt": "", "annot_kws": {"size": "small"}}
    bar = {"cbar": values.size > 1, "cbar_kws": {"label": "speedup over even"}}
    sns.heatmap(values, annot=pd.Series(texts).unstack(), ax=axis, **bar, **options)
    axis.set_xlabel(label_of(rows))
    axis.set_ylabel("tokens")
    axis.set_xticklabels([f"{factor}" for factor in values.columns])
    axis.set_yticklabels([f"{length:.0f}" for length in values.index])
    note = f"≈: as fast, as far as is known: {bars_of(rows, SPEEDUP[1])}"
    style.caption(figure, "Ring attention: the fastest strategy", note, rows)
    return figure


def winner_of(cell: pd.DataFrame) -> tuple[pd.Series, float, str]:
    """Find the fastest strategy of a cell, by paired speedups if all have one, else by times.

    Returns:
        Its row, its speedup over even, and a text: its name, the speedup, and the strategies whose
        intervals reach its own.
    """
    gains = cell[list(SPEEDUP)].astype(float)
    gains[cell[STRATEGY] == EVEN] = 1.0
    paired = gains["paired_speedup"]
    best = cell.loc[cell["median_s"].idxmin() if paired.isna().any() else paired.idxmax()]
    # Without an interval, nothing tells a strategy from others.
    unknown = {"paired_speedup": 1.0, "paired_speedup_low": 0.0}
    gain, low, _ = gains.loc[best.name].fillna(unknown)
    highs = gains["paired_speedup_high"].fillna(float("inf"))
    tied = cell.loc[(highs >= low) & (cell.index != best.name), STRATEGY]
    text = textwrap.fill("≈ " + ", ".join(tied), 18) if len(tied) else ""
    return best, gain, f"{best[STRATEGY]}\n{gain:.2f}×\n{text}".strip()

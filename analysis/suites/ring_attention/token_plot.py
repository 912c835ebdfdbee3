"""Plots how strategies split the tokens of a sequence over ranks."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.report import style
from benchkit.suites.ring_attention.names import STRATEGY, TOKENS


def tokens(rows: pd.DataFrame) -> Figure:
    """Plot how each strategy splits the longest sequence, a panel per slowdown."""
    length = rows["seq_len"].max()
    longest = rows[rows["seq_len"] == length]
    factors = sorted(longest["slowdown"].unique())
    figure, axes = style.panels(len(factors), width=4.0)
    for factor, axis in zip(factors, axes, strict=True):
        draw_shares(axis, longest[longest["slowdown"] == factor])
        axis.set_title(f"slowdown {factor}")
        axis.set_xlabel("share of the tokens [%]")
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
    style.shared_legend(figure, axes[-1])
    note = "of the latest run" if longest["num_runs"].max() > 1 else ""
    style.caption(figure, f"Ring attention: tokens per rank of {length:g}", note, rows)
    return figure


def draw_shares(axis: Axes, rows: pd.DataFrame) -> None:
    """Stack each rank's share of the tokens in a bar per strategy."""
    counts = [parse_counts(text) for text in rows[TOKENS]]
    left = [0.0] * len(counts)
    for rank in range(max(map(len, counts))):
        shares = [100 * count[rank] / sum(count) for count in counts]
        label, colour = f"rank {rank}", f"C{rank % 10}"
        axis.barh(rows[STRATEGY], shares, left=left, label=label, color=colour)
        left = [before + share for before, share in zip(left, shares, strict=True)]


def parse_counts(text: object) -> list[float]:
    """Parse the tokens of each rank from "[4096, 2048]"."""
    return [float(count) for count in str(text).strip("[]").split(",")]

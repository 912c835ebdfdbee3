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
    shares = [shares_of(text) for text in rows[TOKENS]]
    left = [0.0] * len(shares)
    for rank in range(max(map(len, shares))):
        own = [share[rank] for share in shares]
        label, colour = f"rank {rank}", f"C{rank % 10}"
        axis.barh(rows[STRATEGY], own, left=left, label=label, color=colour)
        left = [before + share for before, share in zip(left, own, strict=True)]


def shares_of(text: object) -> list[float]:
    """Compute each rank's share of the tokens in percent, from "[4096, 2048]"."""
    counts = [float(count) for count in str(text).strip("[]").split(",")]
    return [100 * count / sum(counts) for count in counts]

"""Plots backends beside each other at one size."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.report import style

RATE = ("rate", "rate_low", "rate_high")


def backends_at(title: str, rows: pd.DataFrame, size: float, bars_are: str) -> Figure:
    """Draw time and bandwidth of every backend over the number of ranks.

    Args:
        title: of the rows, for the caption.
        rows: one per point of this size, with their `place` and `variant`.
        size: data_size in MiB, for the caption.
        bars_are: what the bars are, for the caption.
    """
    figure, (times, rates) = style.panels(2, share=False)
    ranks = sorted(rows["world_size"].unique())
    series = list(rows.groupby(["place", "variant"]))
    width = 0.8 / len(series)
    for index, ((place, variant), group) in enumerate(series):
        offset = (index - (len(series) - 1) / 2) * width
        at = [ranks.index(n) + offset for n in group["world_size"]]
        label = f"{place}, {variant}" if variant else place
        look: dict[str, Any] = {"width": width, "capsize": 3, "label": label}
        milliseconds = group[["median_s", "ci_low_s", "ci_high_s"]] * 1e3
        bars = style.interval_bars(milliseconds, "median_s", "ci_low_s", "ci_high_s")
        times.bar(at, milliseconds["median_s"], yerr=bars, **look)
        rates.bar(at, group["busbw_gb_per_s"].fillna(0), yerr=rate_bars(group), **look)
    times.set_ylabel("time of one call [ms]")
    rates.set_ylabel("bus bandwidth [GB/s, 10⁹ bytes]")
    for axis in (times, rates):
        axis.set_xticks(range(len(ranks)), [str(n) for n in ranks])
        axis.set_xlabel("ranks")
        axis.grid(axis="x", visible=False)
    style.legend(rates if len(series) > style.MANY else times)
    style.caption(figure, f"{title}: {size:g} MiB by backend", f"median, {bars_are}", rows)
    return figure


def rate_bars(rows: pd.DataFrame) -> list[list[float]] | None:
    """Return the bars of the bus bandwidth, whose interval is that of the time."""
    return style.interval_bars(rates_of(rows), *RATE)


def rates_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the bus bandwidth of each row, and the ends of its interval: the columns RATE."""
    rate = rows["busbw_gb_per_s"]
    moved = rate * rows["median_s"]
    ends = (rate, moved / rows["ci_high_s"], moved / rows["ci_low_s"])
    return pd.DataFrame(dict(zip(RATE, ends, strict=True)))

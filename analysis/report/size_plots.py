"""Plots time and bandwidth over size, for every suite that has a key or label `data_size`."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.report import style
from analysis.report.backend_plot import RATE, backends_at, rate_bars, rates_of
from analysis.report.chart import note_thinned, thinned
from analysis.report.discover import Drawings
from analysis.report.size_series import comparison_size, rows_by_title
from analysis.speedup import Baseline
from benchkit.record.naming import readable

HALF = 50.0
"""Share in % at which the size is the half-performance length n½ of R. W. Hockney."""
SHARE_NOTE = "100 %: the highest bandwidth of the series at any size; dashed: half of it"
FEW_SIZES = 8
"""Up to this number of sizes, all are labelled on the axis; of more, powers of two are."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Return up to four figures per title."""
    drawings: Drawings = {}
    for title, rows, bars in rows_by_title(table):
        drawings |= title_drawings(title, rows, bars)
    return drawings


def title_drawings(title: str, rows: pd.DataFrame, bars: str) -> Drawings:
    """Return time over size and, where ranks exchange data, bandwidth and its share of the best.

    Of several backends, time and bandwidth are compared at one size, too.
    """
    drawings: Drawings = {
        f"{title}_time_vs_datasize.png": partial(time_over_size, title, rows, bars)
    }
    moving = rows[rows["busbw_gb_per_s"].notna()]  # A single rank moves nothing.
    if not moving.empty:
        size = comparison_size(moving)
        name = f"{title}_bandwidth_vs_datasize.png"
        drawings[name] = partial(bandwidth_over_size, title, moving, bars)
        scaling = of_several_sizes(moving)
        if not scaling.empty:
            name = f"{title}_share_of_best_vs_datasize.png"
            drawings[name] = partial(share_over_size, title, scaling, bars)
        at_size = moving[moving["data_size"] == size]
        if at_size["place"].nunique() > 1:
            drawings |= comparison_at(title, at_size, size, bars)
    return drawings


def comparison_at(title: str, rows: pd.DataFrame, size: float, bars: str) -> Drawings:
    """Return the figure of backends and variants at one size in MiB."""
    name = f"{title}_backend_comparison_{size:g}mib.png"
    return {name: partial(backends_at, title, rows, size, bars)}


def comparisons_at(table: pd.DataFrame, size: float) -> Drawings:
    """Return the comparison of each title that was measured at a size in MiB."""
    drawings: Drawings = {}
    for title, rows, bars in rows_by_title(table):
        at_size = rows[(rows["data_size"] == size) & rows["busbw_gb_per_s"].notna()]
        if not at_size.empty:
            drawings |= comparison_at(title, at_size, size, bars)
    return drawings


def time_over_size(title: str, rows: pd.DataFrame, bars_are: str) -> Figure:
    """Draw the median time over size, with bars.

    Of few series a band goes from the fastest sample to the 95th percentile.
    """
    figure, axes = place_panels(rows)
    # Bands over bands would hide everything, and merged series have none.
    has_bands = rows["series"].nunique() <= style.MANY and "min_s" in rows
    for place, axis in axes.items():
        for line, look in lines(rows[rows["place"] == place]):
            sizes = line["data_size"]
            times = line[["median_s", "ci_low_s", "ci_high_s"]] * 1e3
            bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
            axis.errorbar(sizes, times["median_s"], bars, capsize=3, **look)
            if has_bands:
                lowest, highest = line["min_s"] * 1e3, line["p95_s"] * 1e3
                axis.fill_between(sizes, lowest, highest, alpha=0.15, color=look["color"])
        style.log_values(axis)
        finish(axis, rows, place)
    first = next(iter(axes.values()))
    first.set_ylabel("time of one call [ms]")
    text = f"median, {bars_are}{note_thinned(*series_in(rows))}"
    if has_bands:
        of_a_run = ", medians over the runs" if rows["num_runs"].max() > 1 else ""
        text += f"\nband: fastest sample to 95th percentile{of_a_run}"
    style.caption(figure, f"{title}: time", text, rows)
    return figure


def bandwidth_over_size(title: str, rows: pd.DataFrame, bars_are: str) -> Figure:
    """Draw the bus bandwidth at the median time over size; its bars are those of the time."""
    figure, axes = place_panels(rows)
    for place, axis in axes.items():
        for line, look in lines(rows[rows["place"] == place]):
            rates = line["busbw_gb_per_s"]
            axis.errorbar(line["data_size"], rates, rate_bars(line), capsize=3, **look)
        axis.set_ylim(bottom=0)
        finish(axis, rows, place)
    first = next(iter(axes.values()))
    first.set_ylabel("bus bandwidth [GB/s, 10⁹ bytes]")
    text = f"payload / median time × bus factor; {bars_are}{note_thinned(*series_in(rows))}"
    style.caption(figure, f"{title}: bus bandwidth", text, rows)
    return figure


def share_over_size(title: str, rows: pd.DataFrame, bars_are: str) -> Figure:
    """Draw the bus bandwidth as a share of the best that the same series reaches at any size."""
    figure, axes = place_panels(rows)
    for place, axis in axes.items():
        for line, look in lines(rows[rows["place"] == place]):
            shares = shares_of(line)
            look["label"] += f"\n{best_of(line)}"
            bars = style.interval_bars(shares, *RATE)
            axis.errorbar(line["data_size"], shares[RATE[0]], bars, capsize=3, **look)
        axis.axhline(HALF, color="black", linewidth=1, linestyle="dashed")
        axis.set_ylim(bottom=0)
        finish(axis, rows, place, beside=True)
    first = next(iter(axes.values()))
    first.set_ylabel("share of the best bandwidth [%]")
    text = f"{SHARE_NOTE}; {bars_are}{note_thinned(*series_in(rows))}"
    style.caption(figure, f"{title}: share of the best bus bandwidth", text, rows)
    return figure


def of_several_sizes(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the series that were measured at more than one size."""
    sizes = rows.groupby(["place", "series"])["data_size"]
    return rows[sizes.transform("nunique") > 1]


def shares_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns RATE of each row, in % of the best bandwidth of its series."""
    best = rows.groupby(["place", "series"])["busbw_gb_per_s"].transform("max")
    return rates_of(rows).div(best, axis="index") * 100


def best_of(line: pd.DataFrame) -> str:
    """Name the best bandwidth of one series: "100 % = 3.21 GB/s at 16 MiB"."""
    best = line.loc[line["busbw_gb_per_s"].idxmax()]
    return f"100 % = {best['busbw_gb_per_s']:.3g} GB/s at {readable(best['data_size'] * 2**20)}"


def place_panels(rows: pd.DataFrame) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with one panel per backend and device, and the panels by these."""
    places = sorted(rows["place"].unique())
    figure, axes = style.panels(len(places))
    return figure, dict(zip(places, axes, strict=True))


def lines(rows: pd.DataFrame) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """Return the rows of each line in order of size, with the keywords of its look."""
    result = []
    for (series, label), group in thinned(list(rows.groupby(["series", "label"]))):
        look = {
            "label": label,
            "color": f"C{series % 10}",
            "marker": style.MARKERS[series % len(style.MARKERS)],
        }
        result.append((group.sort_values("data_size"), look))
    return result


def series_in(rows: pd.DataFrame) -> tuple[list[object], str]:
    """Return the series of some rows, and what they are, for `note_thinned`."""
    return list(rows["series"].unique()), "numbers of ranks"


def finish(axis: Axes, rows: pd.DataFrame, place: str, beside: bool = False) -> None:
    """Set title, x axis and legend of one panel."""
    style.log_bytes(axis, 2**20)
    sizes = sorted(rows["data_size"].unique())
    if len(sizes) <= FEW_SIZES:
        axis.set_xticks(sizes)
    axis.set_xlabel("data_size")
    axis.set_title(place)
    style.legend(axis, beside)

"""Shows time and bandwidth over size, for every suite that has a key or label `data_size`."""

import pandas as pd

from analysis.report.backend_plot import RATE, rates_of
from analysis.report.chart import BYTES, LINES, LOG, Axis, Chart, Charts, points_of
from analysis.report.size_plots import HALF, SHARE_NOTE, of_several_sizes, shares_of
from analysis.report.size_series import rows_by_title
from analysis.speedup import Baseline

SIZE = Axis("data_size", LOG, BYTES)


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return per title what `size_plots` draws over size."""
    charts: Charts = {}
    for title, rows, bars in rows_by_title(table):
        series = tuple(rows.sort_values("series")["label"].unique())
        charts[f"{title}_time_vs_datasize"] = time_over_size(title, rows, series, bars)
        moving = rows[rows["busbw_gb_per_s"].notna()]
        if not moving.empty:
            name = f"{title}_bandwidth_vs_datasize"
            charts[name] = bandwidth_over_size(title, moving, series, bars)
        scaling = of_several_sizes(moving)
        if not scaling.empty:
            name = f"{title}_share_of_best_vs_datasize"
            charts[name] = share_over_size(title, scaling, series, bars)
    return charts


def time_over_size(title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str) -> Chart:
    times = ("median_s", "ci_low_s", "ci_high_s")
    return Chart(
        mark=LINES,
        title=f"{title}: time",
        note=f"median, {bars}",
        x=SIZE,
        y=Axis("time of one call [ms]", LOG),
        points=over_size(rows, times, 1e3),
        series=series,
    )


def bandwidth_over_size(
    title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str
) -> Chart:
    return Chart(
        mark=LINES,
        title=f"{title}: bus bandwidth",
        note=f"payload / median time × bus factor; {bars}",
        x=SIZE,
        y=Axis("bus bandwidth [GB/s, 10⁹ bytes]"),
        points=over_size(rows.assign(**rates_of(rows)), RATE, 1.0),
        series=series,
    )


def share_over_size(title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str) -> Chart:
    return Chart(
        mark=LINES,
        title=f"{title}: share of the best bus bandwidth",
        note=f"{SHARE_NOTE}; {bars}",
        x=SIZE,
        y=Axis("share of the best bandwidth [%]"),
        points=over_size(rows.assign(**shares_of(rows)), RATE, 1.0),
        series=series,
        reference=HALF,
    )


def over_size(rows: pd.DataFrame, values: tuple[str, ...], scale: float) -> pd.DataFrame:
    """Return points with a panel per place and a line per series; sizes are in bytes."""
    rows = rows.sort_values(["place", "series", "data_size"])
    return points_of(rows, rows["data_size"] * 2**20, values, rows["label"], rows["place"], scale)

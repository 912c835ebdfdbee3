"""Figures over size, for every suite that has a key or label `data_size`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd

from analysis.report.chart import (
    BYTES,
    DOTS,
    LINES,
    LOG,
    NAMES,
    RATE,
    TIMES,
    Axis,
    Chart,
    Charts,
    chart_points,
    choose_series_settings,
    map_unique,
    merge_series,
    rates_of,
    setting_name,
)
from analysis.shared.discover import suites_with_comparisons
from analysis.table.combine import HARDWARE_AND_SOFTWARE, identity_columns
from analysis.table.repetitions import (
    MACHINE,
    aggregate_runs,
    describe_error_bars,
    drop_implied_columns,
    fill_with_ranges,
)
from analysis.table.variants import Baseline
from benchkit.record.naming import format_bytes

AXES = ("suite", "backend", "device", "world_size", "data_size")
"""Columns shown by panels, lines and x axes; other varying columns go into the labels."""
VERSIONS = frozenset(HARDWARE_AND_SOFTWARE) - {"device_name"}
BUS_BANDWIDTH = "busbw_gb_per_s"
SIZE = Axis("data_size", LOG, BYTES)
FEW_BANDS = 2
"""Up to this many series have bands from the fastest sample to p95."""


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return charts per title: time over size, bandwidth over size and ranks, and backends."""
    charts: Charts = {}
    for title, rows, bars in rows_by_title(table):
        series = tuple(rows.sort_values("series")["label"].unique())
        charts[f"{title}_time_vs_datasize"] = time_over_size(title, rows, series, bars)
        moving = rows[rows[BUS_BANDWIDTH].notna()]  # A single rank sends nothing.
        if not moving.empty:
            name = f"{title}_bandwidth_vs_datasize"
            charts[name] = bandwidth_over_size(title, moving, series, bars)
        if moving.groupby(["place", "variant", "data_size"])["world_size"].nunique().gt(1).any():
            charts[f"{title}_bandwidth_vs_ranks"] = bandwidth_over_ranks(title, moving, bars)
        size = comparison_size(rows)
        at_size = rows[rows["data_size"] == size]
        if at_size["place"].nunique() > 1:
            charts[comparison_name(title, size)] = compare_backends(title, at_size, size, bars)
    return charts


def comparisons_at(table: pd.DataFrame, size: float) -> Charts:
    """Return the comparison of backends of each title that was measured at a size in MiB."""
    charts: Charts = {}
    for title, rows, bars in rows_by_title(table):
        at_size = rows[rows["data_size"] == size]
        if not at_size.empty:
            charts[comparison_name(title, size)] = compare_backends(title, at_size, size, bars)
    return charts


def comparison_name(title: str, size: float) -> str:
    return f"{title}_backend_comparison_{size:g}mib"


def rows_by_title(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Yield each title with sizes, its points over all runs, and a description of their error bars.

    Too many series are merged. Points have further columns: `place`, the panel; `variant`, the
    settings that no axis shows; `series`, the number of the line; `label`, its name.
    """
    if "data_size" not in table:
        return
    has_size = pd.to_numeric(table["data_size"], errors="coerce") > 0
    is_drawn = table["suite"].isin(suites_with_comparisons())
    measured = table[(table["status"] == "ok") & has_size & ~is_drawn]
    for title, group in measured.groupby("title"):
        rows = fill_with_ranges(aggregate_runs(group, *identity_columns(group)))
        rows["place"] = rows["backend"] + " on " + rows["device"]
        rows, bars = with_variants(rows)
        # Numbered here, so that a series has the same colour in every figure.
        rows["series"] = rows.groupby(["world_size", "variant"]).ngroup()
        ranks = map_unique(rows["world_size"], partial(setting_name, suite_of(rows), "world_size"))
        rows["label"] = [
            f"{ranks}, {variant}" if variant else ranks
            for ranks, variant in zip(ranks, rows["variant"], strict=True)
        ]
        yield str(title), rows, bars


def with_variants(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Add the column `variant`, and merge variants that make too many series.

    A setting that is confounded with backend and device is written into their name. Confounded
    hardware and software are not: the driver of a GPU does not matter beside a row without GPU.

    Returns:
        The rows, and a description of their error bars.
    """
    differing = [
        name
        for name in identity_columns(rows)
        if name not in AXES and rows[name].nunique(dropna=False) > 1
    ]
    within = rows.groupby("place")[differing].nunique(dropna=False).gt(1).any()
    settings = drop_implied_columns(rows, [name for name in differing if within[name]], ["place"])
    of_place = [name for name in differing if name not in MACHINE and not within[name]]
    for name in of_place:
        words = rows[name].map(partial(setting_name, suite_of(rows), name), na_action="ignore")
        rows["place"] += (", " + words).fillna("")
    kept = choose_series_settings(rows, ["world_size"], settings)
    bars = describe_error_bars(rows)
    if len(kept) < len(settings):
        several = ", ".join(name for name in settings if name not in kept)
        count = rows.groupby(["place", "world_size", *settings], dropna=False).ngroups
        bars = f"{count} series merged over {several}: bars from the lowest to the highest"
        rows = merge_series(rows, ["place", "world_size", "data_size", *kept])
    return rows.assign(variant=variants(rows, [name for name in settings if name in kept])), bars


def variants(rows: pd.DataFrame, settings: list[str]) -> Any:
    suite = suite_of(rows)
    labels = [map_unique(rows[name], partial(label_of, suite, name)) for name in settings]
    return [", ".join(label) for label in zip(*labels, strict=True)] if labels else ""


def suite_of(rows: pd.DataFrame) -> str:
    return str(rows["suite"].iloc[0])


def label_of(suite: str, column: str, value: Any) -> str:
    """Format a setting for a legend.

    Versions, and settings that old records lack, include the name of the column.
    """
    if pd.isna(value):
        return f"{column} -"
    return f"{column} {value}" if column in VERSIONS else setting_name(suite, column, value)


def comparison_size(rows: pd.DataFrame) -> float:
    """Return the largest size among those measured on most backends and devices."""
    places = rows.groupby("data_size")["place"].nunique()
    return float(places[places == places.max()].index.max())


def time_over_size(title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str) -> Chart:
    """Return a chart of the median time; few series have bands from the fastest sample to p95."""
    note, bands = f"median, {bars}", {}
    # Many bands would hide each other, and merged series have none.
    if len(series) <= FEW_BANDS and "min_s" in rows:
        of_a_run = ", medians over the runs" if rows["num_runs"].max() > 1 else ""
        note += f"\nband: fastest sample to 95th percentile{of_a_run}"
        bands = {"band_low": rows["min_s"] * 1e3, "band_high": rows["p95_s"] * 1e3}
    return Chart(
        mark=LINES,
        title=f"{title}: time",
        note=note,
        x=SIZE,
        y=Axis("time of one call [ms]", LOG),
        points=points_over_size(rows, TIMES, 1e3, **bands),
        series=series,
    )


def bandwidth_over_size(
    title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str
) -> Chart:
    """Return a chart of the bus bandwidth; its error bars follow from those of the median time."""
    return Chart(
        mark=LINES,
        title=f"{title}: bus bandwidth",
        note=f"payload / median time × bus factor; {bars}",
        x=SIZE,
        y=Axis("bus bandwidth [GB/s, 10⁹ bytes]"),
        points=points_over_size(rows.assign(**rates_of(rows, BUS_BANDWIDTH)), RATE, 1.0),
        series=series,
    )


def bandwidth_over_ranks(title: str, rows: pd.DataFrame, bars: str) -> Chart:
    """Return a chart of the bus bandwidth of each size over the number of ranks."""
    ordered = rows.sort_values(["place", "variant", "data_size", "world_size"])
    sizes = ordered["data_size"].map(lambda size: format_bytes(size * 2**20))
    several = ordered["variant"].nunique() > 1
    series = sizes + ", " + ordered["variant"] if several else sizes
    rates = ordered.assign(**rates_of(ordered, BUS_BANDWIDTH))
    return Chart(
        mark=LINES,
        title=f"{title}: bus bandwidth with more ranks",
        note=f"payload / median time × bus factor; {bars}; equal heights: it scales as it should",
        x=Axis("ranks"),
        y=Axis("bus bandwidth [GB/s, 10⁹ bytes]", LOG),
        points=chart_points(rates, rates["world_size"], RATE, series, rates["place"]),
    )


def points_over_size(
    rows: pd.DataFrame, values: tuple[str, ...], scale: float, **columns: Any
) -> pd.DataFrame:
    """Return points with a panel per place and a line per series; x is in bytes."""
    sizes = rows["data_size"] * 2**20
    points = chart_points(rows, sizes, values, rows["label"], rows["place"], scale, **columns)
    order = rows.sort_values(["place", "series", "data_size"]).index
    return points.loc[order.intersection(points.index, sort=False)]


def compare_backends(title: str, rows: pd.DataFrame, size: float, bars: str) -> Chart:
    """Compare the time of every backend on the same ranks, at one size in MiB."""
    rows = rows.sort_values(["world_size", "variant", "median_s"])
    points = chart_points(rows, rows["label"], TIMES, rows["place"], scale=1e3)
    return Chart(
        mark=DOTS,
        title=f"{title}: {format_bytes(size * 2**20)} by backend",
        note=f"median, {bars}",
        x=Axis("", NAMES),
        y=Axis("time of one call [ms]", LOG),
        points=points,
    )

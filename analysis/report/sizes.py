"""Figures over size, for every suite that has a key or label `data_size`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.discover import Drawings
from analysis.repetitions import bars_of, over_runs, with_ranges
from analysis.report import style
from analysis.report.chart import (
    BYTES,
    LINES,
    LOG,
    RATE,
    TIMES,
    Axis,
    Chart,
    Charts,
    merged,
    points_of,
    rates_of,
    told_apart,
)
from analysis.sides import Baseline
from analysis.table import HARDWARE_AND_SOFTWARE, identity_columns
from benchkit.record.naming import readable

AXES = ("suite", "backend", "device", "world_size", "data_size")
"""What panels, lines and x axes show; any other column that varies is written into the labels."""
BUS_BANDWIDTH = "busbw_gb_per_s"
SIZE = Axis("data_size", LOG, BYTES)
HALF = 50.0
"""Share in % at which the size is the half-performance length n½ of R. W. Hockney."""
FEW_BEST = 4
"""Series whose best bandwidth the small print names."""


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return time over size per title and, where ranks exchange data, bandwidth and its share."""
    charts: Charts = {}
    for title, rows, bars in rows_by_title(table):
        series = tuple(rows.sort_values("series")["label"].unique())
        charts[f"{title}_time_vs_datasize"] = time_over_size(title, rows, series, bars)
        moving = rows[rows[BUS_BANDWIDTH].notna()]  # A single rank moves nothing.
        if not moving.empty:
            name = f"{title}_bandwidth_vs_datasize"
            charts[name] = bandwidth_over_size(title, moving, series, bars)
        if moving.groupby(["place", "variant", "data_size"])["world_size"].nunique().gt(1).any():
            charts[f"{title}_bandwidth_vs_ranks"] = bandwidth_over_ranks(title, moving, bars)
        scaling = of_several_sizes(moving)
        if not scaling.empty:
            charts[f"{title}_share_of_best_vs_datasize"] = share_over_size(
                title, scaling, series, bars
            )
    return charts


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Return the comparison of several backends at one size, per title."""
    drawings: Drawings = {}
    for title, rows, bars in rows_by_title(table):
        moving = rows[rows[BUS_BANDWIDTH].notna()]
        if not moving.empty:
            size = comparison_size(moving)
            at_size = moving[moving["data_size"] == size]
            if at_size["place"].nunique() > 1:
                drawings |= comparison_at(title, at_size, size, bars)
    return drawings


def comparisons_at(table: pd.DataFrame, size: float) -> Drawings:
    """Return the comparison of each title that was measured at a size in MiB."""
    drawings: Drawings = {}
    for title, rows, bars in rows_by_title(table):
        at_size = rows[(rows["data_size"] == size) & rows[BUS_BANDWIDTH].notna()]
        if not at_size.empty:
            drawings |= comparison_at(title, at_size, size, bars)
    return drawings


def rows_by_title(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Yield each title that has sizes, its points over all runs, and what their bars are.

    Series that would be too many are merged. The points have further columns: `place`, the panel;
    `variant`, what no axis shows; `series`, the number of the line; `label`, its name.
    """
    if "data_size" not in table:
        return
    has_size = pd.to_numeric(table["data_size"], errors="coerce") > 0
    measured = table[(table["status"] == "ok") & has_size]
    for title, group in measured.groupby("title"):
        rows = with_ranges(over_runs(group, *identity_columns(group)))
        rows["place"] = rows["backend"] + " on " + rows["device"]
        rows, bars = with_variants(rows)
        # Numbered here, so that a series has the same colour in every figure.
        rows["series"] = rows.groupby(["world_size", "variant"]).ngroup()
        ranks = rows["world_size"].map(lambda count: f"{count} rank{'s' * (count > 1)}")
        rows["label"] = [
            f"{ranks}, {variant}" if variant else ranks
            for ranks, variant in zip(ranks, rows["variant"], strict=True)
        ]
        yield str(title), rows, bars


def with_variants(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Add each row's variant, and merge variants that make too many series.

    Returns:
        The rows, and what their bars are.
    """
    settings = [
        name
        for name in identity_columns(rows)
        if name not in AXES and rows[name].nunique(dropna=False) > 1
    ]
    kept = told_apart(rows, ["world_size"], settings)
    bars = bars_of(rows)
    if len(kept) < len(settings):
        several = ", ".join(name for name in settings if name not in kept)
        count = rows.groupby(["place", "world_size", *settings], dropna=False).ngroups
        bars = f"{count} series merged over {several}: bars from the lowest to the highest"
        rows = merged(rows, ["place", "world_size", "data_size", *kept])
    return rows.assign(variant=variants(rows, [name for name in settings if name in kept])), bars


def variants(rows: pd.DataFrame, settings: list[str]) -> Any:
    labels = {name: rows[name].map(partial(label_of, name)) for name in settings}
    return pd.DataFrame(labels).agg(", ".join, axis=1) if labels else ""


def label_of(column: str, value: Any) -> str:
    """Format a setting for a legend.

    Versions have their name, and so has a setting that old records lack.
    """
    if pd.isna(value):
        return f"{column} -"
    return f"{column} {value}" if column in HARDWARE_AND_SOFTWARE else style.named(column, value)


def comparison_size(rows: pd.DataFrame) -> float:
    """Return the largest of the sizes that most backends and devices have measured."""
    places = rows.groupby("data_size")["place"].nunique()
    return float(places[places == places.max()].index.max())


def time_over_size(title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str) -> Chart:
    """Show the median time; of few series a band goes from the fastest sample to p95."""
    note, bands = f"median, {bars}", {}
    # Bands over bands would hide everything, and merged series have none.
    if len(series) <= style.MANY and "min_s" in rows:
        of_a_run = ", medians over the runs" if rows["num_runs"].max() > 1 else ""
        note += f"\nband: fastest sample to 95th percentile{of_a_run}"
        bands = {"band_low": rows["min_s"] * 1e3, "band_high": rows["p95_s"] * 1e3}
    return Chart(
        mark=LINES,
        title=f"{title}: time",
        note=note,
        x=SIZE,
        y=Axis("time of one call [ms]", LOG),
        points=over_size(rows, TIMES, 1e3, **bands),
        series=series,
    )


def bandwidth_over_size(
    title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str
) -> Chart:
    """Show the bus bandwidth at the median time; its bars are those of the time."""
    return Chart(
        mark=LINES,
        title=f"{title}: bus bandwidth",
        note=f"payload / median time × bus factor; {bars}",
        x=SIZE,
        y=Axis("bus bandwidth [GB/s, 10⁹ bytes]"),
        points=over_size(rows.assign(**rates_of(rows, BUS_BANDWIDTH)), RATE, 1.0),
        series=series,
    )


def bandwidth_over_ranks(title: str, rows: pd.DataFrame, bars: str) -> Chart:
    """Show how the bus bandwidth of each size holds with more ranks."""
    ordered = rows.sort_values(["place", "variant", "data_size", "world_size"])
    sizes = ordered["data_size"].map(lambda size: readable(size * 2**20))
    several = ordered["variant"].nunique() > 1
    series = sizes + ", " + ordered["variant"] if several else sizes
    rates = ordered.assign(**rates_of(ordered, BUS_BANDWIDTH))
    return Chart(
        mark=LINES,
        title=f"{title}: bus bandwidth with more ranks",
        note=f"payload / median time × bus factor; {bars}; equal heights: it scales as it should",
        x=Axis("ranks"),
        y=Axis("bus bandwidth [GB/s, 10⁹ bytes]", LOG),
        points=points_of(rates, rates["world_size"], RATE, series, rates["place"]),
    )


def share_over_size(title: str, rows: pd.DataFrame, series: tuple[str, ...], bars: str) -> Chart:
    """Show the bus bandwidth as a share of the best that the same series reaches at any size."""
    best = rows.loc[rows.groupby(["place", "series"])[BUS_BANDWIDTH].idxmax()]
    known = f" ({'; '.join(best.apply(best_of, axis='columns'))})" if len(best) <= FEW_BEST else ""
    return Chart(
        mark=LINES,
        title=f"{title}: share of the best bus bandwidth",
        note=f"100 %: the highest bandwidth of the series at any size{known}; {bars}",
        x=SIZE,
        y=Axis("share of the best bandwidth [%]"),
        points=over_size(rows.assign(**shares_of(rows)), RATE, 1.0),
        series=series,
        reference=HALF,
    )


def over_size(
    rows: pd.DataFrame, values: tuple[str, ...], scale: float, **more: Any
) -> pd.DataFrame:
    """Return points with a panel per place and a line per series; sizes are in bytes."""
    sizes = rows["data_size"] * 2**20
    points = points_of(rows, sizes, values, rows["label"], rows["place"], scale, **more)
    order = rows.sort_values(["place", "series", "data_size"]).index
    return points.loc[order.intersection(points.index, sort=False)]


def of_several_sizes(rows: pd.DataFrame) -> pd.DataFrame:
    sizes = rows.groupby(["place", "series"])["data_size"]
    return rows[sizes.transform("nunique") > 1]


def shares_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns RATE of each row, in % of the best bandwidth of its series."""
    best = rows.groupby(["place", "series"])[BUS_BANDWIDTH].transform("max")
    return rates_of(rows, BUS_BANDWIDTH).div(best, axis="index") * 100


def best_of(row: Any) -> str:
    """Name the best bandwidth of one series: "2 ranks: 3.21 GB/s at 16 MiB"."""
    size = readable(row["data_size"] * 2**20)
    return f"{row['label']}: {row['busbw_gb_per_s']:.3g} GB/s at {size}"


def comparison_at(title: str, rows: pd.DataFrame, size: float, bars: str) -> Drawings:
    """Return the figure of backends and variants at one size in MiB."""
    name = f"{title}_backend_comparison_{size:g}mib.png"
    return {name: partial(backends_at, title, rows, size, bars)}


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
        milliseconds = group[list(TIMES)] * 1e3
        bars = style.interval_bars(milliseconds, *TIMES)
        times.bar(at, milliseconds["median_s"], yerr=bars, **look)
        bars = style.interval_bars(rates_of(group, BUS_BANDWIDTH), *RATE)
        rates.bar(at, group[BUS_BANDWIDTH].fillna(0), yerr=bars, **look)
    times.set_ylabel("time of one call [ms]")
    rates.set_ylabel("bus bandwidth [GB/s, 10⁹ bytes]")
    for axis in (times, rates):
        axis.set_xticks(range(len(ranks)), [str(n) for n in ranks])
        axis.set_xlabel("ranks")
        axis.grid(axis="x", visible=False)
    style.shared_legend(figure, [times])
    style.caption(figure, f"{title}: {size:g} MiB by backend", f"median, {bars_are}", rows)
    return figure

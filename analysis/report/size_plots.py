"""Plots time and bandwidth over size, for every suite that has a key or label `data_size`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.repetitions import over_runs
from analysis.report import style
from analysis.report.backend_plot import backends_at, rate_bars
from analysis.report.crowds import merged, note_thinned, thinned, told_apart
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.table import HARDWARE_AND_SOFTWARE, identity_columns

AXES = ("suite", "backend", "device", "world_size", "data_size")
"""What panels, lines and x axes show; any other column that varies is written into the labels."""
FEW_SIZES = 8
"""Up to this number of sizes, all are labelled on the axis; of more, powers of two are."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Return up to three figures per title."""
    drawings: Drawings = {}
    for title, rows, bars in rows_by_title(table):
        drawings |= title_drawings(title, rows, bars)
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
    """Add which variant a row is of, and merge variants where they make too many series.

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


def title_drawings(title: str, rows: pd.DataFrame, bars: str) -> Drawings:
    """Return time over size and, where ranks exchange data, bandwidth over size.

    Of several backends or variants, both are compared at one size, too.
    """
    drawings: Drawings = {
        f"{title}_time_vs_datasize.png": partial(time_over_size, title, rows, bars)
    }
    moving = rows[rows["busbw_gb_per_s"].notna()]  # A single rank moves nothing.
    if not moving.empty:
        size = comparison_size(moving)
        name = f"{title}_bandwidth_vs_datasize.png"
        drawings[name] = partial(bandwidth_over_size, title, moving, bars)
        at_size = moving[moving["data_size"] == size]
        if len(at_size[["place", "variant"]].drop_duplicates()) > 1:
            name = f"{title}_backend_comparison_{size:g}mb.png"
            drawings[name] = partial(backends_at, title, at_size, size, bars)
    return drawings


def variants(rows: pd.DataFrame, settings: list[str]) -> Any:
    """Return a label per row of some settings."""
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


def finish(axis: Axes, rows: pd.DataFrame, place: str) -> None:
    """Set title, x axis and legend of one panel."""
    style.log_bytes(axis, 2**20)
    sizes = sorted(rows["data_size"].unique())
    if len(sizes) <= FEW_SIZES:
        axis.set_xticks(sizes)
    axis.set_xlabel("data_size")
    axis.set_title(place)
    style.legend(axis)

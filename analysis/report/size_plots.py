"""Time and bandwidth over size, and backends beside each other at one size, for every suite that has a data_size."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.repetitions import over_runs
from analysis.report import style
from analysis.report.discover import Drawings
from analysis.run_spread import bars_of, with_ranges
from analysis.speedup import Baseline
from analysis.table import HARDWARE_AND_SOFTWARE, identity_columns, subjects

AXES = ("suite", "backend", "device", "world_size", "data_size")
"""What panels, lines and x axes show; any other column that varies is written into the labels."""
FEW_SIZES = 8
"""So many are named on the axis; of more, powers of two."""


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    """Three figures per suite, or per collective."""
    if "data_size" not in table:
        return {}
    drawings: Drawings = {}
    measured = table[
        (table["status"] == "ok") & (pd.to_numeric(table["data_size"], errors="coerce") > 0)
    ]
    for name, rows in measured.groupby(subjects(measured)):
        drawings |= suite_drawings(str(name), with_ranges(over_runs(rows, *identity_columns(rows))))
    return drawings


def suite_drawings(suite: str, rows: pd.DataFrame) -> Drawings:
    """Time over size; where anything is moved between ranks, bandwidth over size and by backend."""
    varied = [
        name
        for name in identity_columns(rows)
        if name not in AXES and rows[name].nunique(dropna=False) > 1
    ]
    rows["place"] = rows["backend"] + " on " + rows["device"]
    named = pd.DataFrame(
        {name: rows[name].map(lambda value, name=name: label_of(name, value)) for name in varied}
    )
    rows["variant"] = named.agg(", ".join, axis=1) if varied else ""
    rows["series"] = rows.groupby(
        ["world_size", "variant"]
    ).ngroup()  # the same colour in every figure
    drawings: Drawings = {f"{suite}_time_vs_datasize.png": partial(time_over_size, suite, rows)}
    moving = rows[rows["busbw_gb_per_s"].notna()]  # one rank moves nothing
    if not moving.empty:
        size = comparison_size(moving)
        drawings[f"{suite}_bandwidth_vs_datasize.png"] = partial(bandwidth_over_size, suite, moving)
        at_size = moving[moving["data_size"] == size]
        name = f"{suite}_backend_comparison_{size:g}mb.png"
        drawings[name] = partial(backends_at, suite, at_size, size)
    return drawings


def label_of(column: str, value: Any) -> str:
    """A setting as a legend has it: versions need their name, and so does what old records do not tell."""
    if pd.isna(value):
        return f"{column} -"
    return f"{column} {value}" if column in HARDWARE_AND_SOFTWARE else style.named(column, value)


def comparison_size(rows: pd.DataFrame) -> float:
    """The largest of the sizes that most backends and devices have measured."""
    places = rows.groupby("data_size")["place"].nunique()
    return float(places[places == places.max()].index.max())


def time_over_size(suite: str, rows: pd.DataFrame) -> Figure:
    """Median time, with its 95 % interval as bars and the range from the fastest sample to the 95th percentile."""
    figure, axes = place_panels(rows)
    crowded = rows["series"].nunique() > style.MANY  # bands over bands hide everything
    for place, axis in axes.items():
        for line, look in lines(rows[rows["place"] == place]):
            times = line[["median_s", "ci_low_s", "ci_high_s", "min_s", "p95_s"]] * 1e3
            bars = style.interval_bars(times, "median_s", "ci_low_s", "ci_high_s")
            axis.errorbar(line["data_size"], times["median_s"], bars, capsize=3, **look)
            if not crowded:
                axis.fill_between(
                    line["data_size"],
                    times["min_s"],
                    times["p95_s"],
                    alpha=0.15,
                    color=look["color"],
                )
        style.log_values(axis)
        finish(axis, rows, place)
    first = next(iter(axes.values()))
    first.set_ylabel("time of one call [ms]")
    of_a_run = ", medians over the runs" if rows["num_runs"].max() > 1 else ""
    style.caption(
        figure,
        f"{suite}: time",
        f"median, {bars_of(rows)}"
        + ("" if crowded else f"\nband: fastest sample to 95th percentile{of_a_run}"),
        rows,
    )
    return figure


def bandwidth_over_size(suite: str, rows: pd.DataFrame) -> Figure:
    """Bus bandwidth at the median time; its interval is that of the time."""
    figure, axes = place_panels(rows)
    for place, axis in axes.items():
        for line, look in lines(rows[rows["place"] == place]):
            axis.errorbar(
                line["data_size"], line["busbw_gb_per_s"], rate_bars(line), capsize=3, **look
            )
        axis.set_ylim(bottom=0)
        finish(axis, rows, place)
    first = next(iter(axes.values()))
    first.set_ylabel("bus bandwidth [GB/s, 10⁹ bytes]")
    style.caption(
        figure,
        f"{suite}: bus bandwidth",
        f"payload / median time × bus factor; {bars_of(rows)}",
        rows,
    )
    return figure


def rate_bars(rows: pd.DataFrame) -> list[list[float]] | None:
    """Bars of the bus bandwidth: its interval is that of the time."""
    rate = rows["busbw_gb_per_s"]
    moved = rate * rows["median_s"]
    shown = pd.DataFrame(
        {"rate": rate, "low": moved / rows["ci_high_s"], "high": moved / rows["ci_low_s"]}
    )
    return style.interval_bars(shown, "rate", "low", "high")


def backends_at(suite: str, rows: pd.DataFrame, size: float) -> Figure:
    """Time and bandwidth of every backend over the number of ranks, at one size."""
    figure, (times, rates) = style.panels(2, share=False)
    ranks = sorted(rows["world_size"].unique())
    series = list(rows.groupby(["place", "variant"]))
    style.require_few_series(len(series))
    width = 0.8 / len(series)
    for index, ((place, variant), group) in enumerate(series):
        at = [ranks.index(n) + (index - (len(series) - 1) / 2) * width for n in group["world_size"]]
        milliseconds = group[["median_s", "ci_low_s", "ci_high_s"]] * 1e3
        bars = style.interval_bars(milliseconds, "median_s", "ci_low_s", "ci_high_s")
        label = f"{place}, {variant}" if variant else place
        times.bar(at, milliseconds["median_s"], width, yerr=bars, capsize=3, label=label)
        rates.bar(
            at,
            group["busbw_gb_per_s"].fillna(0),
            width,
            yerr=rate_bars(group),
            capsize=3,
            label=label,
        )
    for axis, name in (
        (times, "time of one call [ms]"),
        (rates, "bus bandwidth [GB/s, 10⁹ bytes]"),
    ):
        axis.set_xticks(range(len(ranks)), [str(n) for n in ranks])
        axis.set_xlabel("ranks")
        axis.set_ylabel(name)
        axis.grid(axis="x", visible=False)
    style.legend(rates if len(series) > style.MANY else times)
    style.caption(figure, f"{suite}: {size:g} MiB by backend", f"median, {bars_of(rows)}", rows)
    return figure


def place_panels(rows: pd.DataFrame) -> tuple[Figure, dict[str, Axes]]:
    """One panel per backend and device."""
    places = sorted(rows["place"].unique())
    figure, axes = style.panels(len(places))
    return figure, dict(zip(places, axes, strict=True))


def lines(rows: pd.DataFrame) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """The rows of each line in order of size, with its look."""
    result = []
    style.require_few_series(rows["series"].nunique())
    for (series, ranks, variant), group in rows.groupby(["series", "world_size", "variant"]):
        label = f"{ranks} {'rank' if ranks == 1 else 'ranks'}" + (f", {variant}" if variant else "")
        look = {
            "label": label,
            "color": f"C{series % 10}",
            "marker": style.MARKERS[series % len(style.MARKERS)],
        }
        result.append((group.sort_values("data_size"), look))
    return result


def finish(axis: Axes, rows: pd.DataFrame, place: str) -> None:
    """Title, x axis and legend of one panel."""
    style.log_bytes(axis, 2**20)
    sizes = sorted(rows["data_size"].unique())
    if len(sizes) <= FEW_SIZES:
        axis.set_xticks(sizes)
    axis.set_xlabel("data_size")
    axis.set_title(place)
    style.legend(axis)

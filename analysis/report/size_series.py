"""Selects the points over size of a title and what is one series, for plots and charts."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd

from analysis.repetitions import bars_of, over_runs, with_ranges
from analysis.report import style
from analysis.report.chart import merged, told_apart
from analysis.table import HARDWARE_AND_SOFTWARE, identity_columns

AXES = ("suite", "backend", "device", "world_size", "data_size")
"""What panels, lines and x axes show; any other column that varies is written into the labels."""


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

"""Shows the times of collectives over payloads, with the fitted lines."""

import pandas as pd

from analysis.repetitions import bars_of, with_ranges
from analysis.report.chart import BYTES, LOG, SCATTER, SECONDS, Axis, Chart, Charts, points_of
from analysis.speedup import Baseline
from analysis.suites.collective.plot import TITLE, fitted
from analysis.suites.collective.table import Series, groups_of


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return a figure per group: a panel per collective, a series per number of ranks."""
    return {f"link{suffix}": times(series).of_group(suffix) for suffix, series in groups_of(table)}


def times(series: list[Series]) -> Chart:
    points = pd.concat([points_of_series(one) for one in series])
    counts = sorted({one.world_size for one in series})
    measured = pd.concat([one.rows for one in series])
    return Chart(
        mark=SCATTER,
        title=TITLE,
        note=f"median, {bars_of(measured)}; dashed: fitted latency + bytes / bandwidth",
        x=Axis("payload", LOG, BYTES),
        y=Axis("time of one call", LOG, SECONDS),
        points=points,
        series=tuple(map(label, counts)),
        curves=pd.concat([curves(one) for one in series], ignore_index=True),
    )


def label(count: int) -> str:
    return f"{count} ranks"


def points_of_series(series: Series) -> pd.DataFrame:
    rows = with_ranges(series.rows)
    values = ("median_s", "ci_low_s", "ci_high_s")
    return points_of(rows, series.sizes, values, label(series.world_size), series.collective)


def curves(series: Series) -> pd.DataFrame:
    """Return the lines of the fit, each as a series of its own where there are several."""
    found = []
    for number, (sizes, times_s) in enumerate(fitted(series)):
        name = label(series.world_size)
        curve = {"panel": series.collective, "series": name, "x": sizes, "value": times_s}
        found.append(pd.DataFrame(curve).assign(part=number))
    return pd.concat(found, ignore_index=True)

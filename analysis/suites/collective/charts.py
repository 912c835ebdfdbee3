"""Shows the times of collectives over payloads, with the fitted lines."""

import numpy as np
import pandas as pd

from analysis.repetitions import bars_of, with_ranges
from analysis.report.chart import BYTES, LOG, SCATTER, SECONDS, Axis, Chart, Charts, points_of
from analysis.sides import Baseline
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
        title="Collectives: time over payload",
        note=(
            f"median, {bars_of(measured)}; dashed: fitted latency + bytes / bandwidth, "
            "shaded: its 95 % interval above 0"
        ),
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
    """Return the lines of the fit, each as a part of its own, with their intervals.

    An interval that reaches 0, which a logarithmic axis cannot show, is left out.
    """
    starts = [line.low_bytes or min(series.sizes) for line in series.fit.lines]
    stops = [*starts[1:], max(series.sizes)]
    found = []
    for part, (line, start, stop) in enumerate(zip(series.fit.lines, starts, stops, strict=True)):
        sizes = np.geomspace(start, stop, 50).tolist()
        ends = np.array([line.interval(1, size) or (np.nan, np.nan) for size in sizes])
        ends[ends[:, 0] <= 0] = np.nan
        curve = {"x": sizes, "value": [line.seconds(size) for size in sizes], "part": part}
        found.append(pd.DataFrame(curve).assign(low=ends[:, 0], high=ends[:, 1]))
    return pd.concat(found, ignore_index=True).assign(
        panel=series.collective, series=label(series.world_size)
    )

"""The figure of vector_sum."""

import pandas as pd
from analysis.report.chart import LINES, LOG, Axis, Chart, Charts, chart_points
from analysis.table.variants import Baseline


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    rows = table[(table["suite"] == "vector_sum") & (table["status"] == "ok")]
    if rows.empty:
        return {}
    points = chart_points(rows, rows["length"], ("median_s",), rows["world_size"].map("{} ranks".format), scale=1e6)
    axes = {"x": Axis("elements", LOG), "y": Axis("time of a sum [µs]")}
    return {"vector_sum": Chart(mark=LINES, title="Sum of a vector", note="median", points=points, **axes)}

"""The plot of vector_sum."""

from functools import partial

import pandas as pd
from analysis.discover import Drawings
from analysis.report import style
from analysis.variants import Baseline
from matplotlib.figure import Figure


def draw(table: pd.DataFrame, baseline: Baseline | None) -> Drawings:
    rows = table[table["suite"] == "vector_sum"]
    return {} if rows.empty else {"vector_sum.png": partial(time_over_length, rows)}


def time_over_length(rows: pd.DataFrame) -> Figure:
    figure, (axis,) = style.panels(1)
    axis.plot(rows["length"], 1e6 * rows["median_s"], "o-")
    axis.set_xlabel("elements")
    axis.set_ylabel("time of a sum [µs]")
    return figure

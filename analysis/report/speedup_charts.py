"""Shows the speedup over a chosen baseline, for every suite that has one."""

import pandas as pd

from analysis.report.chart import BYTES, DOTS, LINES, LOG, NAMES, Axis, Chart, Charts, points_of
from analysis.report.speedup_plot import (
    ENDS,
    SIZE,
    ends_of,
    has_sizes,
    head_of,
    joined,
    note_on,
)
from analysis.speedup import Baseline, compared, inner_columns


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return one figure per title that measured more than the baseline."""
    return {
        f"{title}_speedup": speedup(title, chosen, rows)
        for title, chosen, rows in compared(table, baseline)
    }


def speedup(title: str, baseline: Baseline, rows: pd.DataFrame) -> Chart:
    """Show the speedup of every point, over its size or else beside its name."""
    outer, inner = list(baseline.values), inner_columns(rows, baseline)
    over_size = has_sizes(rows, inner)
    of_series = [*outer, *(name for name in inner if over_size and name != SIZE)]
    return Chart(
        mark=LINES if over_size else DOTS,
        title=head_of(title, baseline, rows),
        note=note_on(rows),
        x=Axis(SIZE, LOG, BYTES) if over_size else Axis(", ".join(inner), NAMES),
        y=Axis(f"time of {baseline} / time", LOG),
        points=points_of(
            rows.assign(**ends_of(rows)),
            rows[SIZE] * 2**20 if over_size else joined(rows, inner, ", "),
            ("speedup", *ENDS),
            f"{', '.join(of_series)} " + joined(rows, of_series, ", "),
        ),
        reference=1,
    )

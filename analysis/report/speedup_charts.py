"""Shows the speedup over a chosen baseline, for every suite that has one."""

import pandas as pd

from analysis.baseline import Baseline
from analysis.report.chart import DOTS, LOG, NAMES, Axis, Chart, Charts, points_of
from analysis.report.speedup_plot import ENDS, ends_of, head_of, inner_columns, joined, note_on
from analysis.speedup import compared


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return one figure per title that measured more than the baseline."""
    return {
        f"{title}_speedup": speedup(title, chosen, rows)
        for title, chosen, rows in compared(table, baseline)
    }


def speedup(title: str, baseline: Baseline, rows: pd.DataFrame) -> Chart:
    """Show the speedup of every point, with a series per value of the baseline's keys."""
    outer, inner = list(baseline.values), inner_columns(rows, baseline)
    return Chart(
        mark=DOTS,
        title=head_of(title, baseline, rows),
        note=note_on(rows),
        x=Axis(", ".join(inner), NAMES),
        y=Axis(f"time of {baseline} / time", LOG),
        points=points_of(
            rows.assign(**ends_of(rows)),
            joined(rows, inner, ", "),
            ("speedup", *ENDS),
            f"{', '.join(outer)} " + joined(rows, outer, ", "),
        ),
        reference=1,
    )

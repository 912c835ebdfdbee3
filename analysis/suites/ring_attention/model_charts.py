"""Shows the time to the first token and per new token of a decoder over implementations."""

import pandas as pd

from analysis.repetitions import bars_of, with_ranges
from analysis.report.chart import BARS, NAMES, Axis, Chart, Charts, points_of
from analysis.sides import Baseline
from analysis.suites.ring_attention.model_table import CELL, SUITE, TIMES, groups_of
from benchkit.suites.ring_attention import suite as names


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return a figure per phase of each group, with a panel per length and slowdown."""
    return {
        f"{SUITE}_{phase}{suffix}": bars(own, str(phase)).of_group(suffix)
        for suffix, rows in groups_of(table)
        for phase, own in with_ranges(rows).groupby(names.PHASE, sort=False)
    }


def bars(rows: pd.DataFrame, phase: str) -> Chart:
    """Show a bar with its interval per implementation and strategy."""
    rows = rows.sort_values(CELL, kind="stable")
    calls = 1.0 if phase == names.PREFILL else rows["decode_tokens"].astype(float)
    values = ["median_s", "ci_low_s", "ci_high_s"]
    times = rows.assign(**rows[values].astype(float).mul(1e3).div(calls, axis=0))
    panels = [
        f"{length:g} tokens, slowdown {slowdown}"
        for length, slowdown in zip(*(rows[name] for name in CELL), strict=True)
    ]
    return Chart(
        mark=BARS,
        title=f"Decoder on a split sequence: {phase}",
        note=f"median, {bars_of(rows)}; single: the first rank alone, which is not slowed",
        x=Axis("implementation and strategy", NAMES),
        y=Axis(TIMES[phase]),
        points=points_of(
            times,
            rows[names.IMPLEMENTATION] + " " + rows[names.STRATEGY],
            tuple(values),
            rows[names.IMPLEMENTATION],
            panels,
        ),
        series=(names.RING, names.ALL_GATHER, names.SINGLE),
        is_shared=False,
    )

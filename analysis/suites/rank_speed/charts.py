"""Charts of the rate of each rank in each test, relative to the median of all ranks."""

import numpy as np
import pandas as pd

from analysis.records.suite_rows import group_by_layout, measured_rows, records_of
from analysis.report.chart import BARS, NAMES, Axis, Chart, Charts, chart_points
from analysis.shared.text import format_measurement
from analysis.suites.rank_speed.speeds import SUITE, Speeds, speeds
from analysis.table.variants import Baseline

NOTE = (
    "100 %: the median of the ranks, all at the same time; bars: the first and the second half of "
    "the samples, or of the runs"
)


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    rows = measured_rows(table, SUITE)
    return {
        f"ranks{suffix}": ranks(tests, rows)
        for suffix, records in group_by_layout(records_of(table, SUITE))
        if (tests := speeds(records))
    }


def ranks(tests: list[Speeds], rows: pd.DataFrame) -> Chart:
    """Return a chart with a panel per test and a bar per rank, coloured by node."""
    points = pd.concat([bars(test, rows) for test in tests])
    return Chart(
        mark=BARS,
        title="What each rank reaches",
        note=NOTE,
        x=Axis("rank", NAMES),
        y=Axis("of the median rank [%]"),
        points=points,
        reference=100,
    )


def bars(test: Speeds, rows: pd.DataFrame) -> pd.DataFrame:
    typical = float(np.median(test.rates()))
    has_nodes = len({place.host for place in test.places}) > 1
    halves = np.sort(test.amount / np.exp(test.halves), axis=0) / typical
    cells = pd.DataFrame({
        "rate": test.rates() / typical,
        "low": halves[0],
        "high": halves[1],
        "x": [f"rank {place.rank}" for place in test.places],
        "node": [place.host if has_nodes else "" for place in test.places],
        "device_name": [place.device or None for place in test.places],
    })  # fmt: skip
    cells["suite"] = rows["suite"].iloc[0]
    return chart_points(cells, cells["x"], ("rate", "low", "high"), cells["node"], panel(test), 100)


def panel(test: Speeds) -> str:
    """Format a test, its median rate, and its share of the data sheet rate."""
    scale, unit = (1e-12, "TFLOP/s") if test.is_compute else (1e-9, "GB/s")
    typical = float(np.median(test.rates()))
    known_rates = [expected.rate for expected in test.sheet_rates() if expected is not None]
    share = f", {100 * typical / max(known_rates):.0f} % of the data sheet" if known_rates else ""
    return f"{test.name}: {format_measurement(scale * typical)} {unit}{share}"

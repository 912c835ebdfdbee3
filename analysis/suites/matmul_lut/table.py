"""The look-up table of matmul_lut, from which split strategies take speeds; its figures."""

from collections.abc import Iterator

import pandas as pd

from analysis.records.slowdowns import Slowdown, format_factor_range, slowdowns
from analysis.records.suite_rows import measured_rows
from analysis.report.chart import LINES, LOG, TIMES, Axis, Chart, Charts, chart_points, group_charts
from analysis.shared.text import as_csv, comment
from analysis.table.repetitions import (
    aggregate_runs,
    describe_error_bars,
    fill_with_ranges,
    format_count_range,
    group_by_mechanism,
)
from analysis.table.variants import Baseline
from benchkit.api import lut
from benchkit.api.lut import SIZE

SUITE = "matmul_lut"
SOURCE = {
    "host": "host",
    "device_name": "device name",
    "slowed_by": "slowed by",
    "threads_per_rank": lut.THREADS,
}
"""Columns with the origin of the times, and their names in comments."""
NAME = "share"  # of the device, in words
DOUBT = "doubt"  # why a row of the table cannot be right; empty else
FASTER = "faster than a larger share"
COLUMNS = [lut.SHARE, lut.SIZE, lut.DTYPE, lut.STREAMS, "avg_ms", lut.RATE]
"""Columns as in the tables of hpml_testing (Columbia, 2025); SHARE is the requested share."""


def write(table: pd.DataFrame) -> dict[str, str]:
    """Return a table per machine and mechanism; comments state what was measured, how and when."""
    groups = groups_of(table, lut.DTYPE, lut.STREAMS)
    return {f"{SUITE}{suffix}.csv": text_of(group) for suffix, group in groups}


def groups_of(table: pd.DataFrame, *further: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Group measured rows of single ranks; rows differ only in size, share and further columns.

    Adds the requested share of the device in percent, and NAME.
    """
    rows = measured_rows(table, SUITE)
    rows = rows[rows["world_size"] == 1]
    if rows.empty:
        return
    for suffix, group in group_by_mechanism(rows, lut.SIZE, "slowdown", *further):
        whole = 100 / group["ranks_per_device"].where(group["device"] == "cuda", 1)
        whole_and_slowdown = list(zip(whole, slowdowns(group), strict=True))
        shares = {lut.SHARE: [share_of(*pair) for pair in whole_and_slowdown]}
        yield (
            suffix,
            group.assign(**shares, **{NAME: [name_of(*pair) for pair in whole_and_slowdown]}),
        )


def share_of(whole: float, slowdown: Slowdown) -> float:
    return round(whole / slowdown.factors[-1], 3)


def name_of(whole: float, slowdown: Slowdown) -> str:
    """Format a share: "50 %", or "50 % (measured 83 to 91 %)" if the device had another one."""
    measured = [whole / factor for bounds in slowdown.measured for factor in reversed(bounds)]
    remark = f" (measured {format_factor_range(*measured)} %)" if measured else ""
    return f"{share_of(whole, slowdown):g} %{remark}"


def lut_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return sorted rows with COLUMNS and DOUBT; a repeated point has medians over runs."""
    rows = aggregate_runs(rows, *COLUMNS[:4])
    # Rate of all streams; older records only have the rate of one.
    rates = rows["executed_tflop_per_s"].fillna(rows["useful_tflop_per_s"])
    mean_rate = rates * rows["median_s"] / rows["mean_s"]
    table = rows.assign(**{"avg_ms": rows["mean_s"] * 1e3, lut.RATE: mean_rate})
    order = [lut.DTYPE, lut.STREAMS, lut.SIZE, lut.SHARE]
    table = table.sort_values(order, ascending=[True, True, True, False])
    return table.assign(**{DOUBT: is_faster(table).map({True: FASTER, False: ""})})


def is_faster(points: pd.DataFrame) -> pd.Series:
    """Return a mask of rows that are faster than one with a larger share, beyond both intervals.

    Rows of one dtype, number of streams and size must be in descending order of share.
    """
    points = fill_with_ranges(points)
    low, high = points["ci_low_s"], points["ci_high_s"]
    keys = [points[name] for name in (lut.DTYPE, lut.STREAMS, lut.SIZE)]
    larger = low.groupby(keys).transform(lambda times: times.cummax().shift())
    return high < larger


def text_of(rows: pd.DataFrame) -> str:
    points = lut_rows(rows)
    comments = provenance(rows)
    if points["num_points"].max() > 1:
        comments += comment(
            f"runs: {format_count_range(points['num_runs'])}, figures are medians over them"
        )
    return comments + as_csv(points[[*COLUMNS, DOUBT]], "%.6g")


def provenance(rows: pd.DataFrame) -> str:
    lines = []
    for name, words in SOURCE.items():
        values = ", ".join(map(str, rows[name].dropna().unique()))
        lines.append(f"{words}: {values or 'none'}")
    lines.append(f"measured: {rows['started_at'].min()} to {rows['started_at'].max()}")
    lines += [f"share: {name}" for name in deviating_shares(rows)]
    lines += [f"warning: {text}" for text in rows["warning"].dropna().unique()]
    return "".join(map(comment, lines))


def deviating_shares(rows: pd.DataFrame) -> list[str]:
    """List the names of shares that the device did not have, by descending requested share."""
    names = rows.sort_values(lut.SHARE, ascending=False)[NAME].unique()
    return [name for name in names if "measured" in name]


COMPARED = (SUITE,)
"""Suites whose comparisons are drawn here."""


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return charts of time over size and, for several shares, of performance over share."""
    return group_charts(SUITE, groups_of(table), charts_of)


def charts_of(rows: pd.DataFrame) -> Charts:
    points = fill_with_ranges(aggregate_runs(rows, lut.SHARE, SIZE))
    charts = {"time": time_over_size(points)}
    if points[lut.SHARE].nunique() > 1:
        charts["share"] = performance_over_share(points)
    return charts


def time_over_size(rows: pd.DataFrame) -> Chart:
    rows = rows.sort_values([lut.SHARE, SIZE], ascending=[False, True])
    return Chart(
        mark=LINES,
        title=f"matmul time by share of the device, {rows['dtype'].iloc[0]}",
        note=f"median, {describe_error_bars(rows)}",
        x=Axis("size n of an n × n matmul", LOG),
        y=Axis("time of one matmul [ms]", LOG),
        points=chart_points(rows, rows[SIZE], TIMES, rows[NAME], scale=1e3),
    )


def performance_over_share(rows: pd.DataFrame) -> Chart:
    """Return a chart of performance relative to the largest share; the ideal is the share."""
    rows = with_performance(rows).sort_values([SIZE, lut.SHARE])
    whole = rows[lut.SHARE].max()
    ideal = pd.DataFrame({"panel": "", "series": "ideal", "x": [0, whole], "value": [0, 1]})
    sizes = rows[SIZE].map("n = {:.0f}".format)
    return Chart(
        mark=LINES,
        title=f"What a share is worth, {rows['dtype'].iloc[0]}",
        note=note_on(rows),
        x=Axis("share of the device asked for [%]"),
        y=Axis(f"performance, of that at {whole:g} %"),
        points=chart_points(rows, rows[lut.SHARE], ("performance",), sizes),
        curves=ideal,
    )


def with_performance(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `performance`: time of the size at the largest share over the time; NaN without one."""
    full = rows[rows[lut.SHARE] == rows[lut.SHARE].max()].drop_duplicates(SIZE).set_index(SIZE)
    return rows.assign(performance=rows[SIZE].map(full["median_s"]) / rows["median_s"])


def note_on(rows: pd.DataFrame) -> str:
    several = ["of medians over runs"] if rows["run"].nunique() > 1 else []
    return "; ".join(["dashed: performance = share", *several, *deviating_shares(rows)])

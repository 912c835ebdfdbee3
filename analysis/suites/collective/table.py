"""Fitted latency and bandwidth of collectives, and the sizes where the fit is poor."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from analysis.records.suite_rows import measured_rows
from analysis.report.chart import (
    BYTES,
    LOG,
    SCATTER,
    SECONDS,
    TIMES,
    Axis,
    Chart,
    Charts,
    chart_points,
)
from analysis.report.markdown import bullets, document, format_run_spread
from analysis.shared.text import format_measurement, format_with_interval
from analysis.shared.text_table import as_markdown
from analysis.suites.collective.fit import (
    FAR_OFF,
    FEWEST,
    MOST,
    Fit,
    FittedLine,
    fit,
    leave_one_out_errors,
)
from analysis.table.combine import cache_latest, identity_columns
from analysis.table.repetitions import (
    add_group_to_title,
    aggregate_runs,
    describe_error_bars,
    fill_with_ranges,
    group_equal_except,
)
from analysis.table.variants import Baseline
from benchkit.record.naming import format_bytes
from benchkit.statistics import LATENCY
from benchkit.suites.collective.suite import SEND_RECV, TIMING

SUITE = "collective"
SERIES = ["collective", "world_size"]
UNKNOWN = (0.0, math.inf)
HALVED = ("payload_bytes", *TIMES)
"""Columns that are halved for a ping-pong: a round trip is measured, a link is one message."""
NOTE = (
    "Of calls back to back: latency + bytes / bandwidth (Hockney), least squares of logarithms; "
    "two lines where the times change their slope with the size; send_recv one way. "
    "In brackets the 95 % interval; < and >: only a bound can be given. "
    "Bandwidth is of the payload as nccl-tests counts it (algbw). R² is of the logarithms. A size "
    "left out: between the smallest and the largest, against the line through the others."
)
THINNED = (
    f"Of more than {MOST} sizes, {MOST} at most are left out in turn, about evenly apart in their "
    "logarithms."
)


@dataclass(frozen=True)
class CollectiveTimes:
    """Times of one collective and world size over payloads in bytes, with their fit."""

    collective: str
    world_size: int
    rows: pd.DataFrame
    fit: Fit

    @property
    def sizes(self) -> list[float]:
        return [float(size) for size in self.rows["payload_bytes"]]

    @property
    def times_s(self) -> list[float]:
        return [float(time) for time in self.rows["median_s"]]

    @cached_property
    def errors(self) -> list[float]:
        return self.fit.errors(self.sizes, self.times_s)

    @cached_property
    def leave_one_out(self) -> list[float | None]:
        """Relative error at each size of the fit to all others, see `leave_one_out_errors`."""
        return leave_one_out_errors(self.sizes, self.times_s)


@cache_latest
def groups_of(table: pd.DataFrame) -> list[tuple[str, list[CollectiveTimes]]]:
    """Group series with enough sizes; rows of a group differ only in collective, ranks and size."""
    rows = measured_rows(table, SUITE)
    if TIMING in rows:
        rows = rows[rows[TIMING] != LATENCY]
    if rows.empty:
        return []
    sizes = pd.to_numeric(rows["payload_bytes"])
    rows = rows.assign(payload_bytes=sizes, median_s=pd.to_numeric(rows["median_s"]))
    rows = rows[rows["payload_bytes"] > 0]
    one_way = rows["collective"] != SEND_RECV
    rows = rows.assign(**{name: rows[name].where(one_way, rows[name] / 2) for name in HALVED})
    settings = [name for name in identity_columns(rows) if name != "data_size"]
    groups = group_equal_except(
        aggregate_runs(rows, *settings, "payload_bytes"), *SERIES, "data_size"
    )
    series_by_group = [(suffix, list(series_of(group))) for suffix, group in groups]
    return [(suffix, series) for suffix, series in series_by_group if series]


def series_of(rows: pd.DataFrame) -> Iterator[CollectiveTimes]:
    for (name, world_size), group in rows.groupby(SERIES, sort=False):
        group = group.sort_values("payload_bytes")
        if len(group) >= FEWEST:
            times = fit(group["payload_bytes"].tolist(), group["median_s"].tolist())
            yield CollectiveTimes(str(name), int(world_size), group, times)


def write(table: pd.DataFrame) -> dict[str, str]:
    return {
        f"link{suffix}.md": add_group_to_title(text_of(series), suffix)
        for suffix, series in groups_of(table)
    }


def text_of(series: list[CollectiveTimes]) -> str:
    lines = [line for times in series for line in lines_of(times)]
    runs = format_run_spread(pd.concat([times.rows for times in series]))
    note = f"{NOTE} {THINNED}" if any(len(times.rows) > MOST for times in series) else NOTE
    parts = ["# Latency and bandwidth (fit)", note, runs, as_markdown(lines)]
    if marked := [line for times in series for line in marks(times)]:
        parts += [f"## More than {FAR_OFF:.0%} off", bullets(marked)]
    return document(*parts)


def lines_of(series: CollectiveTimes) -> Iterator[dict[str, object]]:
    """Yield a row per line of the fit; the first also has the metrics of the whole fit."""
    left_out_errors = [abs(error) for error in series.leave_one_out if error is not None]
    whole = {
        "R²": series.fit.r_squared(series.sizes, series.times_s),
        "largest error [%]": 100 * max(map(abs, series.errors)),
        "largest error of a size left out [%]": 100 * max(left_out_errors)
        if left_out_errors
        else None,
        "sizes": len(series.sizes),
    }
    for number, line in enumerate(series.fit.lines):
        yield {
            "collective": series.collective,
            "ranks": series.world_size,
            "from": format_bytes(line.low_bytes or min(series.sizes)),
            "latency [µs]": latency_us(line),
            "bandwidth [GB/s]": bandwidth(line),
            "size at half the bandwidth": half_bandwidth(line),
            **(whole if number == 0 else dict.fromkeys(whole)),
        }


def latency_us(line: FittedLine) -> str:
    """Format "100 [90, 110]"; "< 12" if the latency does not differ significantly from 0."""
    low, high = line.interval(1, 0) or UNKNOWN
    if not low:
        return f"< {format_measurement(1e6 * high)}"
    return format_with_interval(1e6 * line.latency_s, 1e6 * low, 1e6 * high)


def bandwidth(line: FittedLine) -> str:
    """Format "1.25 [1.2, 1.3]" in 10^9 bytes per second; "> 3" if only a bound is known."""
    low, high = line.interval(0, 1) or UNKNOWN
    if not low:
        return f"> {format_measurement(1e-9 / high)}" if high else ""
    return format_with_interval(1e-9 / line.byte_s, 1e-9 / high, 1e-9 / low)


def half_bandwidth(line: FittedLine) -> str:
    """Format the size that reaches half the bandwidth; "" if only a bound is known."""
    intervals = (line.interval(1, 0), line.interval(0, 1))
    is_known = all(bounds is not None and bounds[0] > 0 for bounds in intervals)
    half = line.half_bandwidth_bytes
    return format_bytes(half) if half and is_known else ""


def marks(series: CollectiveTimes) -> Iterator[str]:
    """Yield a sentence per size with a large error of the fit to all sizes, or to the others."""
    points = zip(series.sizes, series.errors, series.leave_one_out, strict=True)
    for size, error, left_out_error in points:
        errors = {"the line": error, "the line through the others": left_out_error}
        remarks = [
            describe_error(model, value)
            for model, value in errors.items()
            if value is not None and abs(value) > FAR_OFF
        ]
        if remarks:
            where = f"{series.collective} on {series.world_size} ranks, {format_bytes(size)}"
            yield f"{where}: {'; '.join(remarks)}."


def describe_error(model: str, error: float) -> str:
    direction = "below" if error < 0 else "above"
    return f"{model} is {abs(100 * error):.0f} % {direction} what was measured"


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return a chart per group, with a panel per collective and a series per number of ranks."""
    return {
        f"link{suffix}": time_chart(series).of_group(suffix) for suffix, series in groups_of(table)
    }


def time_chart(series: list[CollectiveTimes]) -> Chart:
    counts = sorted({times.world_size for times in series})
    measured = pd.concat([times.rows for times in series])
    sizes = [size for times in series for size in times.sizes]
    names = [label(times.world_size) for times in series for _ in times.sizes]
    panels = [times.collective for times in series for _ in times.sizes]
    points = chart_points(fill_with_ranges(measured), sizes, TIMES, names, panels)
    return Chart(
        mark=SCATTER,
        title="Collectives: time over payload",
        note=(
            f"median, {describe_error_bars(measured)}; dashed: fitted latency + bytes / bandwidth, "
            "shaded: its 95 % interval above 0"
        ),
        x=Axis("payload", LOG, BYTES),
        y=Axis("time of one call", LOG, SECONDS),
        points=points,
        series=tuple(map(label, counts)),
        curves=pd.concat([curves(times) for times in series], ignore_index=True),
    )


def label(count: int) -> str:
    return f"{count} ranks"


def curves(series: CollectiveTimes) -> pd.DataFrame:
    """Return the lines of the fit as separate parts, with their intervals.

    An interval that includes 0 is left out, because the axis is logarithmic.
    """
    starts = [line.low_bytes or min(series.sizes) for line in series.fit.lines]
    stops = [*starts[1:], max(series.sizes)]
    cells: dict[str, list[float]] = {name: [] for name in ("x", "value", "part", "low", "high")}
    for part, (line, start, stop) in enumerate(zip(series.fit.lines, starts, stops, strict=True)):
        sizes = np.geomspace(start, stop, 50).tolist()
        bounds = np.array([line.interval(1, size) or (np.nan, np.nan) for size in sizes])
        bounds[bounds[:, 0] <= 0] = np.nan
        values = [line.seconds(size) for size in sizes]
        columns = (sizes, values, [part] * len(sizes), *bounds.T.tolist())
        for name, column in zip(cells, columns, strict=True):
            cells[name] += column
    return pd.DataFrame(cells).assign(panel=series.collective, series=label(series.world_size))

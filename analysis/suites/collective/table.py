"""Collectives over sizes: the fitted latency and bandwidth of the link, and where the model does not hold."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from analysis.groups import alike
from analysis.repetitions import over_runs
from analysis.run_spread import told_of_runs
from analysis.suites.collective.fit import FAR_OFF, FEWEST, MOST, Fit, fit, left_out
from analysis.suites.collective.line import Line
from analysis.table import as_markdown
from analysis.text import readable
from benchkit.statistics.estimators import LATENCY

SUITE = "collective"
SERIES = ["collective", "world_size"]
UNKNOWN = (0.0, math.inf)
HALVED = ("payload_bytes", "median_s", "ci_low_s", "ci_high_s")
"""Of a ping-pong, which is measured there and back: a link is told of by one message."""
NOTE = (
    "Of calls back to back: latency + bytes / bandwidth (Hockney), least squares of logarithms; "
    "two lines where the times "
    "change their slope with the size; send_recv one way. In brackets the 95 % interval; < and >: "
    "the times cannot tell the latency, or the time per byte, from none, and this is the bound. "
    "Bandwidth is of the payload as nccl-tests counts it (algbw). R² is of the logarithms. Left "
    "out: how far off the line through the other sizes is, at worst, for sizes between the "
    "smallest and the largest."
)

THINNED = (
    f"Of more than {MOST} sizes, where to split the line and what is left out rest on {MOST} at most, "
    "about evenly apart in their logarithms."
)


@dataclass(frozen=True)
class Series:
    """One collective on one number of ranks, over sizes in bytes, with its fit."""

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
        """Of each time, how far off the fit is."""
        return self.fit.errors(self.sizes, self.times_s)

    @cached_property
    def apart(self) -> list[float | None]:
        """Of each time, how far off the fit to all others is."""
        return left_out(self.sizes, self.times_s)


def groups_of(table: pd.DataFrame) -> list[tuple[str, list[Series]]]:
    """All that has sizes enough for a line, by what is alike but for collective, ranks and size."""
    rows = table[(table["suite"] == SUITE) & (table["status"] == "ok")]
    if "timing" in rows:
        rows = rows[rows["timing"] != LATENCY]
    if rows.empty:
        return []
    sizes = pd.to_numeric(rows["payload_bytes"])
    rows = rows.assign(payload_bytes=sizes, median_s=pd.to_numeric(rows["median_s"]))
    rows = rows[rows["payload_bytes"] > 0]
    there_and_back = rows["collective"] == "send_recv"
    rows = rows.assign(**{name: rows[name].where(~there_and_back, rows[name] / 2) for name in HALVED})
    found = [(suffix, list(series_of(group))) for suffix, group in alike(rows, *SERIES, "data_size")]
    return [(suffix, series) for suffix, series in found if series]


def series_of(rows: pd.DataFrame) -> Iterator[Series]:
    for (name, world_size), group in rows.groupby(SERIES, sort=False):
        group = over_runs(group, "payload_bytes").sort_values("payload_bytes")
        if len(group) >= FEWEST:
            times = fit(group["payload_bytes"].tolist(), group["median_s"].tolist())
            yield Series(str(name), int(world_size), group, times)


def write(table: pd.DataFrame) -> dict[str, str]:
    return {f"link{suffix}.md": text_of(series) for suffix, series in groups_of(table)}


def text_of(series: list[Series]) -> str:
    lines = pd.DataFrame([line for each in series for line in lines_of(each)])
    runs = " ".join(told_of_runs(pd.concat([each.rows for each in series])))
    note = f"{NOTE} {THINNED}" if any(len(each.rows) > MOST for each in series) else NOTE
    parts = ["# What the link does", note, runs, as_markdown(lines, shaped=True)]
    if marked := [line for each in series for line in marks(each)]:
        parts += [f"## More than {FAR_OFF:.0%} off", "\n".join(f"- {line}" for line in marked)]
    return "\n\n".join(parts)


def lines_of(series: Series) -> Iterator[dict[str, object]]:
    """A row per line of the fit."""
    apart = [abs(error) for error in series.apart if error is not None]
    for number, line in enumerate(series.fit.lines):
        yield {
            "collective": series.collective,
            "ranks": series.world_size,
            "from": readable(line.low_bytes or min(series.sizes)),
            "latency [µs]": latency_us(line),
            "bandwidth [GB/s]": bandwidth(line),
            "half of it at": half_bandwidth(line),
            "R²": series.fit.r_squared(series.sizes, series.times_s) if not number else None,
            "worst [%]": 100 * max(map(abs, series.errors)) if not number else None,
            "left out, worst [%]": 100 * max(apart) if apart and not number else None,
            "sizes": len(series.sizes) if not number else None,
        }


def latency_us(line: Line) -> str:
    """ "100 [90, 110]"; "< 12" where the times cannot tell it from none."""
    low, high = line.interval(1, 0) or UNKNOWN
    return f"{1e6 * line.latency_s:.4g} [{1e6 * low:.3g}, {1e6 * high:.3g}]" if low else f"< {1e6 * high:.3g}"


def bandwidth(line: Line) -> str:
    """ "1.25 [1.2, 1.3]" in 10^9 bytes per second; "> 3" where the times cannot tell that bytes cost any."""
    low, high = line.interval(0, 1) or UNKNOWN
    if not low:
        return f"> {1e-9 / high:.3g}" if high else ""
    return f"{1e-9 / line.byte_s:.4g} [{1e-9 / high:.3g}, {1e-9 / low:.3g}]"


def half_bandwidth(line: Line) -> str:
    """The size at which half the bandwidth is reached, "" where latency or bandwidth have a bound alone."""
    known = [ends is not None and ends[0] > 0 for ends in (line.interval(1, 0), line.interval(0, 1))]
    half = line.half_bandwidth_bytes
    return readable(half) if half and all(known) else ""


def marks(series: Series) -> Iterator[str]:
    """Where a size is far from the fit to all, or from the fit to the others."""
    for size, error, alone in zip(series.sizes, series.errors, series.apart, strict=True):
        told = [
            f"{what} is {abs(100 * value):.0f} % {'below' if value < 0 else 'above'} what was measured"
            for value, what in ((error, "the line"), (alone, "the line through the others"))
            if value is not None and abs(value) > FAR_OFF
        ]
        if told:
            yield f"{series.collective} on {series.world_size} ranks, {readable(size)}: {'; '.join(told)}."

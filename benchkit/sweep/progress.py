"""Print the progress of a sweep: a line per finished point, and a status line.

The status line is the last line of a terminal. It changes when a rank enters a phase and when a
point ends; no timer runs beside the ranks. Without a terminal, the time left is logged now and
then.
"""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from benchkit.record.naming import (
    escape_unprintable,
    format_duration,
    format_label,
    format_seconds,
    time_unit,
)
from benchkit.record.record import TIMEOUT, CaseRecord, ErrorReport, Record
from benchkit.statistics.intervals import FEWEST_QUARTILES, Modes, find_modes
from benchkit.statistics.summary import Summary, algorithm_bandwidth, bus_bandwidth, summarize
from launch.ranks import entry

IN_HEAD = (
    "hydra.", "suite=", "backend=", "hardware=", "world_size=", "sweep=", "launcher=", "repeat=",
)  # fmt: skip
"""Overrides that the head of a point's line contains already, beside the key in its title."""
LARGE = 1e4  # numbers from here on would have an exponent


def point_line(record: Record) -> str:
    """Return one line per case: settings, median, interval and rate, or how the point failed."""
    head = point_head(record)
    if record.status != "ok" and not any(case.status == "ok" for case in record.cases):
        return f"{head}  {failure_text(record)}"
    lines = []
    for case in record.cases:
        lines.append(case_line(case))
        if record.settings.explain:
            lines.extend(detail_lines(case))
    if len(record.cases) == 1:
        lines[0] = f"{head}  {lines[0]}"
    else:
        lines.insert(0, head)
    if record.status == TIMEOUT:
        lines.append(failure_text(record))
    lines += [f"warning: {text}" for text in record.warnings]
    return "\n    ".join(lines)


def point_head(record: Record) -> str:
    """Return a point's title, backend, device, world size and other settings."""
    backend, device = record.settings.backend.name, record.settings.hardware.device
    overrides = [text.lstrip("+") for text in record.overrides]
    others = [text for text in overrides if not text.startswith(IN_HEAD)]
    settings = " ".join(text for text in others if not text.endswith(f"={record.title}"))
    head = f"{record.title} {backend} {device} x{record.world_size}"
    if record.settings.repeat > 1:
        settings += f" (run {record.repetition + 1} of {record.settings.repeat})"
    return f"{head}  {settings.strip()}" if settings else head


def failure_text(record: Record) -> str:
    """Return how a point failed: "CRASH on rank 1: killed by SIGKILL (rank_1.log)"."""
    error = record.error or ErrorReport(message="")
    rank = "" if error.rank is None else f" on rank {error.rank}"
    message = error.message.split("\n")[0]
    log_name = f" ({error.log})" if error.log else ""
    return f"{record.status.upper()}{rank}: {message}{log_name}"


def case_line(case: CaseRecord) -> str:
    """Return a case's labels, times and bandwidths, or why it has none."""
    labels = " ".join(f"{name}={format_label(name, value)}" for name, value in case.labels.items())
    if case.status != "ok":
        return f"{labels}  {case.status.upper()}: {case.reason}".strip()
    times = case.samples.times
    summary = summarize(case.samples)
    calls = f" of {case.calls_per_sample} calls" if case.calls_per_sample > 1 else ""
    text = f"{labels}  {time_text(summary, find_modes(times))}  ({len(times)} samples{calls})"
    rated = (case.payload_bytes, case.bus_factor, summary["median_s"])
    algbw, busbw = algorithm_bandwidth(*rated), bus_bandwidth(*rated)
    if algbw is not None:
        text += f"  algbw {algbw:.3g} GB/s  busbw {busbw:.3g} GB/s"
    return text.strip()


def time_text(summary: Summary, modes: Modes | None) -> str:
    """Return the median with its interval, or both modes with their shares; always the mean.

    "1.2 ms [1.1, 1.4]  mean 1.6 ms" or "0.6 ms (70 %) and 5.1 ms (30 %)  mean 1.9 ms". Without an
    interval there is the range: "1.2 ms (1.0 to 1.5, middle half of 20)".
    """
    unit, factor = time_unit(summary["median_s"])

    def scaled(seconds: float) -> str:
        return f"{factor * seconds:.4g}"

    low, high = summary["ci_low_s"], summary["ci_high_s"]
    if modes:
        share, fast, slow = modes.slow_share, scaled(modes.fast_s), scaled(modes.slow_s)
        text = f"{fast} {unit} ({1 - share:.0%}) and {slow} {unit} ({share:.0%})"
    elif low is not None and high is not None:
        text = f"{scaled(summary['median_s'])} {unit} [{scaled(low)}, {scaled(high)}]"
    else:
        bounds = (scaled(end) for end in (summary["range_low_s"], summary["range_high_s"]) if end)
        part = "all" if summary["num_samples"] < FEWEST_QUARTILES else "middle half of"
        interval = f"{' to '.join(bounds)}, {part} {summary['num_samples']}"
        text = f"{scaled(summary['median_s'])} {unit} ({interval})"
    largest_s = max(summary["mean_s"], summary["p95_s"])  # one slow sample moves only the mean
    if factor * largest_s >= LARGE:
        unit, factor = time_unit(largest_s)
    mean, p95 = (scaled(summary[name]) for name in ("mean_s", "p95_s"))
    return f"{text}  mean {mean}  p95 {p95} {unit}"


def detail_lines(case: CaseRecord) -> Iterator[str]:
    """Yield a line per detail of a case that is not zero or empty: "  plan: x rows; …"."""
    for name, value in case.details.items():
        if not value:
            continue
        text = value
        if isinstance(value, float):
            text = format_seconds(value) if name.endswith("_s") else f"{value:.6g}"
        yield f"  {name.removesuffix('_s')}: {text}"


EVERY_S = 300.0  # between lines on the time left, without a terminal
log = logging.getLogger("benchkit")


class StatusLine:
    """The last line of the terminal of standard error; without a terminal nothing is shown."""

    def __init__(self) -> None:
        self._console = None
        self._text = ""
        if sys.stderr.isatty():
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)

    @property
    def is_shown(self) -> bool:
        return self._console is not None

    def show(self, text: str) -> None:
        self.erase()
        self._text = text
        if self._console:
            self._console.print(text, end="\r", no_wrap=True, overflow="ellipsis", crop=True)

    def erase(self) -> None:
        """Make room for other output; show_again() restores the line."""
        if self._console and self._text:
            from rich.control import Control
            from rich.segment import ControlType

            self._console.control(
                Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
            )

    def show_again(self) -> None:
        if self._text:
            self.show(self._text)

    def close(self) -> None:
        self.erase()
        self._text = ""


class ConsoleHandler(logging.StreamHandler):  # type: ignore[type-arg]
    status: StatusLine | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.status:
            self.status.erase()
        super().emit(record)
        if self.status:
            self.status.show_again()


class Listener(logging.Handler):
    def __init__(self, progress: "SweepProgress") -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._progress.show(record.getMessage())
        except Exception:  # the caller reads a rank's report, and would blame the rank
            self.handleError(record)


class SweepProgress:
    """Count the points of a sweep and print a line for each as it ends.

    `done` of the `total` points are measured already; `names` are the names of the others.
    """

    def __init__(self, total: int = 1, done: int = 0, names: Sequence[str] = ()) -> None:
        self.total = total
        self.done = done
        self._names = list(names)
        self._rest = ""
        self._logged_s: float | None = None
        self._status = StatusLine()
        self._listener = Listener(self)
        if self._status.is_shown:
            entry.log.addHandler(self._listener)
            entry.log.setLevel(logging.DEBUG)
            for handler in console_handlers():
                handler.status = self._status

    def report(self, record: Record) -> None:
        self._names = self._names[1:]
        log.info(self.line(record))

    def line(self, record: Record) -> str:
        self.done += 1
        line = escape_unprintable(point_line(record))
        if self.total <= 1:
            return line
        width = len(str(self.total))
        return f"[{self.done:>{width}}/{self.total}] {line}"

    def expect(self, num_left: int, seconds: float) -> None:
        """Update the number of points left and their expected seconds; log them now and then."""
        if not num_left:
            self._rest = ""
            return
        end = datetime.now() + timedelta(seconds=seconds)
        points = f"{num_left} of {self.total} points left"
        self._rest = f"{points}, about {format_duration(seconds)}, until {end:%a %H:%M}"
        now_s = time.monotonic()
        is_due = seconds > EVERY_S if self._logged_s is None else now_s - self._logged_s > EVERY_S
        if is_due and not self._status.is_shown:
            log.info(self._rest)
        if is_due or self._logged_s is None:
            self._logged_s = now_s

    def show(self, note: str) -> None:
        number = f"[{self.done + 1}/{self.total}] " if self.total > 1 else ""
        name = self._names[0] if self._names else ""
        parts = [number + note, self._rest, name]  # the terminal cuts off what does not fit
        self._status.show(escape_unprintable("; ".join(filter(None, parts))))

    def stop(self) -> None:
        entry.log.removeHandler(self._listener)
        self._status.close()
        for handler in console_handlers():
            handler.status = None


def console_handlers() -> list[ConsoleHandler]:
    return [item for item in logging.getLogger().handlers if isinstance(item, ConsoleHandler)]

"""The line of a point that has ended: settings, times and rates of its cases, or its failure."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchkit.record.case import CaseRecord
from benchkit.record.naming import named
from benchkit.record.record import ErrorReport, Record
from benchkit.statistics.modes import Modes, find_modes
from benchkit.statistics.summary import (
    algorithm_bandwidth,
    bus_bandwidth,
    iteration_times,
    summarize,
)

IN_HEAD = (
    "hydra.", "suite=", "backend=", "hardware=", "world_size=", "sweep=", "launcher=", "repeat=",
)  # fmt: skip
"""Overrides that the head of a point's line says already, beside that of the key in its title."""
LARGE = 1e4
"""Numbers from here on would have an exponent."""


def point_line(record: Record) -> str:
    """Returns one line per case: settings, median, spread and rate, or how the point failed."""
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
    lines += [f"warning: {text}" for text in record.warnings]
    return "\n    ".join(lines)


def point_head(record: Record) -> str:
    """Returns what is measured, where, and with which other settings."""
    backend, device = record.settings.backend.name, record.settings.hardware.device
    overrides = [text.lstrip("+") for text in record.overrides]
    others = [text for text in overrides if not text.startswith(IN_HEAD)]
    settings = " ".join(text for text in others if not text.endswith(f"={record.title}"))
    head = f"{record.title} {backend} {device} x{record.world_size}"
    if record.settings.repeat > 1:
        settings += f" (run {record.repetition + 1} of {record.settings.repeat})"
    return f"{head}  {settings.strip()}" if settings else head


def failure_text(record: Record) -> str:
    """Says how a point failed: "CRASH on rank 1: killed by SIGKILL (rank_1.log)"."""
    error = record.error or ErrorReport(message="")
    rank = "" if error.rank is None else f" on rank {error.rank}"
    message = error.message.split("\n")[0]
    log_name = f" ({error.log})" if error.log else ""
    return f"{record.status.upper()}{rank}: {message}{log_name}"


def case_line(case: CaseRecord) -> str:
    """Returns a case's labels, time, mean and bandwidth; or why it has none."""
    labels = " ".join(f"{name}={named(name, value)}" for name, value in case.labels.items())
    if case.status != "ok":
        return f"{labels}  {case.status.upper()}: {case.reason}".strip()
    samples, starts = case.samples_taking_part, case.starts_taking_part
    times = iteration_times(samples, starts, case.estimator)
    summary = summarize(samples, starts, case.estimator)
    calls = f" of {case.calls_per_sample} calls" if case.calls_per_sample > 1 else ""
    text = f"{labels}  {time_text(summary, find_modes(times))}  ({len(times)} samples{calls})"
    rated = (case.payload_bytes, case.bus_factor, summary["median_s"])
    algbw, busbw = algorithm_bandwidth(*rated), bus_bandwidth(*rated)
    if algbw is not None:
        text += f"  algbw {algbw:.3g} GB/s  busbw {busbw:.3g} GB/s"
    return text.strip()


def time_text(summary: Mapping[str, Any], modes: Modes | None) -> str:
    """Returns the median with its interval, or both modes with their shares; always the mean.

    "1.2 ms [1.1, 1.4]  mean 1.6 ms" or "0.6 ms (70 %) and 5.1 ms (30 %)  mean 1.9 ms".
    """
    unit, factor = unit_of(summary["median_s"])

    def scaled(seconds: float) -> str:
        return f"{factor * seconds:.4g}"

    low, high = summary["ci_low_s"], summary["ci_high_s"]
    if modes:
        share, fast, slow = modes.slow_share, scaled(modes.fast_s), scaled(modes.slow_s)
        text = f"{fast} {unit} ({1 - share:.0%}) and {slow} {unit} ({share:.0%})"
    elif low is not None and high is not None:
        text = f"{scaled(summary['median_s'])} {unit} [{scaled(low)}, {scaled(high)}]"
    else:
        median = scaled(summary["median_s"])
        text = f"{median} {unit} (too few independent samples for an interval)"
    if factor * summary["p95_s"] >= LARGE:
        unit, factor = unit_of(summary["p95_s"])
    mean, quartile, p95 = (scaled(summary[name]) for name in ("mean_s", "p25_s", "p95_s"))
    return f"{text}  mean {mean}  p25 {quartile}  p95 {p95} {unit}"


def detail_lines(case: CaseRecord) -> Iterator[str]:
    """Yields a line per detail of a case that is not zero or empty: "  plan: x rows; …"."""
    for name, value in case.details.items():
        if not value:
            continue
        shown = value
        if isinstance(value, float):
            shown = readable(value) if name.endswith("_s") else f"{value:.6g}"
        yield f"  {name.removesuffix('_s')}: {shown}"


def readable(seconds: float) -> str:
    """Returns a time with a unit that suits it: "45.5 ms"."""
    unit, factor = unit_of(seconds)
    return f"{seconds * factor:.4g} {unit}"


def duration(seconds: float) -> str:
    """Returns a time that people wait: "4.2 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def unit_of(seconds: float) -> tuple[str, float]:
    """Returns the unit that suits a time, and how many of that unit one second has."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return unit, factor
    return "ns", 1e9

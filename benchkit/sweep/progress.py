"""What a person sees while points run: one line per point, and a bar with the time left where there is a terminal."""

import itertools
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tqdm import tqdm

from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.modes import Modes, find_modes
from benchkit.statistics.summary import algorithm_bandwidth, bus_bandwidth, iteration_times, summarize

LONG_SWEEP = 5
"""Points from which a sweep gets a bar."""
log = logging.getLogger("benchkit")


class ConsoleHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes a log line above the bar, where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            tqdm.write(self.format(record), file=self.stream)
            self.stream.flush()
        except BrokenPipeError:  # the reader has seen enough; the sweep goes on and its log is whole
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


class Progress:
    """Counts the points of a sweep and prints a line for each as it ends.

    Args:
        total: points of the sweep; without several, a point's line has no number.
        done: those of them that are measured already.
    """

    def __init__(self, total: int = 1, done: int = 0) -> None:
        self.total, self.done = total, done
        tqdm.monitor_interval = 0  # no thread beside the ranks
        hidden = total < LONG_SWEEP or None  # None: hidden where standard error is no terminal
        self.bar = tqdm(total=total, initial=done, unit="point", disable=hidden, leave=False, mininterval=0)

    def report(self, record: dict[str, Any]) -> None:
        """Prints the line of a point that has ended."""
        log.info(self.line(record))

    def line(self, record: dict[str, Any]) -> str:
        """Counts one more point and returns its line."""
        self.done += 1
        self.bar.update()
        number = f"[{self.done:>{len(str(self.total))}}/{self.total}] " if self.total > 1 else ""
        return number + printable(point_line(record))

    def stop(self) -> None:
        """Takes the bar away."""
        self.bar.close()


IN_HEAD = ("hydra.", "suite=", "collective=", "backend=", "hardware=", "world_size=", "sweep=", "launcher=")
"""Overrides that the head of a point's line says already."""


def point_line(record: dict[str, Any]) -> str:
    """One point in one line per case: settings, then median and spread and rate, or how it failed."""
    config = record["config"]
    given = " ".join(text.lstrip("+") for text in record["overrides"] if not text.lstrip("+").startswith(IN_HEAD))
    place = f"{config['backend']['name']} {config['hardware']['device']} x{record['world_size']}"
    what = config.get("collective") or record["suite"]
    head = f"{what} {place}" + (f"  {given}" if given else "")
    if record["status"] != "ok" and not any(case["status"] == "ok" for case in record["cases"]):
        return f"{head}  {failure_text(record)}"
    lines = [[case_line(case), *(told(case) if config.get("explain") else ())] for case in record["cases"]]
    shown = [f"{head}  {lines[0][0]}", *lines[0][1:]] if len(lines) == 1 else [head, *itertools.chain(*lines)]
    return "\n    ".join([*shown, *(f"warning: {text}" for text in record.get("warnings", ()))])


def failure_text(record: dict[str, Any]) -> str:
    """How a point failed: "CRASH on rank 1: killed by SIGKILL (rank_1.log)"."""
    error = record["error"] or {}
    rank = "" if error.get("rank") is None else f" on rank {error['rank']}"
    message = (error.get("message") or "").split("\n")[0]
    return f"{record['status'].upper()}{rank}: {message}" + (f" ({error['log']})" if error.get("log") else "")


def case_line(case: dict[str, Any]) -> str:
    """Labels, time, mean and bandwidth; or why there are none."""
    labels = " ".join(f"{name}={value}" for name, value in case["labels"].items())
    if case["status"] != "ok":
        return f"{labels}  {case['status'].upper()}: {case['reason']}".strip()
    estimator = case.get("estimator", SLOWEST_RANK)
    samples, starts = (rows and rows[: case.get("ranks")] for rows in (case["samples_s"], case["start_offsets_s"]))
    times, summary = iteration_times(samples, starts, estimator), summarize(samples, starts, estimator)
    calls = f" of {case['calls_per_sample']} calls" if case["calls_per_sample"] > 1 else ""
    text = f"{labels}  {time_text(summary, find_modes(times))}  ({len(times)} samples{calls})"
    algbw, busbw = algorithm_bandwidth(case, summary), bus_bandwidth(case, summary)
    return (text if algbw is None else f"{text}  algbw {algbw:.3g} GB/s  busbw {busbw:.3g} GB/s").strip()


def time_text(summary: Mapping[str, Any], modes: Modes | None) -> str:
    """The median with its interval, or both modes with their shares; always the mean.

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
        text = f"{scaled(summary['median_s'])} {unit} (too few independent samples for an interval)"
    mean, quartile, p95 = (scaled(summary[name]) for name in ("mean_s", "p25_s", "p95_s"))
    return f"{text}  mean {mean}  p25 {quartile}  p95 {p95} {unit}"


def told(case: dict[str, Any]) -> Iterator[str]:
    """What a case tells of itself, but for zeros: "  plan: x rows; …"."""
    for name, value in case["details"].items():
        if not value:
            continue
        shown = readable(value) if name.endswith("_s") and isinstance(value, float) else value
        yield f"  {name.removesuffix('_s')}: {f'{shown:.6g}' if isinstance(shown, float) else shown}"


def printable(text: str) -> str:
    """A text without what would steer a terminal, such as the escape sequences in a message of a rank's."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def readable(seconds: float) -> str:
    """A time with a unit that suits it: "45.5 ms"."""
    unit, factor = unit_of(seconds)
    return f"{seconds * factor:.4g} {unit}"


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit that suits a time, and how many of it are a second."""
    units = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
    return next((each for each in units if seconds * each[1] >= 1), ("ns", 1e9))

"""`python -m analysis profile DIR...` shows traces of `profile=true` per case, rank and step.

Host and device are kept apart. All times are in ms.
"""

import argparse
import gzip
import io
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from analysis.records.harvest import Harvest
from analysis.records.paths import one_line, require_there
from analysis.records.per_rank import WAITING
from analysis.shared.text import command, complain
from analysis.shared.text_table import table_of
from benchkit.record import files
from benchkit.record.naming import escape_unprintable

STEP = "step "
"""Begins the label of a step; the case's labels follow (benchkit/rank/around_samples.py)."""
IN_FLIGHT = re.compile(r"(gloo|nccl|mpi|ucc):")
"""Host labels that torch gives to a collective from its call to its end."""
HOST = "user_annotation"
DEVICE = "gpu_user_annotation"
"""Kinds of labels; the device has one for each stream that worked under it."""
OURS = re.compile(r"step |warm-up|ProfilerStep")
LONGEST_MS = 1e12
LATEST_MS = 1e18  # longer durations and later starts are invalid
UNREADABLE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
    zlib.error,
)  # fmt: skip
"""What reading a file that is no trace may raise."""
Interval = tuple[float, float]
warn = partial(complain, "analysis profile")
PATTERN = "*trace*rank*.json*"
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
COMMUNICATING = "nccl"  # part of the name of a kernel that moves data between GPUs
TOP = (
    ("Top kernels", KERNELS),
    ("Top operators of the host, by their own time", ("cpu_op",)),
)
"""The tables of top events: their titles and kinds of events."""


@dataclass(frozen=True)
class Event:
    """A complete event, of a category of torch.profiler, from `start` to `end`.

    Attributes:
        thread: "process/thread".
    """

    name: str
    kind: str
    thread: str
    start: float
    end: float

    @property
    def interval(self) -> Interval:
        return self.start, self.end


@dataclass(frozen=True)
class Trace:
    rank: int
    events: list[Event]

    def steps(self) -> dict[str, list[Event]]:
        """Return the steps of each case on the host, which waits for the device at their ends."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind == HOST and event.name.startswith(STEP):
                found[event.name.removeprefix(STEP)].append(event)
        return found

    def within(self, steps: Sequence[Event], kinds: Iterable[str]) -> list[Event]:
        chosen = set(kinds)
        return [
            event
            for event in self.events
            if event.kind in chosen and any(step.start <= event.start < step.end for step in steps)
        ]

    def regions(self, steps: Sequence[Event], kind: str) -> dict[str, float]:
        """Return the time per step in each region, on the HOST or any stream of the DEVICE."""
        found: dict[str, list[Interval]] = defaultdict(list)
        for event in self.within(steps, (kind,)):
            if not (OURS.match(event.name) or IN_FLIGHT.match(event.name)):
                found[event.name].append(event.interval)
        return {name: length(union(intervals)) / len(steps) for name, intervals in found.items()}


def read(path: Path) -> Trace:
    """Read a trace, compressed or not; raises ValueError where it is none."""
    try:
        content = files.read_regular(path)
        if path.suffix == ".gz":
            content = unpack(content)
        parsed = msgspec.json.decode(content)
        events = []
        for event in parsed["traceEvents"]:
            if event.get("ph") == "X" and "cat" in event:
                events.append(as_event(event))
        rank = parsed.get("distributedInfo", {}).get("rank")
        if rank is None:
            numbered = re.search(r"rank_?(\d+)", path.name)
            rank = numbered[1] if numbered else 0
        return Trace(int(rank), events)
    except UNREADABLE as error:
        why = f"not a trace of torch.profiler ({type(error).__name__}: {error})"
        raise ValueError(f"{path}: {why}") from None


def unpack(content: bytes) -> bytes:
    with gzip.open(io.BytesIO(content)) as file:
        found = file.read(files.MOST_BYTES + 1)
    if len(found) > files.MOST_BYTES:
        raise ValueError(f"unpacked it is more than {files.MOST_BYTES / 1e9:g} GB")
    return found


def as_event(event: dict[str, Any]) -> Event:
    start, duration = float(event["ts"]) / 1e3, float(event["dur"]) / 1e3
    if not 0 <= duration <= LONGEST_MS or abs(start) > LATEST_MS:
        raise ValueError(f"an event that begins at {start:g} ms and takes {duration:g} ms")
    thread = f"{event.get('pid')}/{event.get('tid')}"
    name = escape_unprintable(str(event["name"]), keep="")
    return Event(name, str(event["cat"]), thread, start, start + duration)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge overlapping intervals, and return them in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def overlap_length(first: Sequence[Interval], second: Sequence[Interval]) -> float:
    return length(first) + length(second) - length(union([*first, *second]))


def self_times(events: Sequence[Event]) -> dict[str, float]:
    """Return the time in events of each name without that of events inside them, per thread."""
    spent: dict[str, float] = defaultdict(float)
    open_events: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.start, -event.end)):
        stack = open_events[event.thread]
        while stack and stack[-1].end <= event.start:
            stack.pop()
        spent[event.name] += event.end - event.start
        if stack:
            spent[stack[-1].name] -= event.end - event.start
        stack.append(event)
    return dict(spent)


@command("analysis profile")
def main(arguments: list[str]) -> int:
    """Print a table of regions per rank, and tables of the kernels with the most time.

    The exit code is 1 where there is no trace, 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    found: list[tuple[Path, Trace]] = []
    passed_over: list[str] = []
    for path in trace_files(options.places):
        try:
            found.append((path, read(path)))
        except (ValueError, OSError) as error:
            passed_over.append(one_line(error))
    num_files = len(found) + len(passed_over)
    for line in Harvest(skipped=passed_over, num_files=num_files).remarks():
        warn(line)
    if not any(trace.steps() for _, trace in found):
        places = ", ".join(map(str, options.places))
        warn(f"no trace with steps at or below {places}; run with profile=true")
        return 1
    print(table_of(per_rank(found)).text(), end="\n\n")
    for title, table in top_kernels(found, options.top_n):
        print(title, table_of(table).text(), sep="\n", end="\n\n")
    return 0


def trace_files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        yield from sorted(place.rglob(PATTERN)) if place.is_dir() else [place.resolve()]


def per_rank(found: list[tuple[Path, Trace]]) -> pd.DataFrame:
    """Make a row per case and rank, with the ms per step in each region.

    Host and device overlap, so their regions have columns of their own and are never added.
    """
    several = len({path.parent for path, _ in found}) > 1
    rows = []
    for path, trace in found:
        for case, steps in trace.steps().items():
            run = escape_unprintable(path.parent.name, keep="")
            row: dict[str, object] = {"run": run} if several else {}
            row |= {"case": case or "-", "rank": trace.rank, "steps": len(steps)}
            row["step [ms]"] = length(step.interval for step in steps) / len(steps)
            on_host = trace.regions(steps, HOST)
            row |= {f"{name} [ms]": time for name, time in on_host.items()}
            row["overlap [%]"] = overlap_on_host(trace, steps)
            on_device = trace.regions(steps, DEVICE)
            row |= {f"{name} on device [ms]": time for name, time in on_device.items()}
            row["overlap on device [%]"] = overlap_on_device(trace, steps)
            rows.append(row)
    order = ["run", "case", "rank"] if several else ["case", "rank"]
    return pd.DataFrame(rows).sort_values(order).dropna(axis=1, how="all")


def overlap_on_host(trace: Trace, steps: list[Event]) -> float | None:
    """Compute the percentage of time with messages in flight in which the rank works on."""
    labels = trace.within(steps, (HOST,))
    in_flight = union(e.interval for e in labels if IN_FLIGHT.match(e.name))
    waiting = union(e.interval for e in labels if e.name.endswith(WAITING))
    whole = length(in_flight)
    return 100 * (1 - overlap_length(in_flight, waiting) / whole) if whole else None


def overlap_on_device(trace: Trace, steps: list[Event]) -> float | None:
    """Compute the percentage of the GPU's communication in which it also computed."""
    moving: list[Interval] = []
    computing: list[Interval] = []
    for event in trace.within(steps, KERNELS):
        kernels = moving if COMMUNICATING in event.name.lower() else computing
        kernels.append(event.interval)
    communication = union(moving)
    whole = length(communication)
    return 100 * overlap_length(communication, union(computing)) / whole if whole else None


def top_kernels(found: list[tuple[Path, Trace]], count: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield tables of kernels, and of the host's operators, with the most time in steps.

    The time of an operator is its own, without that of events inside it.
    """
    for title, kinds in TOP:
        spent: dict[str, float] = {}
        for _, trace in found:
            steps = [step for case_steps in trace.steps().values() for step in case_steps]
            for name, time in self_times(trace.within(steps, kinds)).items():
                spent[name] = spent.get(name, 0.0) + time
        total = sum(spent.values())
        rows = [
            {"name": name[:80], "ms": time, "share [%]": 100 * time / total if total else None}
            for name, time in sorted(spent.items(), key=lambda item: -item[1])[:count]
        ]
        if rows:
            yield title, pd.DataFrame(rows)


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis profile",
        description="`benchkit-analysis profile DIR...`: what traces of `profile=true` say of "
        "each case and rank, per step.",
    )
    result.add_argument(
        "places",
        metavar="DIR",
        nargs="+",
        type=Path,
        help="folders of traces, or trace files",
    )
    result.add_argument(
        "--top-n",
        metavar="N",
        type=int,
        default=10,
        help="how many kernels to list (10)",
    )
    return result

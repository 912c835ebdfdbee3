"""`python -m analysis profile DIR...`: show traces of `profile=true` per case, rank and step.

Host and device are separate. All times are in ms.
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
"""Prefix of the label of a step, before the case's labels (benchkit/rank/traces.py)."""
IN_FLIGHT = re.compile(r"(gloo|nccl|mpi|ucc):")
"""Host labels of torch for a collective, from its call to its end."""
HOST = "user_annotation"
DEVICE = "gpu_user_annotation"
"""Categories of labels; the device has one label per stream."""
OURS = re.compile(r"step |warm-up|ProfilerStep")
LONGEST_MS = 1e12
LATEST_MS = 1e18  # longer durations and later starts are invalid
UNREADABLE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
    zlib.error,
)  # fmt: skip
"""Exceptions of reading a file that is no trace."""
Interval = tuple[float, float]
warn = partial(complain, "analysis profile")
PATTERN = "*trace*rank*.json*"
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
COMMUNICATING = "nccl"  # part of the name of a kernel that moves data between GPUs
TOP = (
    ("Top kernels", KERNELS),
    ("Top operators of the host, by their own time", ("cpu_op",)),
)
"""Tables of top events: title and categories of events."""


@dataclass(frozen=True)
class Event:
    """A complete event of a category of torch.profiler, from `start` to `end` in ms.

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
        """Return the steps of each case on the host; each ends with a device synchronisation."""
        steps_by_case: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind == HOST and event.name.startswith(STEP):
                steps_by_case[event.name.removeprefix(STEP)].append(event)
        return steps_by_case

    def events_within(self, steps: Sequence[Event], kinds: Iterable[str]) -> list[Event]:
        wanted_kinds = set(kinds)
        return [
            event
            for event in self.events
            if event.kind in wanted_kinds
            and any(step.start <= event.start < step.end for step in steps)
        ]

    def regions(self, steps: Sequence[Event], kind: str) -> dict[str, float]:
        """Return the ms per step in each region, on the HOST or any stream of the DEVICE."""
        intervals_by_name: dict[str, list[Interval]] = defaultdict(list)
        for event in self.events_within(steps, (kind,)):
            if not (OURS.match(event.name) or IN_FLIGHT.match(event.name)):
                intervals_by_name[event.name].append(event.interval)
        return {
            name: length(union(intervals)) / len(steps)
            for name, intervals in intervals_by_name.items()
        }


def read(path: Path) -> Trace:
    """Read a trace, compressed or not; ValueError for another file."""
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
        reason = f"not a trace of torch.profiler ({type(error).__name__}: {error})"
        raise ValueError(f"{path}: {reason}") from None


def unpack(content: bytes) -> bytes:
    with gzip.open(io.BytesIO(content)) as file:
        unpacked = file.read(files.MOST_BYTES + 1)
    if len(unpacked) > files.MOST_BYTES:
        raise ValueError(f"unpacked it is more than {files.MOST_BYTES / 1e9:g} GB")
    return unpacked


def as_event(event: dict[str, Any]) -> Event:
    start, duration = float(event["ts"]) / 1e3, float(event["dur"]) / 1e3
    if not 0 <= duration <= LONGEST_MS or abs(start) > LATEST_MS:
        raise ValueError(f"an event that begins at {start:g} ms and takes {duration:g} ms")
    thread = f"{event.get('pid')}/{event.get('tid')}"
    name = escape_unprintable(str(event["name"]), keep="")
    return Event(name, str(event["cat"]), thread, start, start + duration)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge overlapping intervals; return them in order."""
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
    """Return the self time of the events of each name: without nested events of the thread."""
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

    Returns:
        0; 1 without a trace; 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    traces: list[tuple[Path, Trace]] = []
    skipped: list[str] = []
    for path in trace_files(options.places):
        try:
            traces.append((path, read(path)))
        except (ValueError, OSError) as error:
            skipped.append(one_line(error))
    num_files = len(traces) + len(skipped)
    for line in Harvest(skipped=skipped, num_files=num_files).remarks():
        warn(line)
    if not any(trace.steps() for _, trace in traces):
        places = ", ".join(map(str, options.places))
        warn(f"no trace with steps at or below {places}; run with profile=true")
        return 1
    print(table_of(per_rank(traces)).text(), end="\n\n")
    for title, table in top_kernels(traces, options.top_n):
        print(title, table_of(table).text(), sep="\n", end="\n\n")
    return 0


def trace_files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        yield from sorted(place.rglob(PATTERN)) if place.is_dir() else [place.resolve()]


def per_rank(traces: list[tuple[Path, Trace]]) -> pd.DataFrame:
    """Return a row per case and rank, with the ms per step in each region.

    Host and device overlap, so their regions have separate columns and are never added.
    """
    has_runs = len({path.parent for path, _ in traces}) > 1
    rows = []
    for path, trace in traces:
        for case, steps in trace.steps().items():
            run = escape_unprintable(path.parent.name, keep="")
            row: dict[str, object] = {"run": run} if has_runs else {}
            row |= {"case": case or "-", "rank": trace.rank, "steps": len(steps)}
            row["step [ms]"] = length(step.interval for step in steps) / len(steps)
            on_host = trace.regions(steps, HOST)
            row |= {f"{name} [ms]": time for name, time in on_host.items()}
            row["overlap [%]"] = overlap_on_host(trace, steps)
            on_device = trace.regions(steps, DEVICE)
            row |= {f"{name} on device [ms]": time for name, time in on_device.items()}
            row["overlap on device [%]"] = overlap_on_device(trace, steps)
            rows.append(row)
    order = ["run", "case", "rank"] if has_runs else ["case", "rank"]
    return pd.DataFrame(rows).sort_values(order).dropna(axis=1, how="all")


def overlap_on_host(trace: Trace, steps: list[Event]) -> float | None:
    """Compute the percentage of the time of messages in flight in which the rank does not wait."""
    labels = trace.events_within(steps, (HOST,))
    in_flight = union(e.interval for e in labels if IN_FLIGHT.match(e.name))
    waiting = union(e.interval for e in labels if e.name.endswith(WAITING))
    whole = length(in_flight)
    return 100 * (1 - overlap_length(in_flight, waiting) / whole) if whole else None


def overlap_on_device(trace: Trace, steps: list[Event]) -> float | None:
    """Compute the percentage of the GPU's communication time in which it also computes."""
    moving: list[Interval] = []
    computing: list[Interval] = []
    for event in trace.events_within(steps, KERNELS):
        kernels = moving if COMMUNICATING in event.name.lower() else computing
        kernels.append(event.interval)
    communication = union(moving)
    whole = length(communication)
    return 100 * overlap_length(communication, union(computing)) / whole if whole else None


def top_kernels(traces: list[tuple[Path, Trace]], count: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield tables of kernels, and of the host's operators, with the most time in steps.

    Times are self times, without nested events.
    """
    for title, kinds in TOP:
        spent: dict[str, float] = {}
        for _, trace in traces:
            steps = [step for case_steps in trace.steps().values() for step in case_steps]
            for name, time in self_times(trace.events_within(steps, kinds)).items():
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

"""Reads a trace of torch.profiler, as far as the labels of steps and regions go.

Host and device are kept apart. All times are in ms.
"""

import gzip
import io
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchkit.record import files
from benchkit.record.naming import printable

STEP = "step "
"""Begins the label of a step; the case's labels follow. benchkit/rank/profiling.py writes it."""
IN_FLIGHT = re.compile(r"(gloo|nccl|mpi|ucc):")
"""Host labels that torch gives to a collective from its call to its end."""
HOST = "user_annotation"
DEVICE = "gpu_user_annotation"
"""Kinds of labels. The device has one label for each stream that worked under it, and none where no
stream did."""
OURS = re.compile(r"step |warm-up|ProfilerStep")

LONGEST_MS = 1e12
LATEST_MS = 1e18
"""Durations and starts beyond these are invalid."""
UNREADABLE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
    zlib.error,
)  # fmt: skip
"""What reading a file that is no trace may raise."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Event:
    """A complete event.

    Attributes:
        name: or label.
        kind: the category of torch.profiler.
        thread: on which it ran, as "process/thread".
        start: in ms on the trace's clock.
        end: in ms on the trace's clock.
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
    """One rank's trace."""

    rank: int
    events: list[Event]

    def steps(self) -> dict[str, list[Event]]:
        """Return the steps of each case, by the case's labels.

        They are those on the host, which waits for the device at the end of each step.
        """
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind == HOST and event.name.startswith(STEP):
                found[event.name.removeprefix(STEP)].append(event)
        return found

    def within(self, steps: Sequence[Event], kinds: Iterable[str]) -> list[Event]:
        """Return the events of some kinds that begin in any of these steps."""
        wanted = set(kinds)
        return [
            event
            for event in self.events
            if event.kind in wanted and any(step.start <= event.start < step.end for step in steps)
        ]

    def regions(self, steps: Sequence[Event], kind: str) -> dict[str, float]:
        """Return the time per step in each region, on the host or on any stream of the device.

        Args:
            steps: of one case.
            kind: HOST or DEVICE.
        """
        found: dict[str, list[Interval]] = defaultdict(list)
        for event in self.within(steps, (kind,)):
            if not (OURS.match(event.name) or IN_FLIGHT.match(event.name)):
                found[event.name].append(event.interval)
        return {name: length(union(intervals)) / len(steps) for name, intervals in found.items()}


def read(path: Path) -> Trace:
    """Read a trace, compressed or not.

    Raises:
        ValueError: where the file is no trace; the message says why.
    """
    try:
        content = files.read_regular(path)
        if path.suffix == ".gz":
            content = unpacked(content)
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


def unpacked(content: bytes) -> bytes:
    """Decompress a file; raises ValueError where that is more than a file may hold."""
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
    name = printable(str(event["name"]), keep="")
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


def common(first: Sequence[Interval], second: Sequence[Interval]) -> float:
    """Return the time in which both are active; neither has overlaps within itself."""
    return length(first) + length(second) - length(union([*first, *second]))


def self_times(events: Sequence[Event]) -> dict[str, float]:
    """Return the time in events of each name without that of events inside them, per thread."""
    own: dict[str, float] = defaultdict(float)
    open_events: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.start, -event.end)):
        stack = open_events[event.thread]
        while stack and stack[-1].end <= event.start:
            stack.pop()
        own[event.name] += event.end - event.start
        if stack:
            own[stack[-1].name] -= event.end - event.start
        stack.append(event)
    return dict(own)

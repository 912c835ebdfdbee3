"""A trace of torch.profiler, as far as the labels of steps and regions go; host and device apart. Times in ms."""

import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

STEP = "step "
"""Begins the label of a step; the case's labels follow. (benchkit/rank/profiling.py writes it.)"""
IN_FLIGHT = re.compile(r"(gloo|nccl|mpi|ucc):")
"""Host labels that torch gives to a collective from its call to its end."""
HOST, DEVICE = "user_annotation", "gpu_user_annotation"
"""Kinds of labels. The device has one for each stream that worked under it, and none where nothing did."""
OURS = re.compile(r"step |warm-up|ProfilerStep")

LONGEST_MS, LATEST_MS = 1e12, 1e18
"""Times beyond are none."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Event:
    """A complete event: milliseconds on the trace's clock."""

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
        """The steps of each case, by the case's labels, on the host, which waits for the device at the end of each."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind == HOST and event.name.startswith(STEP):
                found[event.name.removeprefix(STEP)].append(event)
        return found

    def within(self, steps: Sequence[Event], kinds: Iterable[str]) -> list[Event]:
        """The events of some kinds that begin in any of these steps."""
        wanted = set(kinds)
        return [
            event
            for event in self.events
            if event.kind in wanted and any(step.start <= event.start < step.end for step in steps)
        ]

    def regions(self, steps: Sequence[Event], kind: str) -> dict[str, float]:
        """Time per step in each region of these steps, on the host or on any stream of the device."""
        found: dict[str, list[Interval]] = defaultdict(list)
        for event in self.within(steps, (kind,)):
            if not (OURS.match(event.name) or IN_FLIGHT.match(event.name)):
                found[event.name].append(event.interval)
        return {name: length(union(intervals)) / len(steps) for name, intervals in found.items()}


def read(path: Path) -> Trace:
    """Raises ValueError that says why where the file is no trace."""
    try:
        content = path.read_bytes()
        told = orjson.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        events = [
            as_event(event)
            for event in told["traceEvents"]
            if event.get("ph") == "X" and "cat" in event
        ]
        rank = told.get("distributedInfo", {}).get("rank")
        numbered = re.search(r"rank_?(\d+)", path.name)
        number = int(rank if rank is not None else numbered[1] if numbered else 0)
    except (
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        zlib.error,
    ) as error:
        raise ValueError(
            f"{path}: not a trace of torch.profiler ({type(error).__name__}: {error})"
        ) from None
    return Trace(number, events)


def as_event(event: dict[str, Any]) -> Event:
    start, took = float(event["ts"]) / 1e3, float(event["dur"]) / 1e3
    if not 0 <= took <= LONGEST_MS or abs(start) > LATEST_MS:
        raise ValueError(f"an event that begins at {start:g} ms and takes {took:g} ms")
    thread = f"{event.get('pid')}/{event.get('tid')}"
    return Event(str(event["name"]), str(event["cat"]), thread, start, start + took)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same stretches of time, without overlaps, in order."""
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
    """How long both are at once; each without overlaps of its own."""
    return length(first) + length(second) - length(union([*first, *second]))


def self_times(events: Sequence[Event]) -> dict[str, float]:
    """Time in each kind of event less what events inside it take, thread by thread."""
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

"""`python -m analysis profile DIR...` shows traces of `profile=true` per case, rank and step."""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.commands import traces
from analysis.commands.traces import DEVICE, HOST, Event, Trace
from analysis.records.harvest import Harvest
from analysis.records.paths import missing, one_line
from analysis.records.per_rank import WAITING
from analysis.text import complain, render_table
from benchkit.record.naming import printable

warn = partial(complain, "analysis profile")

PATTERN = "*trace*rank*.json*"
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
COMMUNICATING = "nccl"
"""Part of the name of a kernel that moves data between GPUs."""
TOP = (
    ("Top kernels", KERNELS),
    ("Top operators of the host, by their own time", ("cpu_op",)),
)
"""The tables of top events: their titles and kinds of events."""


def main(arguments: list[str]) -> int:
    """Print a table of regions per rank, and tables of the kernels with the most time.

    Returns:
        0; 1 where there is no trace; 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    if why := missing(options.places):
        warn(why)
        return 2
    found: list[tuple[Path, Trace]] = []
    passed_over: list[str] = []
    for path in trace_files(options.places):
        try:
            found.append((path, traces.read(path)))
        except (ValueError, OSError) as error:
            passed_over.append(one_line(error))
    num_files = len(found) + len(passed_over)
    for line in Harvest(passed_over=passed_over, num_files=num_files).remarks():
        warn(line)
    if not any(trace.steps() for _, trace in found):
        places = ", ".join(map(str, options.places))
        warn(f"no trace with steps at or below {places}; run with profile=true")
        return 1
    print(render_table(per_rank(found), "simple"), end="\n\n")
    for title, table in top_kernels(found, options.top_n):
        print(title, render_table(table, "simple"), sep="\n", end="\n\n")
    return 0


def trace_files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        yield from sorted(place.rglob(PATTERN)) if place.is_dir() else [place.resolve()]


def per_rank(found: list[tuple[Path, Trace]]) -> pd.DataFrame:
    """Make a row per case and rank, with the ms per step in each region.

    The host's labels and the device's have columns of their own; the two are never added.
    """
    several = len({path.parent for path, _ in found}) > 1
    rows = []
    for path, trace in found:
        for case, steps in trace.steps().items():
            run = printable(path.parent.name, keep="")
            row: dict[str, Any] = {"run": run} if several else {}
            row |= {"case": case or "-", "rank": trace.rank, "steps": len(steps)}
            row["step [ms]"] = traces.length(step.interval for step in steps) / len(steps)
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
    """Compute the percentage of the time with messages in flight in which the rank did not wait.

    It is None where no messages were in flight.
    """
    labels = trace.within(steps, (HOST,))
    in_flight = traces.union(e.interval for e in labels if traces.IN_FLIGHT.match(e.name))
    waiting = traces.union(e.interval for e in labels if e.name.endswith(WAITING))
    whole = traces.length(in_flight)
    return 100 * (1 - traces.common(in_flight, waiting) / whole) if whole else None


def overlap_on_device(trace: Trace, steps: list[Event]) -> float | None:
    """Compute the percentage of the GPU's communication time in which it also computed.

    It is None where the GPU did not communicate.
    """
    moving: list[traces.Interval] = []
    computing: list[traces.Interval] = []
    for event in trace.within(steps, KERNELS):
        kernels = moving if COMMUNICATING in event.name.lower() else computing
        kernels.append(event.interval)
    communication = traces.union(moving)
    whole = traces.length(communication)
    return 100 * traces.common(communication, traces.union(computing)) / whole if whole else None


def top_kernels(found: list[tuple[Path, Trace]], count: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield tables of the kernels, and of the host's operators, with the most time.

    The time is that in all labelled steps. For operators it is their own time, without that of
    events inside them. A table without rows is left out, such as that of kernels without a GPU.
    """
    for title, kinds in TOP:
        spent: dict[str, float] = {}
        for _, trace in found:
            steps = [step for case_steps in trace.steps().values() for step in case_steps]
            for name, time in traces.self_times(trace.within(steps, kinds)).items():
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
        prog="python -m analysis profile",
        description="`python -m analysis profile DIR...`: what traces of `profile=true` say of "
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

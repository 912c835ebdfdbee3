"""`python -m analysis profile DIR...`: what traces of `profile=true` say of each case and rank, per step."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.commands import traces
from analysis.commands.traces import DEVICE, HOST, Event, Trace
from analysis.records.harvest import Harvest, missing, one_line, require_regular
from analysis.records.per_rank import WAITING
from analysis.text import render_table

PATTERN = "*trace*rank*.json*"
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
COMMUNICATING = "nccl"
"""In the name of a kernel: it moves data between GPUs."""


def main(arguments: list[str]) -> int:
    """Returns 0; 1 where there is no trace; 2 for arguments that make no sense."""
    options = parser().parse_args(arguments)
    if why := missing(options.places):
        print(f"analysis profile: {why}", file=sys.stderr)
        return 2
    found: list[tuple[Path, Trace]] = []
    passed_over: list[str] = []
    for path in trace_files(options.places):
        try:
            require_regular(path)
            found.append((path, traces.read(path)))
        except (ValueError, OSError) as error:
            passed_over.append(one_line(error))
    for line in Harvest(passed_over=passed_over, num_files=len(found) + len(passed_over)).remarks():
        print(f"analysis profile: {line}", file=sys.stderr)
    if not any(trace.steps() for _, trace in found):
        places = ", ".join(map(str, options.places))
        print(
            f"analysis profile: no trace with steps at or below {places}; run with profile=true",
            file=sys.stderr,
        )
        return 1
    print(render_table(per_rank(found), "simple"), end="\n\n")
    for title, table in top_kernels(found, options.top_n):
        print(title, render_table(table, "simple"), sep="\n", end="\n\n")
    return 0


def trace_files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        yield from sorted(place.rglob(PATTERN)) if place.is_dir() else [place]


def per_rank(found: list[tuple[Path, Trace]]) -> pd.DataFrame:
    """A row per case and rank: ms per step in each region, of the host's labels and of the device's, never added."""
    several = len({path.parent for path, _ in found}) > 1
    rows = []
    for path, trace in found:
        for case, steps in trace.steps().items():
            row: dict[str, Any] = {"run": path.parent.name} if several else {}
            row |= {"case": case or "-", "rank": trace.rank, "steps": len(steps)}
            row["step [ms]"] = traces.length(step.interval for step in steps) / len(steps)
            row |= {f"{name} [ms]": time for name, time in trace.regions(steps, HOST).items()}
            row["overlap [%]"] = overlap_on_host(trace, steps)
            row |= {
                f"{name} on device [ms]": time
                for name, time in trace.regions(steps, DEVICE).items()
            }
            row["overlap on device [%]"] = overlap_on_device(trace, steps)
            rows.append(row)
    return (
        pd.DataFrame(rows)
        .sort_values([*(["run"] if several else []), "case", "rank"])
        .dropna(axis=1, how="all")
    )


def overlap_on_host(trace: Trace, steps: list[Event]) -> float | None:
    """Of the time in which messages were in flight, the share in which nobody waited; None where none were."""
    labels = trace.within(steps, (HOST,))
    flying = traces.union(event.interval for event in labels if traces.IN_FLIGHT.match(event.name))
    waiting = traces.union(event.interval for event in labels if event.name.endswith(WAITING))
    whole = traces.length(flying)
    return 100 * (1 - traces.common(flying, waiting) / whole) if whole else None


def overlap_on_device(trace: Trace, steps: list[Event]) -> float | None:
    """Of the time in which the GPU communicated, the share in which it computed, too; None where it did not."""
    kernels = trace.within(steps, KERNELS)
    moving = traces.union(
        event.interval for event in kernels if COMMUNICATING in event.name.lower()
    )
    computing = traces.union(
        event.interval for event in kernels if COMMUNICATING not in event.name.lower()
    )
    whole = traces.length(moving)
    return 100 * traces.common(moving, computing) / whole if whole else None


def top_kernels(found: list[tuple[Path, Trace]], count: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """The kernels with the most time in all labelled steps; where there was no GPU, operators by their own time."""
    for title, kinds in (
        ("Top kernels", KERNELS),
        ("Top operators of the host, by their own time", ("cpu_op",)),
    ):
        spent: dict[str, float] = {}
        for _, trace in found:
            steps = [step for each in trace.steps().values() for step in each]
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
    result = argparse.ArgumentParser(prog="python -m analysis profile", description=__doc__)
    result.add_argument(
        "places", metavar="DIR", nargs="+", type=Path, help="folders of traces, or trace files"
    )
    result.add_argument(
        "--top-n", metavar="N", type=int, default=10, help="how many kernels to list (10)"
    )
    return result

"""Checks all that analysis reads of a record, so that later code can trust types and values."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from analysis.records.fields import (
    AGENT_OPTIONAL,
    CASE_OPTIONAL,
    CASE_REQUIRED,
    COUNT,
    FIGURE,
    LONGEST_S,
    OPTIONAL,
    REQUIRED,
    Kind,
    list_of,
)
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.summary import iteration_times, slowest_rank

SHORTEST_S = 1e-12
"""A shorter time is no measurement. Within both limits no ratio of two times overflows."""


def validate(record: Mapping[str, Any]) -> None:
    """Check all fields of a record that analysis reads.

    Raises:
        ValueError: for the first field that is wrong; the message says what it holds, and what is
            allowed.
    """
    for fault in faults_of(record):
        raise ValueError(fault)


def faults_of(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per field that is wrong."""
    yield from faults(record, REQUIRED, OPTIONAL)
    for index, agent in enumerate([record["environment"], *(record.get("agents") or ())]):
        where = f"agents[{index - 1}]." if index else "environment."
        yield from faults(agent, {}, AGENT_OPTIONAL, where)
    for index, case in enumerate(record["cases"]):
        where = f"cases[{index}]."
        yield from faults(case, CASE_REQUIRED, CASE_OPTIONAL, where)
        if case["status"] == "ok":
            yield from (f"{where}{line}" for line in measured_faults(case))


def faults(
    content: Mapping[str, Any],
    required: Mapping[str, Kind],
    optional: Mapping[str, Kind],
    where: str = "",
) -> Iterator[str]:
    """Yield one line per path whose value is not of its kind."""
    for path, kind in (*required.items(), *optional.items()):
        value: Any = content
        for name in path.split("."):
            value = value.get(name) if value is not None else None
        if not (kind.holds(value) or (value is None and path in optional)):
            yield f"{where}{path}: {shown(value)}; allowed is {kind.allowed}"


def measured_faults(case: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the samples of a case that is ok."""
    samples = matrix(case.get("samples_s"), 0.0, LONGEST_S)
    if samples is None:
        yield f"samples_s: allowed are equally many seconds, 0 to {LONGEST_S:g}, of each rank"
        return
    num_ranks = case.get("ranks")
    starts = case.get("start_offsets_s")
    if starts is not None:
        starts = matrix(starts, -LONGEST_S, LONGEST_S)
        if starts is None or starts.shape != samples.shape:
            yield "start_offsets_s: allowed are null, or seconds as many as samples"
            return
        starts = starts[:num_ranks]
    taking = samples[:num_ranks]
    times = iteration_times(taking, starts, case.get("estimator") or SLOWEST_RANK)
    if min(times.min(), slowest_rank(taking).min()) < SHORTEST_S:
        yield f"samples_s: an iteration takes less than {SHORTEST_S:g} s"
    for name, spent in (case.get("regions_s") or {}).items():
        region = matrix(spent, 0.0, LONGEST_S)
        if region is None or region.shape != samples.shape:
            yield f"regions_s.{name}: allowed are seconds as many as samples"
    for name, counted in (case.get("disturbance") or {}).items():
        if not list_of(FIGURE, 1).holds(counted):
            yield f"disturbance.{name}: allowed is a number per rank"
    lengths = case.get("blocks") or [case.get("block_iterations")]
    if not list_of(COUNT, 1).holds(lengths) or sum(lengths) > samples.shape[1]:
        yield f"blocks: allowed are numbers from 1 on, {samples.shape[1]} together"


def matrix(rows: Any, low: float, high: float) -> Any:
    """Return equally long lists of numbers within limits as an array; None for anything else."""
    try:
        found = np.asarray(rows)
    except ValueError:  # rows of unequal length
        return None
    usable = found.ndim == 2 and found.size and found.dtype.kind in "iuf"
    return found if usable and found.min() >= low and found.max() <= high else None


def shown(value: Any) -> str:
    """Format a value for a message, cut to 40 characters."""
    if value is None:
        return "null or absent"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

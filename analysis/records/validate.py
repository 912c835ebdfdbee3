"""Checks once what analysis reads of a record, so that code behind doubts no type and no value."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.records.rows import DIMENSIONS
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.summary import iteration_times, slowest_rank

LONGEST_S, SHORTEST_S = 1e9, 1e-12
"""Times outside are no measurements; within, no ratio of two times overflows."""


@dataclass(frozen=True)
class Kind:
    """What a field may hold, in words and as a test."""

    allowed: str
    holds: Callable[[Any], bool]


def number(low: float, high: float) -> Kind:
    """A finite number between two limits, both included; true and false are none."""

    def holds(value: Any) -> bool:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return known and low <= value <= high

    return Kind(f"a number from {low:g} to {high:g}", holds)


def list_of(kind: Kind, least: int = 0) -> Kind:
    """A list of at least so many values of a kind."""

    def holds(value: Any) -> bool:
        return isinstance(value, list) and len(value) >= least and all(map(kind.holds, value))

    return Kind(f"a list of at least {least}, each {kind.allowed}", holds)


def count(most: int) -> Kind:
    """A whole number from 1 on."""
    within = number(1, most)
    return Kind(
        f"a whole number from 1 to {most:g}",
        lambda value: isinstance(value, int) and within.holds(value),
    )


def holds_parts(value: Any) -> bool:
    """Whether it names parts: by what they are, or as records once had it (within_job.parts_of)."""
    names = list(value.values()) if isinstance(value, dict) else value
    return TEXTS.holds(names) and (isinstance(value, dict) or len(names) <= 2)


TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
SCALAR = Kind("text, a number, true or false", lambda value: isinstance(value, str | int | float))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
LIST = Kind("a list", lambda value: isinstance(value, list))
PARTS = Kind("an object of names, or a list of 1 or 2", holds_parts)
SECONDS = number(0, LONGEST_S)
MEBIBYTES = number(0, 1e12)
SIZE = number(0, 1e18)
AMOUNT = number(0, 1e30)
FIGURE = number(-1e18, 1e18)
FIGURES = list_of(FIGURE)
TEXTS = list_of(TEXT)
OBJECTS = list_of(OBJECT)
WORLD_SIZE = count(10**6)
COUNT = count(10**12)
RANK = number(0, 10**6)

REQUIRED = {
    "suite": TEXT, "status": TEXT, "point_id": TEXT, "started_at": TEXT, "world_size": WORLD_SIZE,
    "config": OBJECT, "config.backend": OBJECT, "config.backend.name": TEXT,
    "config.backend.env": OBJECT, "config.hardware": OBJECT, "config.hardware.device": TEXT,
    "config.hardware.ranks_per_device": COUNT, "config.measure": OBJECT,
    "config.measure.mode": TEXT, "config.measure.calls_per_sample": SCALAR,
    "config.measure.warmup_iterations": SCALAR, "config.start_method": TEXT,
    "config.threads_per_rank": SCALAR, "config.seed": SCALAR, "environment": OBJECT,
    "environment.host": TEXT, "environment.available_cores": SIZE, "phases_s": OBJECT,
    "cases": OBJECTS,
}  # fmt: skip
"""Fields of a record by path; an object comes before what is in it."""
OPTIONAL = {
    "error": OBJECT, "error.message": TEXT, "error.rank": RANK, "config.model": OBJECT,
    "config.model.name": TEXT, **dict.fromkeys((f"config.{name}" for name in DIMENSIONS), SIZE),
    "config.data_size": MEBIBYTES, "threads_per_rank": SIZE, "cores_per_rank": SIZE,
    "launched_by": TEXT, "agents": OBJECTS, "slowdown": OBJECT, "slowdown.mechanism": TEXT,
    "slowdown.measured": FIGURES, "warnings": TEXTS, "clock": TEXT, "start_clock": OBJECT,
    "start_clock.estimator": TEXT, "start_clock.uncertainty_s": SECONDS, "phases_s.total": SECONDS,
}  # fmt: skip
"""Fields that may be null or absent."""
AGENT_OPTIONAL = {"host": TEXT, "gpus": OBJECTS, "load_average": FIGURES}
"""Of an agent, and of the environment, which stands for what old records do not say per agent."""
CASE_REQUIRED = {"labels": OBJECT, "status": TEXT}
CASE_OPTIONAL = {
    "labels.data_size": MEBIBYTES, "reason": TEXT, "rank": RANK, "name": TEXT, "against": TEXT,
    "parts": PARTS, "bound": FLAG, "unslowed": FLAG, "ranks": WORLD_SIZE, "payload_bytes": SIZE,
    "wire_bytes": SIZE, "bus_factor": AMOUNT, "useful_flops": AMOUNT, "executed_flops": AMOUNT,
    "calls_per_sample": COUNT, "estimator": TEXT, "stopped_by": TEXT, "converged": FLAG,
    "steady": FLAG, "elapsed_s": SECONDS, "samples_s": LIST, "regions_s": OBJECT,
    "disturbance": OBJECT, "details": OBJECT, "details.predicted_s": FIGURE,
    "details.ideal_s": FIGURE, "details.tokens_per_call": AMOUNT,
    "details.peak_tflop_per_s": AMOUNT, "details.causal_flops": AMOUNT,
}  # fmt: skip


def validate(record: Mapping[str, Any]) -> None:
    """Raises ValueError for the first field that is wrong: what it holds, and what is allowed."""
    for fault in faults_of(record):
        raise ValueError(fault)


def faults_of(record: Mapping[str, Any]) -> Iterator[str]:
    """One line per field that is wrong."""
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
    """One line per path whose value is not of its kind."""
    for path, kind in (*required.items(), *optional.items()):
        value: Any = content
        for name in path.split("."):
            value = value.get(name) if value is not None else None
        if not (kind.holds(value) or (value is None and path in optional)):
            yield f"{where}{path}: {shown(value)}; allowed is {kind.allowed}"


def measured_faults(case: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the samples of a case that is ok."""
    samples = matrix(case.get("samples_s"), 0.0, LONGEST_S)
    if samples is None:
        yield f"samples_s: allowed are equally many seconds, 0 to {LONGEST_S:g}, of each rank"
        return
    starts, taking = case.get("start_offsets_s"), case.get("ranks")
    if starts is not None:
        starts = matrix(starts, -LONGEST_S, LONGEST_S)
        if starts is None or starts.shape != samples.shape:
            yield "start_offsets_s: allowed are null, or seconds as many as samples"
            return
        starts = starts[:taking]
    times = iteration_times(samples[:taking], starts, case.get("estimator") or SLOWEST_RANK)
    if min(times.min(), slowest_rank(samples[:taking]).min()) < SHORTEST_S:
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
    """Equally long lists of numbers within limits as an array; None for anything else."""
    try:
        found = np.asarray(rows)
    except ValueError:  # rows of unequal length
        return None
    usable = found.ndim == 2 and found.size and found.dtype.kind in "iuf"
    return found if usable and found.min() >= low and found.max() <= high else None


def shown(value: Any) -> str:
    """A value for a message, cut to what a line bears."""
    if value is None:
        return "null or absent"
    if isinstance(value, dict | list):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

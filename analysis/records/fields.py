"""The fields of a record that analysis reads, and what each of them may hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.records.conditions import DIMENSIONS

LONGEST_S = 1e9
"""A longer time is no measurement."""


@dataclass(frozen=True)
class Kind:
    """What a field may hold.

    Attributes:
        allowed: in words, for messages.
        holds: whether a value is allowed.
    """

    allowed: str
    holds: Callable[[Any], bool]


def number(low: float, high: float) -> Kind:
    """Allow a finite number between two limits, both included, but neither true nor false."""

    def holds(value: Any) -> bool:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return known and low <= value <= high

    return Kind(f"a number from {low:g} to {high:g}", holds)


def list_of(kind: Kind, least: int = 0) -> Kind:
    """Allow a list of at least `least` values of a kind."""

    def holds(value: Any) -> bool:
        return isinstance(value, list) and len(value) >= least and all(map(kind.holds, value))

    return Kind(f"a list of at least {least}, each {kind.allowed}", holds)


def count(most: int) -> Kind:
    """Allow a whole number from 1 to `most`."""
    within = number(1, most)

    def holds(value: Any) -> bool:
        return isinstance(value, int) and within.holds(value)

    return Kind(f"a whole number from 1 to {most:g}", holds)


def holds_parts(value: Any) -> bool:
    """Return whether a value names the parts of a case; see comparisons.parts_of."""
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
"""Fields of a record by path; an object comes before its fields."""
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
"""Fields of an agent, and of the environment, which has what old records lack per agent."""
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

"""The hosts and the software of records, and what differs between those of two places."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.records.conditions import conditions, distinct
from benchkit.record.record import Record

ENVIRONMENT = (
    "torch", "cuda", "nccl", "commit", "kernel", "device_name", "host", "launched_by",
    "backend_env",
)  # fmt: skip
"""Columns of the combined table that are the environment of a point, not a setting of it."""
TOLERANCE = 0.05
"""Numbers, such as clock frequencies, differ where their medians do by more than this share."""
MOST_LETTERS = 60

Facts = Mapping[str, str | float | None]
"""Of one record, by name. Numbers vary from record to record."""


def environment_of(record: Record) -> Facts:
    """Return the environment of a record; None for what is not known."""
    held, here, agents = conditions(record), record.environment, record.agents
    gpus = [gpu for agent in agents for gpu in agent.gpus]
    frequencies = [max(case.disturbance.get("highest_ghz") or [0.0]) for case in record.cases]
    return {
        **{name: held[name] or None for name in ENVIRONMENT},
        "benchkit": here.benchkit,
        "python": distinct(agent.python for agent in agents),
        "driver": distinct(gpu.get("driver_version") for gpu in gpus),
        "GPU power limit": distinct(gpu.get("power.limit") for gpu in gpus),
        "highest GPU clock": distinct(gpu.get("clocks.max.sm") for gpu in gpus),
        "clock": record.clock,
        "governor": here.governor,
        "CPU clock [GHz]": max(frequencies, default=0.0) or None,
        "cores per rank": float(record.cores_per_rank),
        "threads per rank": float(record.threads_per_rank),
    }


def differences(first: Sequence[Facts], second: Sequence[Facts]) -> Iterator[tuple[str, str, str]]:
    """Yield what differs between the environments of two places: its name and both values."""
    for name in dict.fromkeys(name for facts in (*first, *second) for name in facts):
        sides = [[facts.get(name) for facts in place] for place in (first, second)]
        one, other = ([value for value in side if value is not None] for side in sides)
        if has_changed(one, other):
            yield name, summary(one), summary(other)


def has_changed(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether the values of two places differ, for numbers beyond TOLERANCE."""
    numbers = [value for value in (*one, *other) if isinstance(value, float)]
    if not numbers or not one or not other:
        return set(one) != set(other)
    before, after = np.median(one), np.median(other)
    return bool(abs(after - before) > TOLERANCE * before)


def summary(values: Sequence[Any]) -> str:
    """Return the median of numbers, and different texts side by side: "2.13.0, 2.12.0"."""
    if values and isinstance(values[0], float):
        return f"{np.median(values):.3g}"
    text = ", ".join(dict.fromkeys(values)) or "not known"
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."

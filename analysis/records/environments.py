"""The hosts and the software of records, and what differs between those of two places."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.records.rows import conditions, driver_of, join_distinct
from benchkit.record.record import Record

ENVIRONMENT = (
    "torch", "cuda", "nccl", "driver", "commit", "kernel", "device_name", "host", "launched_by",
    "backend_env", "variables",
)  # fmt: skip
"""Columns of the combined table that are the environment of a point, not a setting of it."""
TOLERANCE = 0.05
"""Numbers, such as clock frequencies, differ where their medians do by more than this share."""
MOST_LETTERS, MOST_NUMBERS = 60, 3
OF_GPUS = {
    "GPU power limit": "power.limit",
    "highest GPU clock": "clocks.max.sm",
    "MIG mode": "mig.mode.current",
    "compute mode": "compute_mode",
    "persistence mode": "persistence_mode",
    "ECC": "ecc.mode.current",
}
"""Facts by the names of nvidia-smi."""
SM_CLOCK = "gpu_sm_mhz_after"
"""Among the disturbances of a case."""
VARIABLE, UNSET = "$", "unset"
"""Begins the names of facts that are variables; the value on agents without one."""

Facts = Mapping[str, str | float | None]
"""Of one record, by name. Numbers vary from record to record."""


def environment_of(record: Record) -> Facts:
    """Return the environment of a record; None for what is not known."""
    held, here, agents = conditions(record), record.environment, record.agents
    frequencies = [max(case.disturbance.get("highest_ghz") or [0.0]) for case in record.cases]
    return {
        **{name: held[name] or None for name in ENVIRONMENT if name != "variables"},
        "nccl": join_distinct(device.nccl for device in record.rank_devices) or held["nccl"],
        "driver": join_distinct(map(driver_of, agents)),
        "hip": join_distinct(agent.hip for agent in agents),
        "benchkit": here.benchkit,
        "python": join_distinct(agent.python for agent in agents),
        **of_gpus(record),
        **torch_settings(record),
        **variables(record),
        "clock": record.clock,
        "governor": here.governor,
        "CPU clock [GHz]": max(frequencies, default=0.0) or None,
        "cores per rank": float(record.cores_per_rank),
        "threads per rank": float(record.threads_per_rank),
    }


def of_gpus(record: Record) -> Facts:
    gpus = [gpu for agent in record.agents for gpu in agent.gpus]
    clocks = [mhz for case in record.cases for mhz in case.disturbance.get(SM_CLOCK, ()) if mhz]
    return {
        **{name: join_distinct(gpu.get(key) for gpu in gpus) for name, key in OF_GPUS.items()},
        "GPU clock [GHz]": float(np.median(clocks)) / 1e3 if clocks else None,
    }


def variables(record: Record) -> Facts:
    found = {}
    for name in sorted({name for agent in record.agents for name in agent.variables}):
        values = [agent.variables.get(name, UNSET) or '""' for agent in record.agents]
        found[VARIABLE + name] = join_distinct(values)
    return found


def torch_settings(record: Record) -> Facts:
    settings = record.torch_settings.items()
    return {f"torch {name}": None if value is None else str(value) for name, value in settings}


def differences(first: Sequence[Facts], second: Sequence[Facts]) -> Iterator[tuple[str, str, str]]:
    """Yield the name and both values of what differs between the environments of two places."""
    for name in dict.fromkeys(name for facts in (*first, *second) for name in facts):
        sides = [[facts.get(name) for facts in place] for place in (first, second)]
        one, other = ([value for value in side if value is not None] for side in sides)
        if has_changed(one, other):
            none = "none recorded" if name.startswith(VARIABLE) else "not known"
            yield name, summary(one, none), summary(other, none)


def has_changed(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether the values of two places differ, for numbers beyond TOLERANCE."""
    numbers = [value for value in (*one, *other) if isinstance(value, float)]
    if not numbers or not one or not other:
        return set(one) != set(other)
    before, after = np.median(one), np.median(other)
    return bool(abs(after - before) > TOLERANCE * before)


def summary(values: Sequence[Any], none: str) -> str:
    """Return different values side by side, of many numbers their range; `none` without any."""
    if values and isinstance(values[0], float):
        numbers = [f"{value:.3g}" for value in sorted(set(values))]
        shown = list(dict.fromkeys(numbers))
        if len(shown) > MOST_NUMBERS:
            return f"{shown[0]} to {shown[-1]}, median {np.median(values):.3g}"
        return ", ".join(shown)
    text = ", ".join(dict.fromkeys(values)) or none
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."

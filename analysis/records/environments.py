"""Environments of records, hosts and software, and their differences between two places."""

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
    """Return the environment of a record; None for facts that are not known."""
    condition_cells, environment, agents = conditions(record), record.environment, record.agents
    frequencies = [max(case.disturbance.get("highest_ghz") or [0.0]) for case in record.cases]
    return {
        **{name: condition_cells[name] or None for name in ENVIRONMENT if name != "variables"},
        "nccl": join_distinct(device.nccl for device in record.rank_devices)
        or condition_cells["nccl"],
        "driver": join_distinct(map(driver_of, agents)),
        "hip": join_distinct(agent.hip for agent in agents),
        "benchkit": environment.benchkit,
        "python": join_distinct(agent.python for agent in agents),
        **gpu_facts(record),
        **torch_settings(record),
        **variables(record),
        "clock": record.clock,
        "governor": environment.governor,
        "CPU clock [GHz]": max(frequencies, default=0.0) or None,
        "cores per rank": float(record.cores_per_rank),
        "threads per rank": float(record.threads_per_rank),
    }


def gpu_facts(record: Record) -> Facts:
    gpus = [gpu for agent in record.agents for gpu in agent.gpus]
    clocks = [mhz for case in record.cases for mhz in case.disturbance.get(SM_CLOCK, ()) if mhz]
    return {
        **{name: join_distinct(gpu.get(key) for gpu in gpus) for name, key in OF_GPUS.items()},
        "GPU clock [GHz]": float(np.median(clocks)) / 1e3 if clocks else None,
    }


def variables(record: Record) -> Facts:
    facts = {}
    for name in sorted({name for agent in record.agents for name in agent.variables}):
        values = [agent.variables.get(name, UNSET) or '""' for agent in record.agents]
        facts[VARIABLE + name] = join_distinct(values)
    return facts


def torch_settings(record: Record) -> Facts:
    settings = record.torch_settings.items()
    return {f"torch {name}": None if value is None else str(value) for name, value in settings}


def differences(first: Sequence[Facts], second: Sequence[Facts]) -> Iterator[tuple[str, str, str]]:
    """Yield the name and both values of each fact that differs between two places."""
    for name in dict.fromkeys(name for facts in (*first, *second) for name in facts):
        values_of_places = [[facts.get(name) for facts in place] for place in (first, second)]
        before, after = (
            [value for value in values if value is not None] for values in values_of_places
        )
        if has_changed(before, after):
            none = "none recorded" if name.startswith(VARIABLE) else "not known"
            yield name, summary(before, none), summary(after, none)


def has_changed(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Return whether the values of two places differ, for numbers beyond TOLERANCE."""
    numbers = [value for value in (*before, *after) if isinstance(value, float)]
    if not numbers or not before or not after:
        return set(before) != set(after)
    old, new = np.median(before), np.median(after)
    return bool(abs(new - old) > TOLERANCE * old)


def summary(values: Sequence[Any], none: str) -> str:
    """Join distinct values; many numbers become their range. Without values return `none`."""
    if values and isinstance(values[0], float):
        numbers = [f"{value:.3g}" for value in sorted(set(values))]
        shown = list(dict.fromkeys(numbers))
        if len(shown) > MOST_NUMBERS:
            return f"{shown[0]} to {shown[-1]}, median {np.median(values):.3g}"
        return ", ".join(shown)
    text = ", ".join(dict.fromkeys(values)) or none
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."

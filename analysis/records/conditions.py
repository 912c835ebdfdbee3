"""The columns of a record that say how it was measured, and where it comes from."""

from collections.abc import Iterable, Mapping
from typing import Any

MODEL = "model."
DIMENSIONS = tuple(
    MODEL + name for name in ("d_model", "d_ff", "num_layers", "num_heads", "vocab_size")
)
"""The sizes of a model. They are added to the model's name where models of different sizes share
one name. They have the prefix of their keys because a suite has keys of its own by the same names,
such as num_heads of ring_attention."""


def conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a record was measured, as far as that affects the result."""
    config, agents = record["config"], agents_of(record)
    on_cpu = config["hardware"]["device"] == "cpu"
    processors = [agent.get("cpu") if on_cpu else gpu_name(agent) for agent in agents]
    environment_variables = config["backend"]["env"].items()
    measure = config["measure"]
    return {
        "host": "+".join(dict.fromkeys(agent["host"] for agent in agents)),
        "device_name": distinct(processors),
        **{
            name: distinct(agent.get(name) for agent in agents)
            for name in ("torch", "cuda", "nccl")
        },
        "commit": distinct(map(code_of, agents)),
        "kernel": distinct(agent.get("kernel") for agent in agents),
        "launched_by": record.get("launched_by", "plain"),
        "num_agents": len(agents),
        "start_method": config["start_method"],
        "threads": str(config["threads_per_rank"]),
        "ranks_per_device": config["hardware"]["ranks_per_device"],
        "slowdown": config["hardware"].get("slowdown", 1),
        "backend_env": " ".join(f"{name}={value}" for name, value in environment_variables),
        "seed": config["seed"],
        **{name: measure[name] for name in ("mode", "calls_per_sample", "warmup_iterations")},
    }


def provenance(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a row comes from."""
    start_clock, slowdown = record.get("start_clock") or {}, record.get("slowdown") or {}
    model = record["config"]["model"] or {}
    loads = [agent["load_average"][0] for agent in agents_of(record) if agent.get("load_average")]
    factors = " ".join(f"{factor:.3g}" for factor in slowdown.get("measured") or ())
    return {
        "run": record.get("run"),
        "load": max(loads, default=None),
        **{name: model.get(name.removeprefix(MODEL)) for name in DIMENSIONS},
        "slowed_by": slowdown.get("mechanism"),
        "measured_slowdown": factors or None,
        "warning": "; ".join(record.get("warnings", ())) or None,
        "clock": record["clock"],
        "start_clock": start_clock.get("estimator"),
        "start_uncertainty_s": start_clock.get("uncertainty_s"),
        "threads_per_rank": record["threads_per_rank"],
        "cores_per_rank": cores_per_rank(record),
        "point_id": record["point_id"],
        "started_at": str(record["started_at"]),
        "total_s": record["phases_s"].get("total"),
        "path": record.get("path"),
    }


def agents_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what each agent recorded of its host.

    What old records do not have per agent is taken from agent 0's environment.
    """
    environment = record["environment"]
    return [{**environment, **agent} for agent in record.get("agents") or [{}]]


def distinct(values: Iterable[Any]) -> str | None:
    """Join the values of all agents: one where they are equal, else "2.13.0 / 2.12.0".

    The values are in the order of the agents. The result is None where no agent has a value.
    """
    return " / ".join(dict.fromkeys(str(value) for value in values if value)) or None


def gpu_name(agent: Mapping[str, Any]) -> str | None:
    """Return the name of the first GPU of an agent's host."""
    name = (agent.get("gpus") or [{}])[0].get("name")
    return str(name) if name else None


def code_of(agent: Mapping[str, Any]) -> str | None:
    """Return the first 12 digits of the commit; for changed code also "+" and the change's hash.

    Old records lack the hash and have "dirty" in its place.
    """
    if not agent.get("git_commit"):
        return None
    change = agent.get("git_diff_hash", "dirty" if agent.get("git_dirty") else None)
    return str(agent["git_commit"])[:12] + (f"+{change}" if change else "")


def cores_per_rank(record: Mapping[str, Any]) -> float:
    """Return the cores of a host over the ranks on it."""
    one_host = record["environment"]["available_cores"] / record["world_size"]
    return float(record.get("cores_per_rank", one_host))

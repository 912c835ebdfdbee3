"""The columns of a record that say how it was measured, and where it comes from."""

import contextlib
import datetime
from collections.abc import Iterable
from typing import Any

from analysis.records.reuse import held_bytes
from benchkit.record.environment import AgentReport
from benchkit.record.record import Record
from benchkit.statistics.compare.spread import difference_of_runs, percent

MODEL = "model."
DIMENSIONS = tuple(
    MODEL + name for name in ("d_model", "d_ff", "num_layers", "num_heads", "vocab_size")
)
"""The sizes of a model. They are added to the model's name where models of different sizes share
one name. They have the prefix of their keys because a suite has keys of its own by the same names,
such as num_heads of ring_attention."""


def conditions(record: Record) -> dict[str, Any]:
    """Return how a record was measured, as far as that affects the result."""
    settings, agents = record.settings, record.agents
    hardware, measure = settings.hardware, settings.measure
    on_cpu = hardware.device == "cpu"
    variables = settings.backend.env.items()
    return {
        "host": "+".join(dict.fromkeys(agent.host for agent in agents)),
        "device_name": distinct(agent.cpu for agent in agents) if on_cpu else gpu_names(record),
        "torch": distinct(agent.torch for agent in agents),
        "cuda": distinct(agent.cuda for agent in agents),
        "nccl": distinct(agent.nccl for agent in agents),
        "driver": None if on_cpu else distinct(map(driver_of, agents)),
        "commit": distinct(map(code_of, agents)),
        "kernel": distinct(agent.kernel for agent in agents),
        "launched_by": record.launched_by,
        "num_agents": len(agents),
        "start_method": settings.start_method,
        "processes": settings.ranks,
        "threads": str(settings.threads_per_rank),
        "ranks_per_device": hardware.ranks_per_device,
        "full_share": str(hardware.full_share),
        "slowdown": hardware.slowdown,
        "backend_env": " ".join(f"{name}={value}" for name, value in variables),
        "seed": settings.seed,
        "mode": measure.mode,
        "calls_per_sample": measure.calls_per_sample,
        "warmup_iterations": measure.warmup_iterations,
    }


def provenance(record: Record) -> dict[str, Any]:
    """Return where a row comes from, but for its file and its run."""
    clock, model, noise = record.start_clock, record.settings.model, record.noise_floor
    factors = " ".join(f"{factor:.3g}" for factor in record.slowdown.measured or ())
    loads = [agent.load_average[0] for agent in record.agents if agent.load_average]
    return {
        "load": max(loads, default=None),
        **{name: getattr(model, name.removeprefix(MODEL), None) for name in DIMENSIONS},
        "slowed_by": record.slowdown.mechanism,
        "measured_slowdown": factors or None,
        "warning": "; ".join(record.warnings) or None,
        "noise_floor": noise_text(record),
        "identical_runs": difference_of_runs(noise.sigma_run) if noise else None,
        "clock": record.clock,
        "start_clock": clock.estimator if clock else None,
        "start_uncertainty_s": clock.uncertainty_s if clock else None,
        "threads_per_rank": record.threads_per_rank,
        "cores_per_rank": record.cores_per_rank,
        "point_id": record.point_id,
        "started_at": record.started_at,
        "total_s": record.phases_s.get("total"),
        "points_before": record.rank_use.points_before if record.rank_use else None,
        "held_bytes": held_bytes(record),
        "title": record.title,
    }


def noise_text(record: Record) -> str | None:
    """Return how much identical runs differ: "± 4 % at all_reduce 1 MiB (selftest of 2026-11-20)".

    The result is None where no noise floor applied.
    """
    noise = record.noise_floor
    if noise is None:
        return None
    day = ""
    with contextlib.suppress(ValueError, OverflowError):
        ended = datetime.datetime.fromisoformat(record.finished_at or record.started_at)
        day = f" of {(ended - datetime.timedelta(seconds=noise.age_s)).date()}"
    return f"± {percent(difference_of_runs(noise.sigma_run))} at {noise.at} (selftest{day})"


def distinct(values: Iterable[Any]) -> str | None:
    """Join the values of all agents: one where they are equal, else "2.13.0 / 2.12.0".

    The values are in the order of the agents. The result is None where no agent has a value.
    """
    return " / ".join(dict.fromkeys(str(value) for value in values if value)) or None


def gpu_names(record: Record) -> str | None:
    """Return the names of the first GPUs of the hosts; of the ranks' where hosts list none."""
    listed = distinct(agent.gpus[0].get("name") for agent in record.agents if agent.gpus)
    return listed or distinct(device.name for device in record.rank_devices)


def driver_of(agent: AgentReport) -> str | None:
    """Return the version of the GPUs' driver, which early records only list per GPU."""
    return agent.driver or distinct(gpu.get("driver_version") for gpu in agent.gpus)


def code_of(agent: AgentReport) -> str | None:
    """Return the first 12 digits of the commit; for changed code also "+" and the change's hash."""
    if not agent.git_commit:
        return None
    return agent.git_commit[:12] + (f"+{agent.git_diff_hash}" if agent.git_diff_hash else "")

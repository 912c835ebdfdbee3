"""One record as rows of the combined table: its settings, its cases' labels, and its metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.records import comparisons, disturbances, noise
from analysis.records.doubts import doubt_of
from analysis.records.metrics import METRICS, region_medians
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.summary import iteration_times, summarize

MODEL = "model."
DIMENSIONS = tuple(MODEL + name for name in ("d_model", "d_ff", "num_layers", "num_heads", "vocab_size"))
"""What a model's name stands for; where it does not stand for one of each, they are written to it. With the prefix
that their keys have: a suite has keys of its own by the same names (num_heads of ring_attention)."""
DETAILS = "details"
"""Of a row: what the suite told of the case, by name; columns of their own, which do not say what was measured."""
MAX_START_UNCERTAINTY = 0.1
"""As a share of the median: starts on several hosts told less surely than this give no makespan, skew or straggler."""
SHARED_KEYS = frozenset(
    ("suite", "seed", "world_size", "threads_per_rank", "start_method", "timeout_s", "join_timeout_s", "host_wait_s",
     "max_failures", "on_end", "private_network", "backend", "hardware", "measure", "model", "profile", "explain")
)  # fmt: skip
"""Keys that every suite has; of a suite's own, lists and dictionaries choose cases, which their labels tell apart."""
OUTCOMES = ("status", "reason", "failed_rank", "stopped_by", "converged", DETAILS)
"""Columns that say how a case went."""


def rows_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of one record, one per case; one without cases still gives one row. Times in seconds.

    Raises KeyError, TypeError, ValueError, … for a record that is not whole.
    """
    error = record["error"] or {}
    shared = settings(record) | conditions(record) | provenance(record)
    failed = {"status": record["status"], "reason": error.get("message"), "failed_rank": error.get("rank")}
    uncertainty_s = (record.get("start_clock") or {}).get("uncertainty_s") or 0.0
    cases = record["cases"]
    slowed_by = (record.get("slowdown") or {}).get("mechanism") or ""
    rows = [
        labels(record, case)
        | case_row(case, uncertainty_s, cases)
        | {"disturbed": disturbances.describe(case, slowed_by, len(shared["host"].split("+"))) or None}
        for case in cases
    ] or [failed]
    return [
        {name: plain(value) for name, value in (shared | row).items() if name != DETAILS}
        | {DETAILS: {name: plain(value) for name, value in row.get(DETAILS, {}).items()}}
        for row in rows
    ]


def settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured: the suite, where, and the suite's own keys."""
    own = {
        name: value
        for name, value in record["config"].items()
        if name not in SHARED_KEYS and not isinstance(value, list | dict)
    }
    return shared_settings(record) | renamed(record, own)


def shared_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the settings that every suite has."""
    config = record["config"]
    return {
        "suite": record["suite"],
        "backend": config["backend"]["name"],
        "device": config["hardware"]["device"],
        "world_size": int(record["world_size"]),
        "model": (config["model"] or {}).get("name"),
    }


def labels(record: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """What sets a case apart inside its job."""
    return renamed(record, case["labels"])


def renamed(record: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A suite's keys or labels as columns: one named like a column of every table gets the suite's name as prefix."""
    described = {**shared_settings(record), **conditions(record), **provenance(record)}
    taken = {*described, *OUTCOMES, *(metric.name for metric in METRICS)}
    return {f"{record['suite']}.{name}" if name in taken else name: value for name, value in own.items()}


def plain(value: Any) -> Any:
    """A cell that can be compared and grouped: lists and dictionaries become text."""
    return value if isinstance(value, str | int | float | None) else str(value)


def agents_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What each agent told of its host; of what old records do not say per agent, agent 0's environment."""
    environment = record["environment"]
    return [{**environment, **agent} for agent in record.get("agents") or [{}]]


def conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """How it was measured, as far as that changes what is measured."""
    config, agents = record["config"], agents_of(record)
    on_cpu = config["hardware"]["device"] == "cpu"
    return {
        "host": "+".join(dict.fromkeys(agent["host"] for agent in agents)),
        "device_name": distinct(agent.get("cpu") if on_cpu else gpu_name(agent) for agent in agents),
        **{name: distinct(agent.get(name) for agent in agents) for name in ("torch", "cuda", "nccl")},
        "commit": distinct(map(code_of, agents)),
        "kernel": distinct(agent.get("kernel") for agent in agents),
        "launched_by": record.get("launched_by", "plain"),
        "num_agents": len(agents),
        "start_method": config["start_method"],
        "threads": str(config["threads_per_rank"]),
        "ranks_per_device": config["hardware"]["ranks_per_device"],
        "slowdown": config["hardware"].get("slowdown", 1),
        "backend_env": " ".join(f"{name}={value}" for name, value in config["backend"]["env"].items()),
        "seed": config["seed"],
        **{name: config["measure"][name] for name in ("mode", "calls_per_sample", "warmup_iterations")},
    }


def provenance(record: Mapping[str, Any]) -> dict[str, Any]:
    """Where a row comes from."""
    started, slowdown = record.get("start_clock") or {}, record.get("slowdown") or {}
    model = record["config"]["model"] or {}
    loads = [agent["load_average"][0] for agent in agents_of(record) if agent.get("load_average")]
    return {
        "run": record.get("run"),
        "load": max(loads, default=None),
        **{name: model.get(name.removeprefix(MODEL)) for name in DIMENSIONS},
        "slowed_by": slowdown.get("mechanism"),
        "measured_slowdown": " ".join(f"{factor:.3g}" for factor in slowdown.get("measured") or ()) or None,
        "warning": "; ".join(record.get("warnings", ())) or None,
        "clock": record["clock"],
        "start_clock": started.get("estimator"),
        "start_uncertainty_s": started.get("uncertainty_s"),
        "threads_per_rank": record["threads_per_rank"],
        "cores_per_rank": cores_per_rank(record),
        "point_id": record["point_id"],
        "started_at": str(record["started_at"]),
        "total_s": record["phases_s"].get("total"),
        "path": record.get("path"),
    }


def distinct(values: Iterable[Any]) -> str | None:
    """What all agents have, or each of them in order of agents: "2.13.0 / 2.12.0"; None where nobody tells."""
    return " / ".join(dict.fromkeys(str(value) for value in values if value)) or None


def gpu_name(agent: Mapping[str, Any]) -> str | None:
    """The first GPU of an agent's host."""
    name = (agent.get("gpus") or [{}])[0].get("name")
    return str(name) if name else None


def code_of(agent: Mapping[str, Any]) -> str | None:
    """12 digits of the commit; of changed code "+" and the hash of the change, "dirty" where old records lack it."""
    if not agent.get("git_commit"):
        return None
    change = agent.get("git_diff_hash", "dirty" if agent.get("git_dirty") else None)
    return str(agent["git_commit"])[:12] + (f"+{change}" if change else "")


def cores_per_rank(record: Mapping[str, Any]) -> float:
    """Cores of a host over the ranks on it."""
    alone = record["environment"]["available_cores"] / record["world_size"]
    return float(record.get("cores_per_rank", alone))


def taking_part(case: Mapping[str, Any]) -> tuple[Any, Any]:
    """Samples and start offsets (or None) of the ranks that a case is for, the first so many; the others do nothing."""
    count, starts = case.get("ranks"), case["start_offsets_s"]
    return case["samples_s"][:count], starts[:count] if starts is not None else None


def case_row(case: Mapping[str, Any], start_uncertainty_s: float, cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The part of a row that is the case's own; without figures of starts where those are told too roughly."""
    row: dict[str, Any] = {name: bool(case.get(name)) for name in ("bound", "unslowed")}
    row |= {
        "contest": comparisons.contest_name(case, cases),
        "status": case["status"],
        "reason": case["reason"] or None,
        "failed_rank": case["rank"],
    }
    if not case.get("samples_s"):
        return row
    row |= {name: case[name] for name in ("stopped_by", "converged")}
    row |= {"calls": case["calls_per_sample"], "steady": case.get("steady")}
    if case["status"] != "ok":
        return row
    samples, starts = taking_part(case)
    estimator = case.get("estimator", SLOWEST_RANK)
    summary = summarize(samples, starts, estimator)
    if start_uncertainty_s > MAX_START_UNCERTAINTY * float(summary["median_s"] or 0):
        starts, summary = None, summarize(samples, None, estimator)
    times = iteration_times(samples, starts, estimator)
    row["estimator"] = estimator if starts is not None else SLOWEST_RANK
    summary |= comparisons.figures(case, cases) | noise.figures(samples, times)
    told = case.get("details", {})
    metrics = {metric.name: metric.formula(case, summary) for metric in METRICS}
    return row | {DETAILS: told | region_medians(case), "doubt": doubt_of(metrics, told)} | metrics

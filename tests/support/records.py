"""Records as an agent writes them, without running anything."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from analysis.records.derive import derive_result
from analysis.records.harvest import Harvest
from analysis.table.combine import combine
from benchkit.record.files import FILE_NAME
from benchkit.record.record import SCHEMA_VERSION, CaseRecord, Record, from_json
from benchkit.statistics.intervals import FEWEST_SAMPLES

MEASURE = {"mode": "per_iteration", "calls_per_sample": 1, "warmup_iterations": 5}


def make_record(
    data_size: float = 1.0, world_size: int = 2, seconds: float = 1e-3, *, backend: str = "gloo", device: str = "cpu",
    status: str = "ok", samples: int = FEWEST_SAMPLES, spread: float = 0.1, **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """A record whose slowest rank takes `seconds` at the median, evenly spread by ± `spread`, in random order."""
    row = [seconds * (1 + spread * (2 * i / (samples - 1) - 1)) for i in range(samples)]
    random.Random(0).shuffle(row)
    case = {
        "labels": {}, "status": status, "reason": "", "rank": None, "payload_bytes": round(data_size * 2**20),
        "bus_factor": 2 * (world_size - 1) / world_size if world_size > 1 else None,
        "calls_per_sample": 1, "blocks": [1] * samples, "warmup_s": [[seconds]] * world_size,
        "samples_s": [row] * world_size, "start_offsets_s": [[0.0] * samples] * world_size,
        "elapsed_s": seconds * samples, "stopped_by": "max_iterations", "converged": None,
    }  # fmt: skip
    config = {
        "suite": "allreduce", "seed": 0, "world_size": world_size, "threads_per_rank": "auto", "timeout_s": 600.0,
        "start_method": "forkserver", "backend": {"name": backend, "devices": ["cpu"], "env": {}},
        "hardware": {"device": device, "ranks_per_device": 1, "slowdown": 1}, "profile": False,
        "measure": MEASURE, "model": None,
        "data_size": data_size, "dtype": "float32", "reduce_op": "sum",
    }  # fmt: skip
    error = None if status == "ok" else {"message": f"it went {status}\nand more", "rank": 1}
    return {
        "schema_version": SCHEMA_VERSION, "point_id": f"{data_size}-{world_size}", "suite": "allreduce",
        "title": changes.get("suite", "allreduce"), "status": status, "error": error, "config": config, "overrides": [],
        "world_size": world_size, "threads_per_rank": 1, "cores_per_rank": 4 / world_size,
        "launched_by": "plain", "agents": [{"host": "here", "available_cores": 4}],
        "slowdown": {"asked": [1.0] * world_size}, "warnings": [],
        "clock": "perf_counter", "started_at": "2026-01-01T00:00:00.000+00:00",
        "finished_at": "2026-01-01T00:00:01.000+00:00", "phases_s": {"total": 1.0},
        "environment": {"host": "here", "available_cores": 4}, "cases": [case] if status == "ok" else [],
    } | changes  # fmt: skip


CASES = {
    "whole": ("pipeline", "zigzag", 2, "auto"),
    "base": ("pytorch", "even", 1, "none"),
    "compute": ("compute_only", "reference", 2, "axis0"),
    "send": ("comm_only", "torch", 2, "dispatcher"),
}
"""Of `make_rich_record`: what is compared with a baseline, that, and its two components."""
LABELS = {
    "auto_shard": ("workload", "sharding", "ranks", "scope"), "ring_attention": ("strategy",),
    "ring_model": ("implementation", "strategy", "phase"), "tp_columnwise": ("implementation",),
    "tp_rowwise": ("implementation",), "transformer": ("pass", "part", "ranks"),
}  # fmt: skip
"""Of the suites whose tables ask for just these; other suites have all labels."""


def make_rich_record(suite: str = "collective", samples: int = 12, **changes: Any) -> dict[str, Any]:
    """A record in which every field that analysis reads is there, of any suite with its own plots."""
    made = make_record(1.0, 2, 1e-3, samples=samples, suite=suite, **changes)
    made["config"] |= {
        "suite": suite, "collective": "all_reduce", "m": 8, "n": 16, "k": 32, "size": 64,
        "bg_streams": 0, "seq_len": 128, "context_length": 256, "batch_size": 2,
        "scaling": "strong", "model": {
            "name": "small", "d_model": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2,
            "vocab_size": 100,
        },
    }  # fmt: skip
    agent = {
        "host": "here", "cpu": "a processor", "gpus": [{"name": "a GPU"}], "torch": "2.13.0",
        "cuda": None, "git_commit": "0123456789abcdef", "git_diff_hash": "ab", "kernel": "6.1",
        "load_average": [0.5, 0.4, 0.3],
    }  # fmt: skip
    [case] = made["cases"]
    return made | {
        "title": "all_reduce" if suite == "collective" else suite,
        "agents": [agent], "environment": {**agent, "available_cores": 4}, "launched_by": "plain",
        "cores_per_rank": 2.0, "warnings": ["a warning"],
        "slowdown": {"asked": [1, 2], "mechanism": "cgroup", "measured": [1.0, 2.1]},
        "start_clock": {"estimator": "shared_clock", "uncertainty_s": 0.0},
        "cases": [case | part_of_job(suite, name, case["samples_s"]) for name in CASES],
    }  # fmt: skip


def part_of_job(suite: str, name: str, samples_s: list[list[float]]) -> dict[str, Any]:
    """What a case of `make_rich_record` has beyond that of `make_record`."""
    implementation, strategy, ranks, sharding = CASES[name]
    parts = (2, 3) if name == "whole" else (None, None)
    spent = [[each / 4 for each in row] for row in samples_s]
    counters = ("steal_s", "throttled_s", "host_busy_s", "own_busy_s")
    labels = {
        "implementation": implementation, "strategy": strategy, "ranks": ranks,
        "sharding": sharding, "pass": "forward", "part": "whole", "scope": "resident",
        "workload": "matmul_8x16x32", "timing": "back_to_back", "phase": "prefill",
    }  # fmt: skip
    return {
        "labels": {label: labels[label] for label in LABELS.get(suite, labels)},
        "baseline": 1 if name == "whole" else None,
        "is_component": name in ("compute", "send"), "unslowed": False, "ranks": None, "steady": True,
        "components": dict(zip(("computation", "communication"), parts, strict=True)),
        "estimator": "slowest_rank", "useful_flops": 1e9, "executed_flops": 2e9,
        "wire_bytes": 2**20, "regions_s": {"forward": spent, "comm_wait": spent},
        "disturbance": {counter: [0.2, 0.1] for counter in counters},
        "details": {
            "predicted_s": 1e-3, "ideal_s": 9e-4, "tokens_per_call": 256, "peak_tflop_per_s": 1.0,
            "causal_flops": 1e9, "peak_from": "a data sheet", "tokens": [64, 64],
            "parameters": 1e6, "peak_bytes": 1e6, "work_share": 1.0, "plan": "x rows; out rows",
            "latency_s": 1e-6,
        },
    }  # fmt: skip


def write_all(folder: Path, records: list[dict[str, Any]]) -> Path:
    """One folder per record, as a sweep leaves them."""
    for number, content in enumerate(records):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / FILE_NAME).write_text(json.dumps(content))
    return folder


def write_plan(folder: Path, keys: list[str]) -> None:
    """The manifest of a sweep: the run in the folder 0 is of the point with the first key, and so on."""
    points = [
        {"key": key, "occurrence": 0, "folder": str(number), "overrides": [f"point={key}"], "repetition": 0}
        for number, key in enumerate(keys)
    ]
    content = {"arguments": [], "made_with": {}, "points": points, "jobs": [], "version": 1}
    (folder / "sweep.json").write_text(json.dumps(content))


def tabulate_records(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Their combined table, without files; `run` in a record stands for the folder of its sweep."""
    rows = [derive_result(as_record(content)).rows(run=content.get("run")) for content in records]
    return combine([row for of_record in rows for row in of_record])


def tabulate_ranks(*records: dict[str, Any]) -> pd.DataFrame:
    """The table of their ranks."""
    harvest = Harvest()
    for content in records:
        harvest.add(derive_result(as_record(content)), "", content.get("run", "a"))
    return harvest.ranks


def as_record(content: dict[str, Any]) -> Record:
    """The record with this content, as it is read from its file."""
    return from_json(json.dumps(content).encode())


def as_case(**content: Any) -> CaseRecord:
    """A case with this content, and as few labels as can be."""
    return CaseRecord(**{"labels": {}, "status": "ok", **content})


def without(cases: list[dict[str, Any]], *dropped: int) -> list[dict[str, Any]]:
    """The cases of a job that never had those at some positions, nor references to them."""
    kept = [position for position in range(len(cases)) if position not in dropped]
    now_at: dict[int | None, int] = {before: now for now, before in enumerate(kept)}

    def moved(case: dict[str, Any]) -> dict[str, Any]:
        components = {role: now_at.get(position) for role, position in case.get("components", {}).items()}
        return case | {"baseline": now_at.get(case.get("baseline")), "components": components}

    return [moved(cases[position]) for position in kept]


def having(content: dict[str, Any], **environment: Any) -> dict[str, Any]:
    """The record as it would be on a machine that differs in some of its environment."""
    agents = [{**agent, **environment} for agent in content["agents"]]
    return {**content, "environment": {**content["environment"], **environment}, "agents": agents}


def grid(**changes: Any) -> list[dict[str, Any]]:
    """Sizes 1, 10, 100 for 2 and 4 ranks: 1 ms per MiB and twice that for 4 ranks."""
    return [
        make_record(size, ranks, 1e-3 * size * ranks / 2, **changes) for ranks in (2, 4) for size in (1.0, 10.0, 100.0)
    ]


def compiled(compiler, times, number, run=0, **changes):
    """A record of the suite compile, of one rank whose calls take these times."""
    made = make_record(world_size=1, samples=4, suite="compile", title=f"mlp forward by {compiler}")
    measure = {"mode": "cold", "calls_per_sample": 1, "warmup_iterations": 0}
    settings = {
        "suite": "compile", "workload": "mlp", "compiler": compiler, "cache": "cold", "dynamic": "auto",
        "batch_sizes": [64], "backward": False, "measure": measure,
    }  # fmt: skip
    made["config"] |= {**settings, **{name: value for name, value in changes.items() if name in settings}}
    del made["config"]["data_size"], made["config"]["dtype"], made["config"]["reduce_op"]
    details = {"calls_per_size": len(times) // len(made["config"]["batch_sizes"])}
    if compiler != "eager":
        details |= {"compile_s": 3.0, "recompile_s": 0.0, "graphs": 1, "graph_breaks": 0, "recompilations": 0}
    sizes = ",".join(map(str, made["config"]["batch_sizes"]))
    timing = {
        "samples_s": [list(times)], "start_offsets_s": [[0.0] * len(times)], "blocks": [len(times)], "warmup_s": [],
        "labels": {"batch_sizes": sizes}, "details": details, "payload_bytes": None, "bus_factor": None,
    }  # fmt: skip
    made["cases"][0] |= timing
    return made | {"started_at": f"2026-01-01T00:{run:02d}:{number:02d}.000+00:00", "point_id": f"{compiler}-{number}"}


def job_in_turns(speedup, turns, unlike=0.0, blocks=1):
    """A record of a baseline and a case so many times as fast in each turn, with a jitter that both share."""
    made = make_record(samples=turns * blocks)
    [base] = made["cases"]
    jitter = np.random.default_rng(0).lognormal(0, 0.3, turns * blocks)
    noise = np.random.default_rng(1).lognormal(0, unlike, turns * blocks) if unlike else np.ones(turns * blocks)

    def case(way, times):
        return base | {"labels": {"way": way}, "samples_s": [times.tolist()] * 2, "blocks": [blocks] * turns}

    fast = case("fast", 1e-3 * jitter * noise / speedup) | {"baseline": 0}
    return made | {"cases": [case("base", 1e-3 * jitter), fast]}

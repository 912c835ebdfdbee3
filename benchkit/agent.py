"""One point from configuration to record: checks what is here, forks the ranks, and says how it went."""

import datetime
import functools
import signal
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchkit import backends, environment, record
from benchkit.config import RunConfig, as_dict
from benchkit.errors import InvalidResult, Unavailable
from benchkit.registry import start_fork_server
from benchkit.worker import Assignment
from launch import ranks, topology
from launch.watch import Failure, Outcome

OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")
OUT_OF_MEMORY_TEXTS = ("can't allocate memory", "not enough memory", "out of memory")


def run_point(config: RunConfig, folder: Path, overrides: list[str]) -> dict[str, Any]:
    """Runs one point and returns its record, which lies in `folder` from the start, first as `running`."""
    began_s = time.perf_counter()
    world_size = resolve_world_size(config)
    threads = resolve_threads(config, world_size)
    result = new_record(config, overrides, world_size, threads)
    if not save(result, folder):
        return result
    try:
        backends.require_available(config, world_size)
        forked_s, oom_kills = time.perf_counter(), environment.oom_kills()
        outcome = fork_ranks(config, world_size, threads, folder)
        result |= report(outcome, forked_s, out_of_memory=environment.oom_kills() > oom_kills)
    except Unavailable as error:
        result |= {"status": "unavailable", "error": error_report(str(error))}
    except KeyboardInterrupt as error:
        result |= {"status": "interrupted", "error": error_report(str(error) or "stopped by Ctrl-C")}
        raise
    except Exception as error:  # ours, or the machine's, as when it can start no process: the next point may do better
        details = {"type": type(error).__name__, "traceback": traceback.format_exc()}
        result |= {"status": "error", "error": error_report(f"the agent failed: {error}", details=details)}
    finally:
        result["phases_s"]["total"] = round(time.perf_counter() - began_s, 6)
        result["finished_at"] = now()
        save(result, folder)
    return result


def save(result: dict[str, Any], folder: Path) -> bool:
    """Writes the record; where it cannot be (a full disk, a folder gone), says so, for the sweep must go on or end."""
    try:
        record.write(result, folder)
    except OSError as error:
        result |= {"status": "error", "error": error_report(f"record not written: {error}")}
        return False
    return True


def resolve_world_size(config: RunConfig) -> int:
    """`auto` is one rank per place on the visible GPUs, or 2 on CPUs."""
    if config.world_size != "auto":
        return int(config.world_size)
    if config.hardware.device == "cuda":
        return max(1, int(torch.cuda.device_count()) * config.hardware.ranks_per_device)
    return 2


def resolve_threads(config: RunConfig, world_size: int) -> int:
    """`auto` is an equal share of the cores."""
    if config.threads_per_rank == "auto":
        return topology.threads_per_rank(world_size)
    return int(config.threads_per_rank)


def new_record(config: RunConfig, overrides: list[str], world_size: int, threads: int) -> dict[str, Any]:
    """The record as it stands before anything has run."""
    plain = as_dict(config)
    return {
        "schema_version": record.SCHEMA_VERSION,
        "point_id": record.point_id(plain, world_size),
        "suite": config.suite,
        "status": "running",
        "error": None,
        "config": plain,
        "overrides": overrides,
        "world_size": world_size,
        "threads_per_rank": threads,
        "clock": None,
        "started_at": now(),
        "finished_at": None,
        "phases_s": {},
        "environment": environment.describe(),
        "cases": [],
    }


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


@functools.cache
def store() -> dist.TCPStore:
    """The store through which all points' ranks find each other, on a port that the system chose."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def fork_ranks(config: RunConfig, world_size: int, threads: int, folder: Path) -> Outcome:
    """Starts the ranks of one point and waits for their end."""
    if config.start_method == "forkserver":
        start_fork_server()
    prefix = f"point/{time.monotonic_ns()}"  # never the same, whatever the folder
    rendezvous = backends.Rendezvous("127.0.0.1", store().port, prefix)
    return ranks.run_ranks(
        "benchkit.worker:run_rank",
        [Assignment(config, index, world_size, threads, rendezvous) for index in range(world_size)],
        environments=[
            {**backends.rank_environment(config, index, world_size), "OMP_NUM_THREADS": str(threads)}
            for index in range(world_size)
        ],
        folder=folder,
        timeout_s=config.timeout_s,
        start_method=config.start_method,
    )


def report(outcome: Outcome, forked_s: float, out_of_memory: bool) -> dict[str, Any]:
    """What the ranks' end adds to the record; `out_of_memory`: the kernel killed a process for it meanwhile."""
    if outcome.failure is not None:
        failed = outcome.failure
        details = {"type": failed.type, "signal": failed.signal, "traceback": failed.traceback}
        status = "oom" if failed.signal == signal.SIGKILL and out_of_memory else failure_status(failed)
        return {"status": status, "error": error_report(failed.message, failed.rank, details=details)}
    answer = outcome.results[0]
    invalid = [case for case in answer["cases"] if case["status"] == "invalid"]
    measured = any(case["status"] == "ok" for case in answer["cases"])
    worst = invalid[0] if invalid else None if measured else answer["cases"][0]
    return {
        "status": worst["status"] if worst else "ok",
        "error": error_report(worst["reason"], worst["rank"] if invalid else None) if worst else None,
        "clock": answer["clock"],
        "phases_s": durations({"spawn": forked_s, **answer["began_s"], "": time.perf_counter()}),
        "cases": answer["cases"],
    }


def durations(began_s: dict[str, float]) -> dict[str, float]:
    """The length of each phase, from when each began; the last entry only ends the one before."""
    names, times = list(began_s), list(began_s.values())
    return {name: round(times[i + 1] - times[i], 6) for i, name in enumerate(names[:-1])}


def failure_status(failure: Failure) -> str:
    """The word for how a rank failed."""
    if failure.kind == "timeout":
        return "timeout"
    if failure.kind in ("signal", "exit"):
        return "crash"
    if failure.type in OUT_OF_MEMORY or any(text in failure.message for text in OUT_OF_MEMORY_TEXTS):
        return "oom"
    return {Unavailable.__name__: "unavailable", InvalidResult.__name__: "invalid"}.get(failure.type, "error")


def error_report(message: str, rank: int | None = None, *, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What went wrong as the record stores it; `log` is the file beside the record that holds the rank's output."""
    details = details or {}
    return {
        "message": message,
        "rank": rank,
        "host": environment.lasting()["host"],
        "type": details.get("type") or None,
        "signal": details.get("signal"),
        "traceback": details.get("traceback") or None,
        "log": None if rank is None else f"rank_{rank}.log",
    }

"""What the end of the ranks says of a point: its status in a word, and why."""

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchkit.errors import InvalidResult, Unavailable, is_out_of_memory
from launch import topology
from launch.agents.clock_sync import Offset
from launch.ranks.failure import Failure, root_cause
from launch.slowdown.cgroup import QuotaUnavailable
from launch.slowdown.mps import MpsUnavailable


def report(answer: dict[str, Any] | None, told: Sequence[dict[str, Any]], forked_s: float) -> dict[str, Any]:
    """What the ranks' end adds to the record.

    answer: what rank 0 returned; None on other agents. told: each agent's `failure` (as a dictionary, or None) and
    whether the kernel killed a process there for want of memory meanwhile (`out_of_memory`).
    """
    failures = [Failure(**each["failure"]) for each in told if each["failure"]]
    failed = root_cause(failures)
    if failed is not None:
        starved = any(each["out_of_memory"] for each in told if (each["failure"] or {}).get("host") == failed.host)
        details = {"type": failed.type, "signal": failed.signal, "traceback": failed.traceback}
        status = "oom" if failed.signal == signal.SIGKILL and starved else failure_status(failed)
        return {"status": status, "error": error_report(failed.message, failed.rank, failed.host, details=details)}
    if answer is None:
        return {"status": "ok"}
    failed_cases = [case for case in answer["cases"] if case["status"] in ("invalid", "oom")]
    measured = any(case["status"] == "ok" for case in answer["cases"])
    worst = failed_cases[0] if failed_cases else None if measured else answer["cases"][0]
    return {
        "status": worst["status"] if worst else "ok",
        "error": error_report(worst["reason"], worst["rank"] if failed_cases else None) if worst else None,
        "clock": answer["clock"],
        **({"slowdown": answer["slowdown"]} if answer["slowdown"] else {}),
        "warnings": answer["warnings"],
        "phases_s": durations({"spawn": forked_s, **answer["began_s"], "": time.perf_counter()}),
        "cases": answer["cases"],
    }


def placed(failure: Failure, host: str, offset: Offset) -> Failure:
    """A failure with the name of its host, and its time told by agent 0's clock."""
    raised_at = failure.raised_at
    return replace(failure, host=host, raised_at=raised_at and raised_at + offset.at(raised_at))


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
    if is_out_of_memory(failure.type, failure.message):
        return "oom"
    if failure.type in (Unavailable.__name__, MpsUnavailable.__name__, QuotaUnavailable.__name__):
        return "unavailable"
    return "invalid" if failure.type == InvalidResult.__name__ else "error"


def error_report(
    message: str, rank: int | None = None, host: str = "", *, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What went wrong as the record stores it; `log` is the file beside the record that holds the rank's output."""
    details = details or {}
    return {
        "message": message,
        "rank": rank,
        "host": host or topology.node_name(),
        "type": details.get("type") or None,
        "signal": details.get("signal"),
        "traceback": details.get("traceback") or None,
        "log": None if rank is None else f"rank_{rank}.log",
    }

"""What the end of the ranks means for a point: its status and the reason for it."""

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


def classify(
    answer: dict[str, Any] | None, told: Sequence[dict[str, Any]], forked_s: float
) -> dict[str, Any]:
    """Returns what the end of the ranks adds to the record.

    Args:
        answer: what rank 0 returned; None on other agents.
        told: the report of each agent: `failure` (as a dictionary, or None), and `out_of_memory`,
            whether the kernel killed a process there for lack of memory meanwhile.
        forked_s: when the agent began to start its ranks, by perf_counter.
    """
    failed = root_cause([Failure(**report["failure"]) for report in told if report["failure"]])
    if failed is not None:
        return classify_failure(failed, told)
    if answer is None:
        return {"status": "ok"}
    status, error = classify_cases(answer["cases"])
    return {
        "status": status,
        "error": error,
        "clock": answer["clock"],
        **({"slowdown": answer["slowdown"]} if answer["slowdown"] else {}),
        "warnings": answer["warnings"],
        "phases_s": durations({"spawn": forked_s, **answer["began_s"], "": time.perf_counter()}),
        "cases": answer["cases"],
    }


def classify_failure(failed: Failure, told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the status and the error of a point by the failure that caused its end.

    SIGKILL means "oom" if the kernel ran out of memory on the host of the failure.
    """
    starved = any(
        report["out_of_memory"]
        for report in told
        if report["failure"] and report["failure"]["host"] == failed.host
    )
    status = "oom" if failed.signal == signal.SIGKILL and starved else failure_status(failed)
    details = {"type": failed.type, "signal": failed.signal, "traceback": failed.traceback}
    error = error_report(failed.message, failed.rank, failed.host, details=details)
    return {"status": status, "error": error}


def classify_cases(cases: Sequence[dict[str, Any]]) -> tuple[str, dict[str, Any] | None]:
    """Returns the status and the error of a point whose ranks all ended well.

    The first case that is invalid or out of memory decides. Otherwise the point is ok if any case
    was measured; if none was, it has the status of the first case.
    """
    failed_cases = [case for case in cases if case["status"] in ("invalid", "oom")]
    if failed_cases:
        worst = failed_cases[0]
        return worst["status"], error_report(worst["reason"], worst["rank"])
    if any(case["status"] == "ok" for case in cases):
        return "ok", None
    return cases[0]["status"], error_report(cases[0]["reason"])


def placed(failure: Failure, host: str, offset: Offset) -> Failure:
    """Returns a failure with the name of its host and its time on agent 0's clock."""
    raised_at = failure.raised_at
    return replace(failure, host=host, raised_at=raised_at and raised_at + offset.at(raised_at))


def durations(began_s: dict[str, float]) -> dict[str, float]:
    """Returns the duration of each phase in seconds, from when each began.

    The last entry only ends the phase before it.
    """
    names = list(began_s)
    times = list(began_s.values())
    return {name: round(times[i + 1] - times[i], 6) for i, name in enumerate(names[:-1])}


def failure_status(failure: Failure) -> str:
    """Returns the status of a point in which a rank failed this way."""
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
    message: str,
    rank: int | None = None,
    host: str = "",
    *,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns an error as the record stores it.

    Its `log` is the file beside the record that holds the rank's output.
    """
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

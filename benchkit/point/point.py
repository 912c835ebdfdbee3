"""One point of a sweep, and what the end of its ranks means for its status."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchkit.api.keys import RunConfig
from benchkit.errors import InvalidResult, Unavailable, is_out_of_memory
from benchkit.point.placement import Placement, factors
from benchkit.rank.assignment import RankReport
from benchkit.record import files
from benchkit.record.record import AgentReport, CaseRecord, ErrorReport, Outcome, Record
from launch import topology
from launch.agents.group import Offset
from launch.ranks.watch import Failure, root_cause
from launch.slowdown.cgroup import QuotaUnavailable
from launch.slowdown.mps import MpsUnavailable

Report = Callable[[Record], None]
"""Takes the record of a point that has ended."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes:
        config: the typed configuration of this point.
        folder: where its record goes.
        overrides: its overrides, as the record stores them.
        num_agents: number of agents that will run it, if a launcher starts them.
        resumed_with: software and hosts that differ from those at the start of the sweep, as
            [then, now] by name.
        repetition: 0 for the first run of its configuration in the sweep, 1 for the second.
    """

    config: RunConfig
    folder: Path
    overrides: list[str]
    num_agents: int = 1
    resumed_with: dict[str, list[str]] = field(default_factory=dict)
    repetition: int = 0

    def unplaced(self) -> Placement:
        """Return its placement as far as it is known before any agent runs it."""
        config = self.config
        auto_size = config.world_size == "auto"
        world_size = max(2, self.num_agents) if auto_size else int(config.world_size)
        threads = 1 if config.threads_per_rank == "auto" else int(config.threads_per_rank)
        agents = [AgentReport(host="nowhere")] * self.num_agents
        return Placement(world_size, threads, 1.0, factors(config, world_size), [], agents)

    def record(self) -> Record | None:
        """Return its record; None if it is missing or not readable."""
        return files.read_in(self.folder)


@dataclass(frozen=True)
class AgentEnd:
    """How the ranks of one agent ended.

    Attributes:
        failure: of its ranks; None where all ended well.
        out_of_memory: whether the kernel killed a process there meanwhile for lack of memory.
        is_sound: whether no case is wrong or out of memory, as far as this agent knows.
    """

    failure: Failure | None
    out_of_memory: bool
    is_sound: bool = True


def classify(report: RankReport | None, ends: Sequence[AgentEnd], forked_s: float) -> Outcome:
    """Return what the end of the ranks adds to the record.

    Args:
        report: of rank 0; None on other agents.
        ends: of all agents.
        forked_s: when the agent began to start its ranks, by perf_counter.
    """
    failed = root_cause([end.failure for end in ends if end.failure])
    if failed is not None:
        return classify_failure(failed, ends)
    if report is None:
        return Outcome(status="ok")
    status, error = classify_cases(report.measured.cases)
    phases_s = durations({"spawn": forked_s, **report.began_s, "": time.perf_counter()})
    return Outcome(status=status, error=error, phases_s=phases_s, **vars(report.measured))


def classify_failure(failed: Failure, ends: Sequence[AgentEnd]) -> Outcome:
    """Return the status and the error of a point by the failure that caused its end.

    SIGKILL means "oom" if the kernel ran out of memory on the host of the failure.
    """
    out_of_memory = any(
        end.out_of_memory for end in ends if end.failure and end.failure.host == failed.host
    )
    status = "oom" if failed.signal == signal.SIGKILL and out_of_memory else failure_status(failed)
    error = error_report(failed.message, failed.rank, failed.host)
    error = replace(
        error,
        type=failed.type or None,
        signal=failed.signal,
        traceback=failed.traceback or None,
    )
    return Outcome(status=status, error=error)


def classify_cases(cases: Sequence[CaseRecord]) -> tuple[str, ErrorReport | None]:
    """Return the status and the error of a point whose ranks all ended well.

    The first case that is invalid or out of memory decides. Otherwise the point is ok if any case
    was measured; if none was, it has the status of the first case.
    """
    for case in cases:
        if case.status in ("invalid", "oom"):
            return case.status, error_report(case.reason, case.rank)
    if any(case.status == "ok" for case in cases):
        return "ok", None
    return cases[0].status, error_report(cases[0].reason)


def placed(failure: Failure, host: str, offset: Offset) -> Failure:
    """Return a failure with the name of its host and its time on agent 0's clock."""
    raised_at = failure.raised_at
    return replace(failure, host=host, raised_at=raised_at and raised_at + offset.at(raised_at))


def durations(began_s: dict[str, float]) -> dict[str, float]:
    """Return the duration of each phase in seconds, from when each began.

    The last entry only ends the phase before it.
    """
    names = list(began_s)
    times = list(began_s.values())
    return {name: round(times[i + 1] - times[i], 6) for i, name in enumerate(names[:-1])}


def failure_status(failure: Failure) -> str:
    """Return the status of a point in which a rank failed this way."""
    if failure.kind == "timeout":
        return "timeout"
    if failure.kind in ("signal", "exit"):
        return "crash"
    if is_out_of_memory(failure.type, failure.message):
        return "oom"
    if failure.type in (Unavailable.__name__, MpsUnavailable.__name__, QuotaUnavailable.__name__):
        return "unavailable"
    return "invalid" if failure.type == InvalidResult.__name__ else "error"


def error_report(message: str, rank: int | None = None, host: str = "") -> ErrorReport:
    """Return an error of this host, or of another one, without an exception's details."""
    log = None if rank is None else f"rank_{rank}.log"
    return ErrorReport(message=message, rank=rank, host=host or topology.node_name(), log=log)

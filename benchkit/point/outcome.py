"""Derive a point's status and reason from the outcomes of its ranks.

    all ranks have reported     invalid, oom    a case is wrong, or found too little memory
                                ok              a case was measured
                                else            as the first case: skipped or unavailable
    a rank, or its agent, has   timeout         the ranks took too long
    failed; the cause counts    crash           a rank died
                                oom             it was killed, or raised, for lack of memory
                                unavailable     this machine or build of torch cannot do it
                                invalid, error  it raised InvalidResult, or anything else

A point can also end outside its ranks (point.py): `unavailable` if they cannot be placed, `error`
if a host stays busy, `crash` if an agent is lost, and the status of a signal that stops the run.
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchkit.api.keys import GRAPH
from benchkit.errors import InvalidResult, Unavailable, is_out_of_memory
from benchkit.rank.assignment import RankReport
from benchkit.record.record import TIMEOUT, CaseRecord, ErrorReport, Measured, StartClock
from launch.agents.clock import Offset
from launch.host import node_name
from launch.ranks.watch import ProcessFailure, root_cause
from launch.slowdown.cgroup import QuotaUnavailable
from launch.slowdown.mps import MpsUnavailable

CANNOT = (Unavailable.__name__, MpsUnavailable.__name__, QuotaUnavailable.__name__)


@dataclass(frozen=True)
class AgentOutcome:
    """Outcome of the ranks of one agent.

    Attributes:
        out_of_memory: whether the kernel's OOM killer acted on that host meanwhile.
        is_sound: whether no case is wrong or out of memory, as far as this agent knows.
    """

    failure: ProcessFailure | None
    out_of_memory: bool
    is_sound: bool = True


@dataclass(frozen=True)
class RanksOutcome:
    """Outcome of the ranks of all agents.

    Attributes:
        status: status of the point; agents other than 0 know only failures.
        measured: rank 0's report; empty on other agents, and after a failure, as is `began_s`.
        began_s: begin of each phase, by perf_counter.
    """

    status: str
    error: ErrorReport | None = None
    measured: Measured = field(default_factory=Measured)
    began_s: Mapping[str, float] = field(default_factory=dict)
    start_clock: StartClock | None = None


def outcome_of(report: RankReport | None, outcomes: Sequence[AgentOutcome]) -> RanksOutcome:
    """Return the outcome of a point from rank 0's report, final or stored before a timeout."""
    if failure := root_cause([outcome.failure for outcome in outcomes if outcome.failure]):
        # SIGKILL means a lack of memory if the kernel ran out of it on the host of the failure.
        on_host = [
            agent for agent in outcomes if agent.failure and agent.failure.host == failure.host
        ]
        is_oom = failure.signal == signal.SIGKILL and any(agent.out_of_memory for agent in on_host)
        status = "oom" if is_oom else failure_status(failure)
        if report is None or status != TIMEOUT:
            return RanksOutcome(status, error_of(failure))
        so_far = replace(report.measured, cases=[*map(mark_timed_out, report.measured.cases)])
        return RanksOutcome(status, error_of(failure), so_far, report.began_s)
    if report is None:
        return RanksOutcome("ok")
    cases = report.measured.cases
    failed = next((case for case in cases if case.status in ("invalid", "oom")), None)
    if failed:
        status, error = failed.status, error_report(failed.reason, failed.rank)
    elif any(case.status == "ok" for case in cases):
        status, error = "ok", None
    else:
        status, error = cases[0].status, error_report(cases[0].reason)
    return RanksOutcome(status, error, report.measured, report.began_s)


def mark_timed_out(case: CaseRecord) -> CaseRecord:
    """Return a case of a point that timed out; its samples stay, without the final check."""
    if case.status != "ok":
        return case
    if not case.samples_s:
        return replace(case, status=TIMEOUT, reason="no sample before the point timed out")
    stopped_by = case.stopped_by or TIMEOUT
    return replace(case, stopped_by=stopped_by, unchecked="all: the point timed out before")


def failure_status(failure: ProcessFailure) -> str:
    if failure.kind == "timeout":
        return TIMEOUT
    if failure.kind in ("signal", "exit"):
        return "crash"
    if is_out_of_memory(failure.type, failure.message):
        return "oom"
    if failure.type in CANNOT:
        return "unavailable"
    return "invalid" if failure.type == InvalidResult.__name__ else "error"


def error_of(failure: ProcessFailure) -> ErrorReport:
    return replace(
        error_report(failure.message, failure.rank, failure.host),
        type=failure.type or None,
        signal=failure.signal,
        traceback=failure.traceback or None,
    )


def error_report(message: str, rank: int | None = None, host: str = "") -> ErrorReport:
    log = None if rank is None else f"rank_{rank}.log"
    return ErrorReport(message=message, rank=rank, host=host or node_name(), log=log)


def add_host(failure: ProcessFailure, host: str, offset: Offset) -> ProcessFailure:
    """Return a failure with the name of its host and its time on agent 0's clock."""
    raised_at = failure.raised_at
    return replace(failure, host=host, raised_at=raised_at and raised_at + offset.at(raised_at))


def leaves_ranks_sound(cases: Sequence[CaseRecord], mode: str) -> bool:
    """Return whether ranks that measured these cases may measure another point.

    After a failed capture torch's allocator may stay in capture mode (pytorch#180395).
    """
    unsound = {"invalid", "oom", *(("unavailable",) if mode == GRAPH else ())}
    return not any(case.status in unsound for case in cases)

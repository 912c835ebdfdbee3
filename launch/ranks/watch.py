"""Monitor ranks until all have reported, one fails or time is up; find the root cause."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from launch.agents.group import Agents
from launch.framing import REPORT_BYTES
from launch.ranks import entry, fork_server
from launch.ranks.flight_recorder import FlightRecorder
from launch.ranks.logs import STACK_SIGNAL, Frame, innermost_frame, log_file, uncaught_what
from launch.ranks.process import RankProcess
from launch.signals import wait_readable


@dataclass(frozen=True)
class ProcessFailure:
    """Why a rank, or the agent (`rank` None), ended without a result.

    Attributes:
        kind: "exception", "signal", "exit" or "timeout".
        type: class of the exception.
        traceback: traceback of the exception; after a timeout the stacks of all ranks.
        raised_at: time of the exception or the abort, by time.monotonic().
    """

    rank: int | None
    kind: str
    message: str
    type: str = ""
    traceback: str = ""
    signal: int | None = None
    raised_at: float | None = None
    host: str = ""


def root_cause(failures: list[ProcessFailure]) -> ProcessFailure | None:
    """Return the failure that explains the others.

    A rank that died without a report explains the others; otherwise the first exception does. The
    order of arrival misleads: a peer's death makes collectives raise on the survivors within
    milliseconds. SIGABRT counts as an exception, because libraries abort a rank when another one
    fails. Of one timeout per agent, the one that names a rank is returned, with the locations and
    stacks of all.
    """

    def precedence(failure: ProcessFailure) -> tuple[bool, bool, float]:
        is_exception = failure.kind == "exception" or failure.signal == signal.SIGABRT
        return is_exception, failure.rank is None, failure.raised_at or 0.0

    cause = min(failures, key=precedence, default=None)
    timeouts = [failure for failure in failures if failure.kind == "timeout"]
    if cause in timeouts and len(timeouts) > 1:
        problem = cause.message.split(": ", 1)[0]
        locations = ", ".join(failure.message.split(": ", 1)[1] for failure in timeouts)
        stacks = "\n".join(failure.traceback for failure in timeouts)
        return replace(cause, message=f"{problem}: {locations}", traceback=stacks)
    return cause


STACK_DUMP_S = 0.3


def diagnose_timeout(
    pids: Mapping[int, int], folder: Path, timeout_s: float, recorder: FlightRecorder | None
) -> ProcessFailure:
    """Name the hung rank, if there is one.

    It is the only rank outside a collective that has the same frame in two stack dumps.
    """
    dumps = recorder.request_dumps(list(pids)) if recorder else []
    earlier = dump_stacks(pids, folder)
    frames = dump_stacks(pids, folder)
    if recorder:
        recorder.wait_for(dumps)
    hung = [index for index, frame in frames.items() if frame == earlier[index]]
    culprits = [index for index in hung if not frames[index].is_waiting]
    locations = ", ".join(f"rank {index} in {frame.location}" for index, frame in frames.items())
    return ProcessFailure(
        rank=culprits[0] if len(culprits) == 1 else None,
        kind="timeout",
        message=f"no end within {timeout_s:g} s: {locations}",
        traceback="\n".join(f"rank {index}:\n{frame.stack}" for index, frame in frames.items()),
    )


def dump_stacks(pids: Mapping[int, int], folder: Path) -> dict[int, Frame]:
    for pid in pids.values():
        with suppress(ProcessLookupError):
            os.kill(pid, STACK_SIGNAL)
    time.sleep(STACK_DUMP_S)
    return {index: innermost_frame(log_file(folder, index)) for index in pids}


GRACE_S = 1.0
"""Seconds after the first exception in which another rank may report its cause."""
DIED_WITHOUT_REPORT = ("signal", "exit", "lost")
"""Kinds of failures that explain those of the other ranks, whose reports are not awaited."""
ABORT_NOTICE_S = 0.05
"""Typical delay between an abort and its detection.

It is subtracted from the detection time, so that an abort sorts before the exceptions that it
causes on its peers.
"""


@dataclass
class RankResults:
    results: dict[int, Any] = field(default_factory=dict)
    failure: ProcessFailure | None = None


def monitor_ranks(
    ranks: list[RankProcess],
    folder: Path,
    timeout_s: float,
    agents: Agents,
    recorder: FlightRecorder | None,
) -> RankResults:
    """Block until all ranks have reported, or one has failed here or elsewhere, or time is up.

    After an exception the other ranks get GRACE_S to report theirs.
    """
    outcome = RankResults()
    failures: list[ProcessFailure] = []
    running = list(ranks)
    has_alarmed = False
    deadline = time.monotonic() + timeout_s
    while running:  # First way out: all ranks have reported.
        exit_fds = [rank.exit_fd for rank in running]
        pipes = [rank.report_pipe for rank in running if not rank.has_reported]
        sources = [*exit_fds, *pipes, *agents.connections]
        ready = wait_readable(sources, max(0.0, deadline - time.monotonic()))
        alarm = agents.hear(ready)
        if not failures and (alarm == "timeout" or not (ready or has_alarmed)):
            agents.alarm("timeout")  # The other agents, too, must now diagnose their ranks.
            pids = {rank.index: rank.process.pid for rank in running}
            failures.append(diagnose_timeout(pids, folder, timeout_s, recorder))
            break  # Second way out: time was up, here or on another agent.
        if not ready:
            break  # Third way out: after a failure, no further report came in time.
        collect_reports(running, ready, outcome, failures)
        if failures or alarm:
            kinds = {alarm, *(failure.kind for failure in failures)}
            grace_s = 0.0 if kinds.intersection(DIED_WITHOUT_REPORT) else GRACE_S
            deadline = min(deadline, time.monotonic() + grace_s)
            if not (has_alarmed or alarm):
                agents.alarm(failures[0].kind)
            has_alarmed = True
    outcome.failure = root_cause(failures)
    return outcome


def collect_reports(
    running: list[RankProcess],
    ready: list[Any],
    outcome: RankResults,
    failures: list[ProcessFailure],
) -> None:
    for rank in list(running):
        if rank.report_pipe in ready and not rank.has_reported:
            receive_report(rank, outcome, failures)
        if rank.index in outcome.results:
            running.remove(rank)
        elif rank.exit_fd in ready:
            running.remove(rank)
            record_exit(rank, outcome, failures)


def receive_report(rank: RankProcess, outcome: RankResults, failures: list[ProcessFailure]) -> None:
    """Read a rank's messages: notes, then {"result": value} or {"exception": details}."""
    try:
        while True:
            report = rank.reports.read_message(REPORT_BYTES)
            if report is None:
                return  # The rest may arrive until the rank ends or time is up.
            content = msgspec.json.decode(report)
            if entry.KEY not in content:
                break
            entry.log_note(content[entry.KEY])
        if "result" in content:
            outcome.results[rank.index] = content["result"]
        else:
            details = content["exception"] | {"rank": rank.index, "kind": "exception"}
            failures.append(msgspec.convert(details, ProcessFailure))
    except (EOFError, OSError, ValueError, TypeError, KeyError, RecursionError):
        # The report is incomplete or not a report: record_exit() reads the exit code.
        rank.close_task_pipe()
    rank.has_reported = True


def record_exit(rank: RankProcess, outcome: RankResults, failures: list[ProcessFailure]) -> None:
    """Read a dead rank's report; an exit without a report becomes a failure."""
    if not rank.has_reported:
        receive_report(rank, outcome, failures)
    rank.process.join()
    code = rank.process.exitcode
    if rank.index in outcome.results or any(failure.rank == rank.index for failure in failures):
        return
    if code < 0:
        what = uncaught_what(rank.log_path) if rank.log_path and code == -signal.SIGABRT else ""
        message = ": ".join(filter(None, (f"killed by {signal_name(-code)}", what)))
        aborted_at = time.monotonic() - ABORT_NOTICE_S if code == -signal.SIGABRT else None
        failures.append(
            ProcessFailure(rank.index, "signal", message, signal=-code, raised_at=aborted_at)
        )
        return
    message = f"exited with code {code} and no report"
    if code == fork_server.LOST_EXIT_CODE and fork_server.exits_soon():
        message = "lost with the fork server, which somebody killed"
    failures.append(ProcessFailure(rank.index, "exit", message))


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

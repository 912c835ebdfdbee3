"""Watches the ranks of one point until they end, fail or time out, and finds the root cause."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

import orjson

from launch.agents.group import Agents
from launch.framing import REPORT_BYTES, Pieces
from launch.ranks import fork_server
from launch.ranks.failure import Failure, root_cause
from launch.ranks.logs import log_file
from launch.ranks.stack_dump import STACK_SIGNAL, Frame, innermost_frame
from launch.signals import wait_for

GRACE_S = 1.0
"""Seconds after the first exception in which another rank may report the one that caused it."""
SILENT = ("signal", "exit", "lost")
"""Kinds of failure without a report, of a rank or its agent.

Such a failure causes those of the other ranks, so there is no wait for their reports.
"""
STACK_DUMP_S = 0.3
FORK_SERVER_LOST = 255
"""The exit code that multiprocessing gives to a process if the fork server cannot report it."""


@dataclass
class Outcome:
    """The results of the ranks of one point, or the failure that explains the others.

    Attributes:
        results: the result of each rank, by number.
        failure: the root cause; None if no rank failed.
    """

    results: dict[int, Any] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass
class Rank:
    """One running rank as its agent sees it.

    Attributes:
        index: number of the rank.
        process: its process, by multiprocessing.
        pipe: where the agent reads the report.
        lifeline: a pipe whose end of file ends the rank.
        end: a file descriptor that becomes readable when the process has ended.
        incoming: the part of the report that has come.
        reported: whether no more of the report is expected.
    """

    index: int
    process: Any
    pipe: connection.Connection
    lifeline: connection.Connection
    end: int
    incoming: Pieces
    reported: bool = False


def watch(ranks: list[Rank], folder: Path, timeout_s: float, agents: Agents) -> Outcome:
    """Blocks until all ranks have ended, or one has failed here or elsewhere, or time is up.

    After an exception the other ranks get GRACE_S to report theirs.
    """
    outcome = Outcome()
    failures: list[Failure] = []
    running = list(ranks)
    alarmed = False
    deadline = time.monotonic() + timeout_s
    while running:
        ends = [rank.end for rank in running]
        pipes = [rank.pipe for rank in running if not rank.reported]
        sources = [*ends, *pipes, *agents.connections]
        ready = wait_for(sources, max(0.0, deadline - time.monotonic()))
        heard = agents.hear(ready)
        late = not failures and (heard == "timeout" or not (ready or alarmed))
        if late:
            agents.alarm("timeout")  # The others must report now, too, where their ranks are.
            failures.append(timed_out(running, folder, timeout_s))
        if late or not ready:
            break
        for rank in list(running):
            if rank.pipe in ready and not rank.reported:
                receive(rank, outcome, failures)
            if rank.end in ready:
                running.remove(rank)
                note_exit(rank, outcome, failures)
        if failures or heard:
            explained = heard in SILENT or any(failure.kind in SILENT for failure in failures)
            deadline = min(deadline, time.monotonic() + (0.0 if explained else GRACE_S))
            if not (alarmed or heard):
                agents.alarm(failures[0].kind)
            alarmed = True
    outcome.failure = root_cause(failures)
    return outcome


def receive(rank: Rank, outcome: Outcome, failures: list[Failure]) -> None:
    """Reads what has come of a rank's report: {"result": value} or {"exception": details}."""
    try:
        report = rank.incoming.take(REPORT_BYTES)
        if report is None:
            return  # The rest may come until the rank ends or time is up.
        content = orjson.loads(report)
        if "result" in content:
            outcome.results[rank.index] = content["result"]
        else:
            failures.append(Failure(rank.index, "exception", **content["exception"]))
    except (EOFError, OSError, ValueError, TypeError, KeyError):
        pass  # The report is incomplete or not a report: note_exit() reads the exit code.
    rank.reported = True


def note_exit(rank: Rank, outcome: Outcome, failures: list[Failure]) -> None:
    """Reads a dead rank's report; an exit that no report explains becomes a failure."""
    if not rank.reported:
        receive(rank, outcome, failures)
    rank.process.join()
    code = rank.process.exitcode
    if rank.index in outcome.results or any(failure.rank == rank.index for failure in failures):
        return
    if code < 0:
        message = f"killed by {signal_name(-code)}"
        failures.append(Failure(rank.index, "signal", message, signal=-code))
        return
    message = f"exited with code {code} and no report"
    if code == FORK_SERVER_LOST and fork_server.is_gone():
        message = "lost with the fork server, which somebody killed"
    failures.append(Failure(rank.index, "exit", message))


def signal_name(number: int) -> str:
    """Returns "SIGKILL" for 9; real-time signals only have a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def timed_out(running: list[Rank], folder: Path, timeout_s: float) -> Failure:
    """Returns a failure that names the only rank that hangs outside a collective, if there is one.

    A rank hangs if its frame is the same in two stack dumps.
    """
    earlier = ask_for_frames(running, folder)
    frames = ask_for_frames(running, folder)
    stuck = [index for index, frame in frames.items() if frame == earlier[index]]
    culprits = [index for index in stuck if not frames[index].waiting]
    places = ", ".join(f"rank {index} in {frame.place}" for index, frame in frames.items())
    return Failure(
        rank=culprits[0] if len(culprits) == 1 else None,
        kind="timeout",
        message=f"no end within {timeout_s:g} s: {places}",
        traceback="\n".join(f"rank {index}:\n{frame.stack}" for index, frame in frames.items()),
    )


def ask_for_frames(running: list[Rank], folder: Path) -> dict[int, Frame]:
    """Returns the innermost frame of each rank now."""
    for rank in running:
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, STACK_SIGNAL)
    time.sleep(STACK_DUMP_S)
    return {rank.index: innermost_frame(log_file(folder, rank.index)) for rank in running}

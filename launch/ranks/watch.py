"""Watches ranks until all have reported, one fails or time is up, and finds the root cause."""

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from launch.agents.group import Agents
from launch.framing import REPORT_BYTES
from launch.ranks import fork_server, notes
from launch.ranks.failure import Failure, root_cause
from launch.ranks.flight_recorder import FlightRecorder
from launch.ranks.hang import timed_out
from launch.ranks.process import RankProcess
from launch.signals import wait_for

GRACE_S = 1.0
"""Seconds after the first exception in which another rank may report the one that caused it."""
DIED_WITHOUT_REPORT = ("signal", "exit", "lost")
"""Kinds of failure without a report, of a rank or its agent.

Such a failure causes those of the other ranks, so nothing waits for their reports.
"""
DYING_S = 0.05
"""Seconds until an agent notices that a rank has aborted; its peers may raise exceptions sooner."""


@dataclass
class RankEnds:
    """The results of the ranks of one point, or the failure that explains the others.

    Attributes:
        results: the result of each rank, by number.
        failure: the root cause; None if no rank failed.
    """

    results: dict[int, Any] = field(default_factory=dict)
    failure: Failure | None = None


def watch(
    ranks: list[RankProcess],
    folder: Path,
    timeout_s: float,
    agents: Agents,
    recorder: FlightRecorder | None,
) -> RankEnds:
    """Blocks until all ranks have reported, or one has failed here or elsewhere, or time is up.

    After an exception the other ranks get GRACE_S to report theirs.
    """
    rank_ends = RankEnds()
    failures: list[Failure] = []
    running = list(ranks)
    alarmed = False
    deadline = time.monotonic() + timeout_s
    while running:  # First way out: all ranks have reported.
        exits = [rank.end for rank in running]
        pipes = [rank.pipe for rank in running if not rank.reported]
        sources = [*exits, *pipes, *agents.connections]
        ready = wait_for(sources, max(0.0, deadline - time.monotonic()))
        heard = agents.hear(ready)
        if not failures and (heard == "timeout" or not (ready or alarmed)):
            agents.alarm("timeout")  # The others must report now, too, where their ranks are.
            pids = {rank.index: rank.process.pid for rank in running}
            failures.append(timed_out(pids, folder, timeout_s, recorder))
            break  # Second way out: time was up, here or on another agent.
        if not ready:
            break  # Third way out: after a failure, no further report came in time.
        collect(running, ready, rank_ends, failures)
        if failures or heard:
            kinds = {heard, *(failure.kind for failure in failures)}
            grace_s = 0.0 if kinds.intersection(DIED_WITHOUT_REPORT) else GRACE_S
            deadline = min(deadline, time.monotonic() + grace_s)
            if not (alarmed or heard):
                agents.alarm(failures[0].kind)
            alarmed = True
    rank_ends.failure = root_cause(failures)
    return rank_ends


def collect(
    running: list[RankProcess], ready: list[Any], rank_ends: RankEnds, failures: list[Failure]
) -> None:
    """Reads the reports that have come; removes ranks with a result or an end from `running`."""
    for rank in list(running):
        if rank.pipe in ready and not rank.reported:
            receive(rank, rank_ends, failures)
        if rank.index in rank_ends.results:
            running.remove(rank)
        elif rank.end in ready:
            running.remove(rank)
            note_exit(rank, rank_ends, failures)


def receive(rank: RankProcess, rank_ends: RankEnds, failures: list[Failure]) -> None:
    """Reads what has come of a rank's report: {"result": value} or {"exception": details}.

    Notes may come before it.
    """
    try:
        while True:
            report = rank.incoming.take(REPORT_BYTES)
            if report is None:
                return  # The rest may come until the rank ends or time is up.
            content = msgspec.json.decode(report)
            if notes.KEY not in content:
                break
            notes.received(content[notes.KEY])
        if "result" in content:
            rank_ends.results[rank.index] = content["result"]
        else:
            details = content["exception"] | {"rank": rank.index, "kind": "exception"}
            failures.append(msgspec.convert(details, Failure))
    except (EOFError, OSError, ValueError, TypeError, KeyError, RecursionError):
        # The report is incomplete or not a report: note_exit() reads the exit code.
        rank.dismiss()
    rank.reported = True


def note_exit(rank: RankProcess, rank_ends: RankEnds, failures: list[Failure]) -> None:
    """Reads a dead rank's report; an exit that no report explains becomes a failure."""
    if not rank.reported:
        receive(rank, rank_ends, failures)
    rank.process.join()
    code = rank.process.exitcode
    if rank.index in rank_ends.results or any(failure.rank == rank.index for failure in failures):
        return
    if code < 0:
        message = f"killed by {signal_name(-code)}"
        began = time.monotonic() - DYING_S if code == -signal.SIGABRT else None
        failures.append(Failure(rank.index, "signal", message, signal=-code, raised_at=began))
        return
    message = f"exited with code {code} and no report"
    if code == fork_server.LOST_EXIT_CODE and fork_server.is_gone():
        message = "lost with the fork server, which somebody killed"
    failures.append(Failure(rank.index, "exit", message))


def signal_name(number: int) -> str:
    """Returns "SIGKILL" for 9; real-time signals only have a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

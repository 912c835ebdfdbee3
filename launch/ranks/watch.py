"""Watches the ranks of one point: blocks until they end, fail or run out of time, and finds who is to blame."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any

import orjson

from launch.agents.group import Agents
from launch.framing import REPORT_BYTES, Pieces
from launch.ranks import fork_server
from launch.ranks.logs import log_file
from launch.ranks.stack_dump import STACK_SIGNAL, Frame, innermost_frame
from launch.signals import wait_for

GRACE_S = 1.0
"""After the first exception, how long the other ranks may take to report theirs: the cause may be among them."""
SILENT = ("signal", "exit", "lost")
"""What ends a rank, or its agent, without words: the cause of whatever the others say, so nobody waits for that."""
STACK_DUMP_S = 0.3
FORK_SERVER_LOST = 255
"""The exit code that multiprocessing gives to a process whose fork server cannot tell."""


@dataclass(frozen=True)
class Failure:
    """Why a rank ended without a result. `kind`: exception, signal, exit or timeout."""

    rank: int | None
    kind: str
    message: str
    type: str = ""
    traceback: str = ""
    signal: int | None = None
    raised_at: float | None = None
    host: str = ""


@dataclass
class Outcome:
    """What the ranks of one point came to: a result from each, or the failure that explains the rest."""

    results: dict[int, Any] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass
class Rank:
    """One running rank as its agent sees it; `end` becomes readable when it has ended."""

    index: int
    process: Any
    pipe: connection.Connection
    lifeline: connection.Connection
    end: int
    incoming: Pieces
    reported: bool = False


def watch(ranks: list[Rank], folder: Path, timeout_s: float, agents: Agents) -> Outcome:
    """Blocks until every rank has ended, one here or elsewhere has failed and all had their grace, or time is up."""
    outcome = Outcome()
    failures: list[Failure] = []
    running, alarmed = list(ranks), False
    deadline = time.monotonic() + timeout_s
    while running:
        waits = [rank.end for rank in running] + [r.pipe for r in running if not r.reported]
        ready = wait_for([*waits, *agents.connections], max(0.0, deadline - time.monotonic()))
        heard = agents.hear(ready)
        late = not failures and (heard == "timeout" or not (ready or alarmed))
        if late:
            agents.alarm("timeout")  # so that the others, too, say now where their ranks are
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
    """Takes what is there of a rank's one report: {"result": value} or {"exception": details}."""
    try:
        report = rank.incoming.take(REPORT_BYTES)
        if report is None:
            return  # the rest may come, until the rank ends or time is up
        said = orjson.loads(report)
        if "result" in said:
            outcome.results[rank.index] = said["result"]
        else:
            failures.append(Failure(rank.index, "exception", **said["exception"]))
    except (EOFError, OSError, ValueError, TypeError, KeyError):
        pass  # it died before it could say all, or wrote something else; its exit code will tell
    rank.reported = True


def note_exit(rank: Rank, outcome: Outcome, failures: list[Failure]) -> None:
    """Reads a dead rank's last report and turns an exit that no report explains into a failure."""
    if not rank.reported:
        receive(rank, outcome, failures)
    rank.process.join()
    code = rank.process.exitcode
    if rank.index in outcome.results or any(failure.rank == rank.index for failure in failures):
        return
    if code < 0:
        failures.append(Failure(rank.index, "signal", f"killed by {signal_name(-code)}", signal=-code))
    elif code == FORK_SERVER_LOST and fork_server.is_gone():
        failures.append(Failure(rank.index, "exit", "lost with the fork server, which somebody killed"))
    else:
        failures.append(Failure(rank.index, "exit", f"exited with code {code} and no report"))


def signal_name(number: int) -> str:
    """SIGKILL for 9; real-time signals have a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def root_cause(failures: list[Failure]) -> Failure | None:
    """The failure that explains the others: a death without words, else the exception that was raised first.

    A peer's death makes collectives raise on the survivors within milliseconds, so order of arrival misleads. Of
    time-outs, one per agent, the one that names a rank, with where all the others are.
    """
    cause = min(failures, key=lambda f: (f.kind == "exception", f.rank is None, f.raised_at or 0.0), default=None)
    late = [failure for failure in failures if failure.kind == "timeout"]
    if cause in late and len(late) > 1:
        places = ", ".join(failure.message.split(": ", 1)[1] for failure in late)
        stacks = "\n".join(failure.traceback for failure in late)
        return replace(cause, message=f"{cause.message.split(': ', 1)[0]}: {places}", traceback=stacks)
    return cause


def timed_out(running: list[Rank], folder: Path, timeout_s: float) -> Failure:
    """Asks the ranks where they are, twice, and names the one that stays somewhere else than in a collective."""
    earlier, frames = ask_for_frames(running, folder), ask_for_frames(running, folder)
    culprits = [index for index, frame in frames.items() if not frame.waiting and frame == earlier[index]]
    places = ", ".join(f"rank {index} in {frame.place}" for index, frame in frames.items())
    return Failure(
        rank=culprits[0] if len(culprits) == 1 else None,
        kind="timeout",
        message=f"no end within {timeout_s:g} s: {places}",
        traceback="\n".join(f"rank {index}:\n{frame.stack}" for index, frame in frames.items()),
    )


def ask_for_frames(running: list[Rank], folder: Path) -> dict[int, Frame]:
    """Where each rank is now."""
    for rank in running:
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, STACK_SIGNAL)
    time.sleep(STACK_DUMP_S)
    return {rank.index: innermost_frame(log_file(folder, rank.index)) for rank in running}

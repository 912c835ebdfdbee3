"""Fresh processes for the ranks of one point: start them, wait without polling, and leave none behind.

A fork server that has imported torch already starts a rank in milliseconds; `spawn` starts a new interpreter.
Why not torch's elastic launcher: docs/decisions/0001-ranks.md.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver
from pathlib import Path
from typing import Any

from launch.child import rank_main
from launch.stacks import STACK_SIGNAL, innermost_frame

GRACE_S = 1.0
"""After the first failure, how long the other ranks may take to report theirs: the cause may be among them."""
STACK_DUMP_S = 0.3


@dataclass(frozen=True)
class Failure:
    """Why a rank ended without a result. `kind`: exception, signal, exit or timeout."""

    rank: int | None
    kind: str
    message: str
    type: str = ""
    traceback: str = ""
    signal: int | None = None
    raised_at: float = float("inf")


@dataclass
class Outcome:
    """What the ranks of one point came to: a result from each, or the failure that explains the rest."""

    results: dict[int, Any] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass
class Rank:
    """One running rank as its agent sees it."""

    index: int
    process: Any
    pipe: connection.Connection
    reported: bool = False


def start_fork_server(preload: Sequence[str]) -> None:
    """Starts the fork server; it imports `preload` (modules that touch no GPU) while the caller goes on."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
    before = os.environ.get("PYTHONPATH")
    # The server finds modules by PYTHONPATH only: before Python 3.13.1 it drops our sys.path (cpython #117378).
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def run_ranks(
    target: str,
    arguments: Sequence[Any],
    *,
    environments: Sequence[Mapping[str, str]],
    folder: Path,
    timeout_s: float,
    start_method: str = "forkserver",
) -> Outcome:
    """Runs `target` ("module:function") once per element of `arguments`, each in a process of its own.

    Rank r gets arguments[r] and environments[r] and writes its output to folder/rank_r.log. Returns when all have
    ended; after a failure or `timeout_s` seconds none is left running, nor when this raises (KeyboardInterrupt).
    """
    context = multiprocessing.get_context(start_method)
    lifeline, held = context.Pipe(duplex=False)
    ranks: list[Rank] = []
    try:
        for index, (argument, environment) in enumerate(zip(arguments, environments, strict=True)):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(  # type: ignore[attr-defined]
                target=rank_main,
                args=(target, argument, dict(environment), log_file(folder, index), theirs, lifeline),
            )
            process.start()
            theirs.close()
            ranks.append(Rank(index, process, ours))
        return watch(ranks, folder, time.monotonic() + timeout_s, timeout_s)
    finally:
        for rank in ranks:
            kill(rank)
        lifeline.close()
        held.close()


def log_file(folder: Path, rank: int) -> Path:
    """Where a rank's output goes."""
    return folder / f"rank_{rank}.log"


def watch(ranks: list[Rank], folder: Path, deadline: float, timeout_s: float) -> Outcome:
    """Blocks until every rank has ended, one has failed and the others had their grace, or time is up."""
    outcome = Outcome()
    failures: list[Failure] = []
    running = list(ranks)
    while running:
        waits = [rank.process.sentinel for rank in running] + [r.pipe for r in running if not r.reported]
        ready = connection.wait(waits, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            if not failures:
                failures.append(timed_out(running, folder, timeout_s))
            break
        for rank in list(running):
            if rank.pipe in ready and not rank.reported:
                receive(rank, outcome, failures)
            if rank.process.sentinel in ready:
                running.remove(rank)
                note_exit(rank, outcome, failures)
        if failures:
            deadline = min(deadline, time.monotonic() + GRACE_S)
    outcome.failure = root_cause(failures)
    return outcome


def receive(rank: Rank, outcome: Outcome, failures: list[Failure]) -> None:
    """Takes a rank's one report from its pipe: ("result", value) or ("exception", details)."""
    rank.reported = True
    with suppress(EOFError, OSError):  # it died before it could say all; its exit code will tell
        what, value = rank.pipe.recv()
        if what == "result":
            outcome.results[rank.index] = value
        else:
            failures.append(Failure(rank.index, "exception", **value))


def note_exit(rank: Rank, outcome: Outcome, failures: list[Failure]) -> None:
    """Reads a dead rank's last report and turns an exit that no report explains into a failure."""
    if not rank.reported and rank.pipe.poll():
        receive(rank, outcome, failures)
    rank.process.join()
    code = rank.process.exitcode
    if rank.index in outcome.results or any(failure.rank == rank.index for failure in failures):
        return
    if code < 0:
        name = signal.Signals(-code).name
        failures.append(Failure(rank.index, "signal", f"killed by {name}", signal=-code))
    else:
        failures.append(Failure(rank.index, "exit", f"exited with code {code} and no report"))


def root_cause(failures: list[Failure]) -> Failure | None:
    """The failure that explains the others: a death without words, else the exception that was raised first.

    A peer's death makes collectives raise on the survivors within milliseconds, so order of arrival misleads.
    """
    return min(failures, key=lambda f: (f.kind == "exception", f.raised_at), default=None)


def timed_out(running: list[Rank], folder: Path, timeout_s: float) -> Failure:
    """Asks the ranks that hang where they are, and names the one that is not waiting for the others."""
    for rank in running:
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, STACK_SIGNAL)
    time.sleep(STACK_DUMP_S)
    frames = {rank.index: innermost_frame(log_file(folder, rank.index)) for rank in running}
    culprits = [index for index, frame in frames.items() if not frame.waiting]
    places = ", ".join(f"rank {index} in {frame.place}" for index, frame in frames.items())
    return Failure(
        rank=culprits[0] if len(culprits) == 1 else None,
        kind="timeout",
        message=f"no end within {timeout_s:g} s: {places}",
        traceback="\n".join(f"rank {index}:\n{frame.stack}" for index, frame in frames.items()),
    )


def kill(rank: Rank) -> None:
    """Ends a rank and whatever it started; does nothing where it has ended."""
    if rank.process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, signal.SIGKILL)  # a rank leads a process group of its own
    rank.process.join()
    rank.process.close()
    rank.pipe.close()

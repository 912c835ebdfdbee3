"""Fresh processes for the ranks of one point: start them, wait without polling, and leave none behind.

A fork server that has imported torch already starts a rank in milliseconds; `spawn` starts a new interpreter.
Why not torch's elastic launcher: docs/decisions/0001-ranks.md.
"""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from launch.agents import Agents, alone
from launch.child import rank_main
from launch.stops import uninterrupted
from launch.watch import Outcome, Rank, log_file, watch

DEATH_S = 5.0
"""How long a killed rank may take to be gone."""
log = logging.getLogger(__name__)


def start_fork_server(preload: Sequence[str]) -> None:
    """Starts the fork server; it imports `preload` (modules that touch no GPU) while the caller goes on."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
    before = os.environ.get("PYTHONPATH")
    # The server finds modules by PYTHONPATH only: before Python 3.13.1 it drops our sys.path (cpython #117378).
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    try:
        resource_tracker.ensure_running()  # it lets signals through again when it starts: before, then
        with uninterrupted():  # inherited: what tells us to stop is not for the server, nor for its ranks
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
    first_rank: int = 0,
    agents: Agents | None = None,
) -> Outcome:
    """Runs `target` ("module:function") once per element of `arguments`, each in a process of its own.

    The i-th is rank r = first_rank + i; it gets arguments[i] and environments[i] and writes its output to
    folder/rank_r.log. Returns when all have ended; after a failure here or at another of the `agents`, or `timeout_s`
    seconds, none is left running, nor when this raises (KeyboardInterrupt).
    """
    context = multiprocessing.get_context(start_method)
    ranks: list[Rank] = []
    try:
        for index, (argument, environment) in enumerate(zip(arguments, environments, strict=True), first_rank):
            ours, theirs = context.Pipe(duplex=False)
            lifeline, held = context.Pipe(duplex=False)
            process = context.Process(  # type: ignore[attr-defined]
                target=rank_main,
                args=(target, pickle.dumps(argument), dict(environment), log_file(folder, index), theirs, lifeline),
            )
            process.start()
            theirs.close()
            lifeline.close()
            ranks.append(Rank(index, process, ours, held))
        return watch(ranks, folder, timeout_s, agents or alone())
    finally:
        with uninterrupted():
            for rank in ranks:
                kill(rank)


def kill(rank: Rank) -> None:
    """Ends a rank and whatever it started; does nothing where it has ended."""
    rank.lifeline.close()
    if rank.process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, signal.SIGKILL)  # a rank leads a process group of its own
    rank.process.join(DEATH_S)
    if rank.process.is_alive():  # stuck in the kernel, or the fork server that should report its end is
        log.warning("rank %d (process %d) does not end; left behind", rank.index, rank.process.pid)
        kill_fork_server()
    rank.pipe.close()


def kill_fork_server() -> None:
    """Makes the next point start a fresh fork server."""
    with suppress(AttributeError, ProcessLookupError, ChildProcessError, TypeError):  # it has no public handle
        server: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        os.kill(server, signal.SIGKILL)
        os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)  # left for multiprocessing to reap, which restarts it then

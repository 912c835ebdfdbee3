"""Fresh processes for the ranks of one point: start them, wait without polling, and leave none behind.

A fork server that has imported torch already starts a rank in milliseconds; `spawn` starts a new interpreter.
Why not torch's elastic launcher: docs/decisions/0001-ranks.md.
"""

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

from launch.agents.group import Agents, alone
from launch.framing import Pieces
from launch.ranks import fork_server
from launch.ranks.entry import rank_main
from launch.ranks.fork_server import start_fork_server as start_fork_server
from launch.ranks.logs import log_file, shorten_log
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.watch import Outcome, Rank, watch
from launch.signals import defer_signals

DEATH_S = 5.0
"""How long a killed rank may take to be gone."""
log = logging.getLogger(__name__)


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
    network: PrivateNetwork | None = None,
) -> Outcome:
    """Runs `target` ("module:function") once per element of `arguments`, each in a process of its own.

    The i-th is rank r = first_rank + i; it gets arguments[i] and environments[i] and writes its output to
    folder/rank_r.log. Returns when all have ended; after a failure here or at another of the
    `agents`, or `timeout_s` seconds, none is left running, nor when this raises (KeyboardInterrupt).
    `network`: where they listen and connect; None: the host's.
    What a rank returns must be plain JSON. What it has started ends with it, or after the point;
    under `spawn` what has made a session of its own lives on.
    """
    ranks: list[Rank] = []
    forked = start_method == "forkserver"
    if forked:
        start_fork_server()
    try:
        with fork_server.answering() if forked else contextlib.nullcontext():
            each = zip(arguments, environments, strict=True)
            for index, (argument, environment) in enumerate(each, first_rank):
                log_to = log_file(folder, index)
                given = (target, pickle.dumps(argument), dict(environment), log_to, network)
                ranks.append(start_rank(start_method, index, given))
        return watch(ranks, folder, timeout_s, agents or alone())
    finally:
        with defer_signals():
            for rank in ranks:
                kill(rank)
                shorten_log(log_file(folder, rank.index))
            if forked:
                fork_server.end_strays()


def start_rank(start_method: str, index: int, given: tuple[Any, ...]) -> Rank:
    """Starts the process of one rank; `given`: rank_main's arguments but for its pipes."""
    context = multiprocessing.get_context(start_method)
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        report, reports = context.Pipe(duplex=False)
        ours.callback(report.close)
        theirs.callback(reports.close)
        lifeline, held = context.Pipe(duplex=False)
        theirs.callback(lifeline.close)
        ours.callback(held.close)
        arguments = (*given, reports, lifeline)
        process = context.Process(target=rank_main, args=arguments)  # type: ignore[attr-defined]
        process.start()
        os.set_blocking(report.fileno(), False)
        end, incoming = end_of(process, start_method), Pieces(report)
        rank = Rank(index, process, report, held, end, incoming)
        ours.pop_all()
    return rank


def end_of(process: Any, start_method: str) -> int:
    """The file descriptor that becomes readable when a process has ended.

    The sentinel of a spawned process is a pipe that its children hold open, too. That of a forked
    one is the fork server's, which sends the exit code through it.
    """
    if start_method == "spawn" and hasattr(os, "pidfd_open"):
        with suppress(OSError):  # an old kernel
            return os.pidfd_open(process.pid)
    return int(process.sentinel)


def kill(rank: Rank) -> None:
    """Ends a rank and whatever it started; does nothing where it has ended."""
    rank.lifeline.close()
    if rank.process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, signal.SIGKILL)  # a rank leads a process group of its own
    if rank.process.is_alive():
        connection.wait([rank.end], DEATH_S)
    if rank.process.is_alive():  # stuck in the kernel, or the fork server that should report its end is
        log.warning("rank %d (process %d) does not end; left behind", rank.index, rank.process.pid)
        fork_server.kill()
    rank.pipe.close()
    if rank.end != rank.process.sentinel:
        os.close(rank.end)

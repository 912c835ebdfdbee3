"""Starts new processes for the ranks of one point, waits without polling, and leaves none behind.

A fork server that has imported torch already starts a rank in milliseconds; `spawn` starts a new
interpreter. docs/decisions/0001-ranks.md says why this does not use torch's elastic launcher.
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
from launch.ranks.flight_recorder import FlightRecorder
from launch.ranks.logs import log_file, shorten_log
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.watch import RankEnds, RankProcess, watch
from launch.signals import defer_signals

DEATH_S = 5.0
"""Seconds that a killed rank may take to end."""
log = logging.getLogger(__name__)


def run_ranks(
    target: str,
    arguments: Sequence[Any],
    *,
    environments: Sequence[Mapping[str, str]],
    folder: Path,
    timeout_s: float,
    start_method: str = "forkserver",
    preload: Sequence[str] = (),
    first_rank: int = 0,
    agents: Agents | None = None,
    network: PrivateNetwork | None = None,
    recorder: FlightRecorder | None = None,
) -> RankEnds:
    """Runs a function in one process per rank; leaves none running when it returns or raises.

    Args:
        target: the function, as "module:function", which returns plain JSON.
        arguments, environments: the argument and the environment variables of each rank.
        folder: where rank r writes its output to rank_r.log.
        timeout_s: limit until all ranks have ended, in seconds.
        start_method, preload: "spawn", or "forkserver", which loads these modules when it starts.
        first_rank: number of the first rank; the others follow it.
        agents: the agents of the run; a failure on any of them ends these ranks.
        network: where ranks listen and connect; None for the host's.
        recorder: asks ranks for the dumps of their flight recorders at a time-out.
    """
    ranks: list[RankProcess] = []
    if forked := start_method == "forkserver":
        fork_server.start_fork_server(preload)
    try:
        with fork_server.answering() if forked else contextlib.nullcontext():
            inputs = zip(arguments, environments, strict=True)
            for index, (argument, environment) in enumerate(inputs, first_rank):
                log_path = log_file(folder, index)
                given = (target, pickle.dumps(argument), dict(environment), log_path, network)
                ranks.append(start_rank(start_method, index, given))
        return watch(ranks, folder, timeout_s, agents or alone(), recorder)
    finally:
        end_ranks(ranks, folder, forked)


def end_ranks(ranks: Sequence[RankProcess], folder: Path, forked: bool) -> None:
    """Ends all ranks and the processes that they have started, and shortens their logs.

    A process that has made its own session ends here only if its rank was forked; under `spawn` it
    survives.
    """
    with defer_signals():
        for rank in ranks:
            kill(rank)
            shorten_log(log_file(folder, rank.index))
        if forked:
            fork_server.end_strays()


def start_rank(start_method: str, index: int, given: tuple[Any, ...]) -> RankProcess:
    """Starts the process of one rank.

    Args:
        start_method: "forkserver" or "spawn".
        index: number of the rank.
        given: the arguments of rank_main without its two pipes.
    """
    context = multiprocessing.get_context(start_method)
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        report, report_writer = context.Pipe(duplex=False)
        ours.callback(report.close)
        theirs.callback(report_writer.close)
        lifeline_reader, lifeline = context.Pipe(duplex=False)
        theirs.callback(lifeline_reader.close)
        ours.callback(lifeline.close)
        arguments = (*given, report_writer, lifeline_reader)
        process = context.Process(target=rank_main, args=arguments)  # type: ignore[attr-defined]
        process.start()
        os.set_blocking(report.fileno(), False)
        end = end_of(process, start_method)
        rank = RankProcess(index, process, report, lifeline, end, Pieces(report))
        ours.pop_all()  # The ends of the agent stay open; those of the rank are closed here.
    return rank


def end_of(process: Any, start_method: str) -> int:
    """Returns the file descriptor that becomes readable when a process has ended.

    The sentinel of a spawned process is a pipe that its children hold open, too, so a pidfd is
    better. The sentinel of a forked process belongs to the fork server, which sends the exit code
    through it.
    """
    if start_method == "spawn" and hasattr(os, "pidfd_open"):
        with suppress(OSError):  # an old kernel
            return os.pidfd_open(process.pid)
    return int(process.sentinel)


def kill(rank: RankProcess) -> None:
    """Ends a rank and the processes that it started; does nothing if it has ended."""
    rank.lifeline.close()
    if rank.process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, signal.SIGKILL)  # A rank leads a process group.
    if rank.process.is_alive():
        connection.wait([rank.end], DEATH_S)
    # Either the rank is stuck in the kernel, or the fork server that should report its end is.
    if rank.process.is_alive():
        log.warning("rank %d (process %d) does not end; left behind", rank.index, rank.process.pid)
        fork_server.kill()
    rank.pipe.close()
    if rank.end != rank.process.sentinel:
        os.close(rank.end)

"""The agent's handle of one rank's process: start, send calls, kill."""

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from launch.framing import MessageReader, add_length, is_writable
from launch.host import hide_pinning
from launch.ranks import fork_server
from launch.ranks.entry import RankCall, rank_main
from launch.ranks.private_network import PrivateNetwork
from launch.slowdown import mps

DEATH_S = 5.0
TAKE_S = 30.0
"""Time limit for an idle rank to read a call longer than the pipe's buffer."""
log = logging.getLogger(__name__)


@dataclass
class RankProcess:
    """The agent's handle of one running rank.

    Attributes:
        report_pipe: pipe from which the agent reads the reports.
        task_pipe: pipe to which the agent writes the calls; closing it ends an idle rank.
        lifeline: pipe whose end of file kills the rank.
        exit_fd: file descriptor that becomes readable when the process has ended.
        mps_environment: environment of an MPS client, which leads to its daemon; empty for others.
    """

    index: int
    process: Any
    report_pipe: connection.Connection
    task_pipe: connection.Connection
    lifeline: connection.Connection
    exit_fd: int
    reports: MessageReader
    mps_environment: Mapping[str, str] = field(default_factory=dict)
    has_reported: bool = False
    log_path: Path | None = None

    def send_task(self, call: RankCall) -> None:
        """Send the rank a call; a rank that has ended is detected by the monitor."""
        self.has_reported, self.log_path = False, call.log
        rest = memoryview(add_length(pickle.dumps(call)))
        deadline = time.monotonic() + TAKE_S
        with suppress(BrokenPipeError):
            while rest:
                try:
                    rest = rest[os.write(self.task_pipe.fileno(), rest) :]
                except BlockingIOError:
                    if not is_writable(self.task_pipe, deadline - time.monotonic()):
                        raise TimeoutError(f"rank {self.index} does not take its job") from None

    def close_task_pipe(self) -> None:
        self.task_pipe.close()


def start_rank(
    start_method: str,
    index: int,
    environment: Mapping[str, str],
    network: PrivateNetwork | None,
) -> RankProcess:
    context = multiprocessing.get_context(start_method)
    with contextlib.ExitStack() as agent_stack, contextlib.ExitStack() as rank_stack:
        report_reader, report_writer = context.Pipe(duplex=False)
        task_reader, task_writer = context.Pipe(duplex=False)
        lifeline_reader, lifeline = context.Pipe(duplex=False)
        for connection_end in (report_reader, task_writer, lifeline):
            agent_stack.callback(connection_end.close)
        ends_of_rank = (task_reader, report_writer, lifeline_reader)
        for connection_end in ends_of_rank:
            rank_stack.callback(connection_end.close)
        arguments = (dict(environment), network, *ends_of_rank)
        process = context.Process(target=rank_main, args=arguments)  # type: ignore[attr-defined]
        with hide_pinning():  # a spawned rank inherits the environment
            process.start()
        for connection_end in (report_reader, task_writer):
            os.set_blocking(connection_end.fileno(), False)
        rank = RankProcess(
            index,
            process,
            report_reader,
            task_writer,
            lifeline,
            exit_descriptor(process, start_method),
            MessageReader(report_reader),
            mps_environment=environment if mps.SHARE in environment else {},
        )
        agent_stack.pop_all()  # The ends of the agent stay open; those of the rank are closed here.
    return rank


def exit_descriptor(process: Any, start_method: str) -> int:
    """Return a file descriptor that becomes readable when a process has ended.

    The sentinel of a spawned process is a pipe that its children also hold open, so a pidfd is
    used. The sentinel of a forked process is the pipe by which the fork server sends the exit code.
    """
    if start_method == "spawn" and hasattr(os, "pidfd_open"):
        with suppress(OSError):  # an old kernel
            return os.pidfd_open(process.pid)
    return int(process.sentinel)


def kill_rank(rank: RankProcess) -> None:
    if rank.mps_environment and rank.process.is_alive():
        mps.terminate_client(rank.process.pid, rank.mps_environment)
    rank.lifeline.close()
    if rank.process.is_alive():
        with suppress(ProcessLookupError):
            os.kill(rank.process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, signal.SIGKILL)  # A rank leads a process group.
    if rank.process.is_alive():
        connection.wait([rank.exit_fd], DEATH_S)
    # Either the rank is stuck in the kernel, or the fork server that should report its exit.
    if rank.process.is_alive():
        log.warning("rank %d (process %d) does not end; left behind", rank.index, rank.process.pid)
        fork_server.kill_server()
    for stream in (rank.report_pipe, rank.task_pipe):
        stream.close()
    if rank.exit_fd != rank.process.sentinel:
        os.close(rank.exit_fd)

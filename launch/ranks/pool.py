"""A pool of rank processes: start them, wait for them without polling, leave none behind.

A fork server that has imported torch starts a rank in milliseconds; `spawn` starts a new
interpreter. docs/decisions/0001-ranks.md says why this does not use torch's elastic launcher.
"""

import contextlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from launch.agents.group import Agents, single_agent
from launch.ranks import fork_server
from launch.ranks.entry import RankCall
from launch.ranks.flight_recorder import FlightRecorder
from launch.ranks.logs import log_file, shorten_log
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.process import RankProcess, kill_rank, start_rank
from launch.ranks.watch import RankResults, monitor_ranks
from launch.signals import defer_signals

LEAVE_S = 5.0


@dataclass
class RankPool:
    """The processes of some ranks, which run one call after another until one fails."""

    processes: list[RankProcess] = field(default_factory=list)
    recorder: FlightRecorder | None = None
    are_idle: bool = True

    def run(
        self,
        target: str,
        arguments: Sequence[Any],
        *,
        folder: Path,
        timeout_s: float,
        agents: Agents | None = None,
    ) -> RankResults:
        """Run a function in each rank and wait for all results, or for the first failure.

        Ranks take further calls only while `are_idle`: not after a failure here or elsewhere.

        Args:
            target: the function, as "module:function", which returns plain JSON.
            arguments: argument of the function: [rank].
            folder: folder of the logs, rank_<r>.log.
        """
        self.are_idle = False
        logs = [log_file(folder, rank.index) for rank in self.processes]
        for rank, argument, path in zip(self.processes, arguments, logs, strict=True):
            rank.send_task(RankCall(target, pickle.dumps(argument), path))
        try:
            outcome = monitor_ranks(
                self.processes, folder, timeout_s, agents or single_agent(), self.recorder
            )
        finally:
            for path in logs:
                shorten_log(path)
            if self.recorder:
                self.recorder.move_dumps(folder)
        self.are_idle = len(outcome.results) == len(self.processes)
        return outcome

    def shut_down(self) -> None:
        waiting = [rank.exit_fd for rank in self.processes]
        for rank in self.processes:
            rank.close_task_pipe()
        while waiting:
            exited = connection.wait(waiting, LEAVE_S)
            if not exited:
                return
            waiting = [fd for fd in waiting if fd not in exited]


@contextlib.contextmanager
def start_ranks(
    environments: Sequence[Mapping[str, str]],
    *,
    start_method: str = "forkserver",
    preload: Sequence[str] = (),
    first_rank: int = 0,
    network: PrivateNetwork | None = None,
    recorder: FlightRecorder | None = None,
) -> Iterator[RankPool]:
    """Start one process per rank; all are terminated when the context ends."""
    ranks = RankPool(recorder=recorder)
    if is_forked := start_method == "forkserver":
        fork_server.start_fork_server(preload)
    try:
        with fork_server.limit_request_time() if is_forked else contextlib.nullcontext():
            for index, environment in enumerate(environments, first_rank):
                ranks.processes.append(start_rank(start_method, index, environment, network))
        yield ranks
        if ranks.are_idle:
            ranks.shut_down()
    finally:
        kill_ranks(ranks.processes, is_forked)


def kill_ranks(ranks: Sequence[RankProcess], is_forked: bool) -> None:
    """Kill all ranks and the processes that they have started.

    Under `spawn` a child in its own session survives.
    """
    with defer_signals():
        for rank in ranks:
            kill_rank(rank)
        if is_forked:
            fork_server.kill_orphans()

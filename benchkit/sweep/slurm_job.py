"""What runs on every node of a submitted job: an agent that goes through the job's points.

It knows no Hydra.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import compress
from pathlib import Path
from typing import Any

from benchkit.api.registry import preload_for
from benchkit.errors import ConfigError
from benchkit.point import recording
from benchkit.point.agents import heard
from benchkit.point.claim import POINT_FILE, claimed
from benchkit.point.outcome import error_report
from benchkit.point.point import Point
from benchkit.point.run import run_points
from benchkit.record.record import Record
from benchkit.record.statuses import FINAL
from benchkit.streams import protect_streams
from benchkit.sweep import resume
from benchkit.sweep.squeue import SLURM_ENDINGS, slurm_says
from benchkit.version import __version__
from launch import topology
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents
from launch.agents.join import join
from launch.agents.member import Lost, SweepEnds
from launch.agents.rendezvous import JoinError
from launch.ranks.fork_server import start_fork_server
from launch.signals import STOPPING, StopRequested, handle, ignore_signals, to_stop_request

WHY = {
    "timeout": "the job's time limit is near, or reached",
    "preempted": "preempted by Slurm",
    "interrupted": "stopped by a signal",
    "cancelled": "the job was ended by scancel, or with one of its nodes",
    "crash": "the job was ended by Slurm",
    "oom": "the job was ended by Slurm",
    "error": "the job was ended by Slurm",
}
"""Per status, why a job stops."""
EARLY_S = 90.0
"""Slurm may warn of a time limit up to a minute earlier than it was told to (sbatch --signal)."""
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class Job:
    """A picklable call that runs points one after another.

    When it is started again after a preemption, it goes on with the points that are still open.

    Attributes:
        points: to run, in order.
        folder: where the agents of several nodes meet.
        signal_delay_s: how long before the time limit Slurm sends its warning.
        max_num_timeout: how often a job that ran out of time is queued again.
    """

    points: list[Point]
    folder: Path
    signal_delay_s: int
    max_num_timeout: int

    def __call__(self) -> None:
        """Runs the points; their records say how they ended."""
        protect_streams("benchkit")
        if os.environ.get("SUBMITIT_EXECUTOR") == "slurm":  # srun starts agents that join
            os.environ.pop(topology.ALONE_VARIABLE, None)  # of the process that submitted the job
        show_log()
        handle(STOPPING, self.stop)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        from benchkit.sweep.progress import Progress  # numpy is imported from here on

        start_fork_server(preload_for(point.config.suite for point in self.points))
        try:
            agents, open_points = self.join()
            with agents.stopping_together():
                list(run_points(open_points, agents, Progress().report))
                agents.wait_for_end()
        except KeyboardInterrupt as error:
            self.leave(to_stop_request(error))
        except SweepEnds as error:
            sys.exit(f"{error}; the sweep ends, what was measured is kept")

    def join(self) -> tuple[Agents, list[Point]]:
        """Joins the agents on the job's other nodes; ends the process if that fails.

        Returns:
            The agents, and the points that agent 0 finds open.
        """
        traits = {"benchkit": __version__, "torch": metadata.version("torch")}
        is_open = [not resume.settled_status(point.folder) for point in self.points]
        config = self.points[0].config
        try:
            started = topology.detect_launcher()
            agents = join(started, traits, self.folder, config.join_timeout_s, config.trust_network)
            told = agents.exchange(is_open, EXCHANGE_TIMEOUT_S)[0]
        except (JoinError, Lost) as error:
            if topology.detect_launcher().index == 0:
                for point in compress(self.points, is_open):
                    note_end(point, "error", str(error))
            sys.exit(str(error))
        return agents, list(compress(self.points, heard(told, list[bool])))

    def stop(self, number: int, frame: Any) -> None:
        """Handles a signal: raises StopRequested with what the signal means."""
        ignore_signals()
        word, rest_s = slurm_says()
        status = "interrupted"
        if number == signal.SIGUSR2:
            late = rest_s is None or rest_s <= self.signal_delay_s + EARLY_S
            status = "timeout" if late else "preempted"
        elif word and number != signal.SIGINT:
            late = rest_s is not None and rest_s <= 0
            status = "timeout" if late else SLURM_ENDINGS.get(word, "cancelled")
        raise StopRequested(number, status, WHY[status])

    def leave(self, error: StopRequested) -> None:
        """Ends the process; if the job may run again, agent 0 queues it first."""
        job = os.environ.get("SLURM_JOB_ID")
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        again = error.status == "preempted" or (
            error.status == "timeout" and restarts < self.max_num_timeout
        )
        if again and job and topology.detect_launcher().index == 0:
            log.warning("%s; queued again", error)
            subprocess.run(["scontrol", "requeue", job], check=False)
        sys.exit(128 + error.number)


def note_end(
    point: Point,
    status: str,
    message: str,
    current: Callable[[], Record | None] = lambda: None,
) -> Record | None:
    """Writes how a point ended into the record that was left unfinished, or never begun.

    Args:
        point: that a job left without a result.
        status: of the point.
        message: of its error.
        current: reads this attempt's record; None if it has begun none.

    Returns:
        The record; None if a process is at the point, or has finished it meanwhile.
    """
    point.folder.mkdir(parents=True, exist_ok=True)
    try:
        with claimed(point.folder, POINT_FILE, anywhere=True):
            begun = current()
            if begun and begun.status in FINAL:
                return None
            if not begun:
                begun = recording.new_record(point, point.unplaced())
                begun = replace(begun, attempt=recording.set_aside(point.folder))
            hosts = dict.fromkeys(agent.host for agent in begun.agents)
            error = error_report(message, host="+".join(hosts))
            result = replace(begun, status=status, error=error, finished_at=recording.now())
            recording.store(result, point.folder)
    except ConfigError:
        return None
    return result


def show_log() -> None:
    """Sends benchkit's own lines to the job's output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO if topology.detect_launcher().index == 0 else logging.WARNING)

"""What runs on every node of a submitted job: its agent, going through the job's points. Knows no Hydra."""

import contextlib
import logging
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from itertools import compress
from pathlib import Path
from typing import Any

import benchkit
from benchkit import record
from benchkit.api.registry import start_fork_server
from benchkit.errors import ConfigError
from benchkit.point import recording
from benchkit.point.agents import enter
from benchkit.point.claim import POINT_FILE, claimed
from benchkit.point.outcome import error_report
from benchkit.point.point import Point
from benchkit.point.run import run_and_report
from benchkit.sweep import resume
from launch import topology
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents
from launch.agents.join import join
from launch.agents.member import Lost, SweepEnds
from launch.agents.rendezvous import JoinError
from launch.signals import STOPPING, StopRequested, handle, ignore_signals, to_stop_request

SLURM_ENDINGS = {
    "BOOT_FAIL": "crash", "CANCELLED": "cancelled", "DEADLINE": "timeout", "FAILED": "crash", "NODE_FAIL": "crash",
    "OUT_OF_MEMORY": "oom", "PREEMPTED": "preempted", "TIMEOUT": "timeout", "COMPLETED": "error",
}  # fmt: skip
"""Slurm's words for the end of a job, and ours for a point that it left without a result."""
WHY = {
    "timeout": "the job's time limit is near, or reached",
    "preempted": "preempted by Slurm",
    "interrupted": "stopped by a signal",
    "cancelled": "the job was ended by scancel, or with one of its nodes",
} | dict.fromkeys(("crash", "oom", "error"), "the job was ended by Slurm")  # fmt: skip
EARLY_S = 90.0
"""Slurm may send the warning before a time limit up to a minute earlier than it was told to (sbatch --signal)."""
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class Job:
    """A picklable call that runs points one after another; started again after a preemption it goes on where it was.

    folder: where the agents of several nodes meet. signal_delay_s: how long before the time limit Slurm warns.
    max_num_timeout: how often a job that ran out of time is queued again.
    """

    points: list[Point]
    folder: Path
    signal_delay_s: int
    max_num_timeout: int

    def __call__(self) -> None:
        """Runs the points; what became of them is in their records."""
        show_log()
        handle(STOPPING, self.stop)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        from benchkit.sweep.progress import Progress  # numpy is imported from here on

        start_fork_server(point.config.suite for point in self.points)
        try:
            agents, open_points = self.join()
            enter(agents)
            report = Progress(len(open_points)).report
            with agents.stopping_together():
                for point in open_points:
                    run_and_report(point, report)
                agents.wait_for_end()
        except KeyboardInterrupt as error:
            self.leave(to_stop_request(error))
        except SweepEnds as error:
            sys.exit(f"{error}; the sweep ends, what was measured is kept")

    def join(self) -> tuple[Agents, list[Point]]:
        """Meets the agents on the job's other nodes; the points that agent 0 finds open. In vain, it leaves."""
        traits = {"benchkit": benchkit.__version__, "torch": metadata.version("torch")}
        is_open = [not resume.settled_status(point.folder) for point in self.points]
        try:
            agents = join(topology.detect_launcher(), traits, self.folder, self.points[0].config.join_timeout_s)
            return agents, list(compress(self.points, agents.exchange(is_open, EXCHANGE_TIMEOUT_S)[0]))
        except (JoinError, Lost) as error:
            for point in compress(self.points, is_open):
                if topology.detect_launcher().index == 0:
                    note_end(point, "error", str(error))
            sys.exit(str(error))

    def stop(self, number: int, frame: Any) -> None:
        """A signal's handler: raises Stopped with what it means."""
        ignore_signals()
        word, rest_s = slurm_says()
        status = "interrupted"
        if number == signal.SIGUSR2:
            late = rest_s is None or rest_s <= self.signal_delay_s + EARLY_S
            status = "timeout" if late else "preempted"
        elif word and number != signal.SIGINT:
            status = "timeout" if rest_s is not None and rest_s <= 0 else SLURM_ENDINGS.get(word, "cancelled")
        raise StopRequested(number, status, WHY[status])

    def leave(self, error: StopRequested) -> None:
        """Ends the process; where the job may run again, agent 0 queues it first."""
        job, restarts = os.environ.get("SLURM_JOB_ID"), int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        again = error.status == "preempted" or (error.status == "timeout" and restarts < self.max_num_timeout)
        if again and job and topology.detect_launcher().index == 0:
            log.warning("%s; queued again", error)
            subprocess.run(["scontrol", "requeue", job], check=False)
        sys.exit(128 + error.number)


def note_end(
    point: Point, status: str, message: str, current: Callable[[], dict[str, Any] | None] = lambda: None
) -> dict[str, Any] | None:
    """Writes how a point ended into the record that was left unfinished, or never begun.

    Args:
        current: reads this attempt's record; None where it has begun none.

    Returns:
        The record; None where a process is at the point, or has finished it meanwhile.
    """
    point.folder.mkdir(parents=True, exist_ok=True)
    try:
        with claimed(point.folder, POINT_FILE, anywhere=True):
            begun = current()
            if begun and begun["status"] in record.FINAL:
                return None
            result = begun or recording.new_record(point, point.unplaced())
            if not begun:
                result["attempt"] = recording.set_aside(point.folder)
            hosts = dict.fromkeys(agent["host"] for agent in result["agents"])
            ended = {"finished_at": recording.now(), "error": error_report(message, host="+".join(hosts))}
            result |= {"status": status} | ended
            recording.store(result, point.folder)
    except ConfigError:
        return None
    return result


def show_log() -> None:
    """benchkit's own lines go to the job's output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO if topology.detect_launcher().index == 0 else logging.WARNING)


def slurm_says() -> tuple[str, float | None]:
    """Slurm's word for this job now, "" outside of Slurm, and the seconds left to it, None where there is no limit."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return "", None
    command = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T %l %M"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
        word, limit, used = answer.split()
        return word, None if limit == "UNLIMITED" else float(in_seconds(limit) - in_seconds(used))
    return "RUNNING", math.inf


def in_seconds(text: str) -> int:
    """Slurm's [days-][[hours:]minutes:]seconds."""
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in reversed(clock.split(":"))]
    return 86400 * int(days or 0) + sum(part * unit for part, unit in zip(parts, (1, 60, 3600), strict=False))

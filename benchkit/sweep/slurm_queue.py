"""Submitted jobs that run in Slurm."""

import logging
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.sweep.job_queue import State, submit
from benchkit.sweep.manifest import Submitted
from benchkit.sweep.slurm_job import Job
from benchkit.sweep.squeue import SLURM_ENDINGS
from benchkit.sweep.wait import summary

ANSWER_S = 30.0
"""Seconds that squeue may take to answer."""
log = logging.getLogger("benchkit")


class Slurm:
    """Follows jobs in Slurm; several jobs that are submitted together are one array."""

    def __init__(
        self, executor: Any, jobs: Sequence[Job], before: Sequence[Submitted] = ()
    ) -> None:
        """Submits jobs.

        Args:
            executor: submitit's.
            jobs: to submit.
            before: jobs that were submitted earlier and are followed as well, first in order.
        """
        self._jobs = [*before, *described(submit(executor, jobs) if jobs else [], jobs)]
        self._ids = list(dict.fromkeys(job.job_id.split("_")[0] for job in self._jobs))
        self._states = [State("PENDING")] * len(self._jobs)
        self._silent = False
        self.name = f"Slurm job {', '.join(self._ids)}"

    @classmethod
    def still_there(cls, jobs: Sequence[Submitted]) -> list[Submitted]:
        """Returns those of earlier submitted jobs that are pending or running."""
        if not jobs:
            return []
        states = cls(None, [], jobs).states()
        return [job for job, state in zip(jobs, states, strict=True) if not state.status]

    def in_words(self) -> str:
        """Returns how many jobs are in which state, such as 2 running; "" if all have ended."""
        states = self.states()
        if self._silent:
            return f"{self.name}: Slurm does not answer here"
        all_ended = all(state.status for state in states)
        return "" if all_ended else f"{self.name}: {summary(states)}"

    def submitted(self) -> list[Submitted]:
        """Returns the jobs that the manifest is to remember."""
        return self._jobs

    def states(self) -> list[State]:
        """Returns the state of every job; the last known one while Slurm does not answer."""
        answer, problem = self._ask()
        if problem:  # slurmctld restarts, or is busy, which does not affect the jobs
            if not self._silent:
                log.warning("Slurm does not answer: %s", problem)
            self._silent = True
            return self._states
        self._silent = False
        lines = [line for line in answer.splitlines() if line.count("|") == 3]
        found = {line.split("|")[0]: slurm_state(line) for line in lines}
        gone = State("GONE", "Slurm knows it no more", "error")
        self._states = [found.get(job.job_id, gone) for job in self._jobs]
        return self._states

    def interrupt(self) -> str:
        """Leaves the jobs alone; returns how a person can end them."""
        return f"{self.name} goes on; `scancel {' '.join(self._ids)}` ends it"

    def output(self, number: int) -> Path:
        return Path(self._jobs[number].output)

    def _ask(self) -> tuple[str, str]:
        """Returns squeue's answer about all jobs, and why there is none, or ""."""
        command = ["squeue", "--noheader", "--array", "--states=all"]
        command += [f"--jobs={','.join(self._ids)}", "--format=%i|%T|%r|%N"]
        try:
            done = subprocess.run(
                command, capture_output=True, errors="replace", check=False, timeout=ANSWER_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return "", str(error)
        if done.returncode == 0 or "Invalid job id" in done.stderr:
            return done.stdout, ""
        return "", done.stderr.strip() or f"squeue ended with {done.returncode}"


def described(submitted: Sequence[Any], jobs: Sequence[Job]) -> list[Submitted]:
    """Returns the jobs that submitit submitted as the manifest stores them.

    Args:
        submitted: submitit's jobs.
        jobs: that they run, in the same order.
    """
    found = []
    for handle, job in zip(submitted, jobs, strict=True):
        folders = [os.path.relpath(point.folder, job.folder) for point in job.points]
        found.append(Submitted(str(handle.job_id), str(handle.paths.stderr), folders))
    return found


def slurm_state(line: str) -> State:
    """Parses a line of squeue: "12_3|PENDING|Priority|n[1-2]"."""
    _, word, reason, nodes = line.split("|")
    why = reason if word == "PENDING" and reason != "None" else ""
    return State(word, why or nodes, SLURM_ENDINGS.get(word, ""))

"""Submitted jobs that run on this machine, by submitit."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.sweep.job_queue import State, submit
from benchkit.sweep.manifest import Submitted
from benchkit.sweep.slurm_job import Job

ENDING_S = 20.0
"""Seconds that a job may take to end after each signal."""


class Local:
    """Runs jobs one after another; submitit itself would start them all at once."""

    name = "local job"

    def __init__(
        self, executor: Any, jobs: Sequence[Job], before: Sequence[Submitted] = ()
    ) -> None:
        assert not before  # still_there() finds none
        self._executor = executor
        self._waiting = list(jobs)
        self._number = len(jobs)
        self._submitted: list[Any] = []
        self._start_next()

    @classmethod
    def still_there(cls, jobs: Sequence[Submitted]) -> list[Submitted]:
        """Returns no job.

        A job that outlives the sweep holds the claim on its point, which then is not begun a
        second time.
        """
        return []

    def submitted(self) -> list[Submitted]:
        """Returns no job, because a resumed sweep could not wait for it."""
        return []

    def states(self) -> list[State]:
        """Returns the current state of every job; starts the next job when one has ended."""
        if self._waiting and self._submitted[-1].done():
            self._start_next()
        over = State("FINISHED", "", "error")
        begun = [over if job.done() else State("RUNNING") for job in self._submitted]
        return begun + [State("PENDING")] * (self._number - len(begun))

    def interrupt(self) -> str:
        """Ends the running job, which records that, and waits for its end."""
        job = self._submitted[-1]
        controller = int(job.job_id)  # the process that hands SIGTERM on to the job
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not job.done():
                os.kill(controller, number)
            deadline = time.monotonic() + ENDING_S
            while not job.done() and time.monotonic() < deadline:
                time.sleep(0.05)
        return "the local jobs are stopped"

    def output(self, number: int) -> Path:
        return Path(self._submitted[number].paths.stderr)

    def _start_next(self) -> None:
        # The job inherits that SIGINT is ignored: this process handles Ctrl-C, and tells the job.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._submitted += submit(self._executor, [self._waiting.pop(0)])
        finally:
            signal.signal(signal.SIGINT, handler)

"""Where submitted jobs wait and run: Slurm, or this machine by submitit; each says which of its jobs are over."""

import contextlib
import io
import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchkit.errors import ConfigError
from benchkit.sweep.manifest import Submitted
from benchkit.sweep.slurm_job import SLURM_ENDINGS, Job

ANSWER_S, ENDING_S = 30.0, 20.0
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class State:
    """What a queue says of one job. `status`: for a point that it left without a result; "" while the job may go on."""

    word: str
    detail: str = ""
    status: str = ""


class Queue(Protocol):
    """Jobs that were submitted, in the order of what they were given."""

    name: str

    def states(self) -> list[State]:
        """The state of every job now."""
        ...

    def submitted(self) -> list[Submitted]:
        """The jobs as the sweep's manifest is to remember them."""
        ...

    def interrupt(self) -> str:
        """What becomes of the jobs when nobody waits for them any more, in words."""
        ...

    def output(self, number: int) -> Path:
        """Where a job's messages are."""
        ...


class Slurm:
    """Jobs in Slurm: one array where there are several."""

    def __init__(self, executor: Any, jobs: Sequence[Job], before: Sequence[Submitted] = ()) -> None:
        """Submits jobs; `before`: those that were submitted earlier and are followed as well, first in order."""
        self._jobs = [*before, *described(submit(executor, jobs) if jobs else [], jobs)]
        ids = dict.fromkeys(job.job_id.split("_")[0] for job in self._jobs)
        self._ids = list(ids)
        self._states = [State("PENDING")] * len(self._jobs)
        self._silent = False
        self.name = f"Slurm job {', '.join(self._ids)}"

    @classmethod
    def still_there(cls, jobs: Sequence[Submitted]) -> list[Submitted]:
        """Of jobs that were submitted earlier those that are pending or running."""
        if not jobs:
            return []
        states = cls(None, [], jobs).states()
        return [job for job, state in zip(jobs, states, strict=True) if not state.status]

    def submitted(self) -> list[Submitted]:
        """What the manifest is to remember."""
        return self._jobs

    def states(self) -> list[State]:
        ids = ",".join(self._ids)
        command = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={ids}", "--format=%i|%T|%r|%N"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
            trouble = done.stderr.strip() if done.returncode and "Invalid job id" not in done.stderr else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            trouble = str(error)
        if trouble:  # slurmctld restarts, or is busy: the jobs do not care
            if not self._silent:
                log.warning("Slurm does not answer: %s", trouble)
            self._silent = True
            return self._states
        self._silent = False
        found = {line.split("|")[0]: slurm_state(line) for line in done.stdout.splitlines() if line.count("|") == 3}
        gone = State("GONE", "Slurm knows it no more", "error")
        self._states = [found.get(job.job_id, gone) for job in self._jobs]
        return self._states

    def interrupt(self) -> str:
        return f"{self.name} goes on; `scancel {' '.join(self._ids)}` ends it"

    def output(self, number: int) -> Path:
        return Path(self._jobs[number].output)


def described(submitted: Sequence[Any], jobs: Sequence[Job]) -> list[Submitted]:
    """What submitit returned for some jobs, as the manifest stores it."""
    return [
        Submitted(
            str(each.job_id),
            str(each.paths.stderr),
            [os.path.relpath(point.folder, job.folder) for point in job.points],
        )
        for each, job in zip(submitted, jobs, strict=True)
    ]


def slurm_state(line: str) -> State:
    """A line of squeue: "12_3|PENDING|Priority|n[1-2]"."""
    _, word, reason, nodes = line.split("|")
    why = reason if word == "PENDING" and reason != "None" else ""
    return State(word, why or nodes, SLURM_ENDINGS.get(word, ""))


class Local:
    """Jobs of submitit on this machine, one after another: submitit itself would start them all at once."""

    name = "local job"

    def __init__(self, executor: Any, jobs: Sequence[Job], before: Sequence[Submitted] = ()) -> None:
        assert not before  # still_there() finds none
        self._executor = executor
        self._waiting = list(jobs)
        self._number = len(jobs)
        self._submitted: list[Any] = []
        self._start_next()

    @classmethod
    def still_there(cls, jobs: Sequence[Submitted]) -> list[Submitted]:
        """None: a job that outlives the sweep holds the claim on its point, which then is not begun a second time."""
        return []

    def submitted(self) -> list[Submitted]:
        """None: a resumed sweep could not wait for them."""
        return []

    def states(self) -> list[State]:
        if self._waiting and self._submitted[-1].done():
            self._start_next()
        over = State("FINISHED", "", "error")
        begun = [over if job.done() else State("RUNNING") for job in self._submitted]
        return begun + [State("PENDING")] * (self._number - len(begun))

    def interrupt(self) -> str:
        """Ends the job that runs, which records it, and waits for that."""
        controller = int(self._submitted[-1].job_id)  # hands SIGTERM on to the job
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._submitted[-1].done():
                os.kill(controller, number)
            deadline = time.monotonic() + ENDING_S
            while not self._submitted[-1].done() and time.monotonic() < deadline:
                time.sleep(0.05)
        return "the local jobs are stopped"

    def output(self, number: int) -> Path:
        return Path(self._submitted[number].paths.stderr)

    def _start_next(self) -> None:
        heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C is for us, who will tell the job
        try:
            self._submitted += submit(self._executor, [self._waiting.pop(0)])
        finally:
            signal.signal(signal.SIGINT, heeded)


def submit(executor: Any, jobs: Sequence[Job]) -> list[Any]:
    """Hands jobs to submitit; raises ConfigError with the scheduler's own words where it refuses them."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit prints what it raises, too
            return list(executor.map_array(Job.__call__, jobs)) if len(jobs) > 1 else [executor.submit(jobs[0])]
    except (FailedJobError, FailedSubmissionError, subprocess.CalledProcessError) as error:
        said = re.findall(r"^(?:sbatch|srun): (?:error: )?(.+)", str(error), re.MULTILINE)
        words = said or [line for line in str(error).strip().splitlines() if not line.startswith("Try ")][-1:]
        raise ConfigError(f"sbatch refused the job: {'; '.join(words)}") from None

"""What every queue of submitted jobs has in common: the states of its jobs, and submission."""

import contextlib
import io
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchkit.errors import ConfigError
from benchkit.sweep.manifest import Submitted
from benchkit.sweep.slurm_job import Job

NO_CONFIGURATION = "Could not establish a configuration source"
"""What Slurm's commands say on a host that belongs to no cluster."""
NO_SLURM = "; no Slurm answers here: type this on a node of the cluster, or launcher=local"


@dataclass(frozen=True)
class State:
    """The state of one job in its queue.

    Attributes:
        word: the queue's name for the state.
        detail: such as why the job is pending, or its nodes.
        status: of a point that the job left without a result; "" while the job may go on.
    """

    word: str
    detail: str = ""
    status: str = ""


class Queue(Protocol):
    """Jobs that were submitted, in the order in which they were given.

    Attributes:
        name: of the jobs, in log lines and messages.
    """

    name: str

    def states(self) -> list[State]:
        """Returns the current state of every job."""
        ...

    def submitted(self) -> list[Submitted]:
        """Returns the jobs that the sweep's manifest is to remember."""
        ...

    def interrupt(self) -> str:
        """Stops waiting for the jobs; returns what becomes of them, in words."""
        ...

    def output(self, number: int) -> Path:
        """Returns the file with a job's messages."""
        ...


def submit(executor: Any, jobs: Sequence[Job]) -> list[Any]:
    """Hands jobs to submitit.

    Returns:
        submitit's jobs, in the same order.

    Raises:
        ConfigError: the scheduler refuses the jobs; the message has the scheduler's own words.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit also prints what it raises
            if len(jobs) > 1:
                return list(executor.map_array(Job.__call__, jobs))
            return [executor.submit(jobs[0])]
    except (FailedJobError, FailedSubmissionError, subprocess.CalledProcessError) as error:
        reasons = re.findall(r"^(?:sbatch|srun): (?:error: )?(.+)", str(error), re.MULTILINE)
        if not reasons:
            lines = str(error).strip().splitlines()
            reasons = [line for line in lines if not line.startswith("Try ")][-1:]
        hint = NO_SLURM if NO_CONFIGURATION in str(error) else ""
        raise ConfigError(f"sbatch refused the job: {'; '.join(reasons)}{hint}") from None

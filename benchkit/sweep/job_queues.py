"""Submitted jobs, in Slurm or here: what runs on their nodes, and how they end.

It knows no Hydra.
"""

import contextlib
import io
import logging
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import chain, compress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from benchkit.errors import ConfigError
from benchkit.point.outcome import error_report
from benchkit.point.point import Point, RecordCallback, new_record, now, run_points
from benchkit.point.point_folder import (
    POINT_FILE,
    archive_attempt,
    claim_folder,
    write_with_retries,
)
from benchkit.point.ranks import preload_fork_server
from benchkit.record import files
from benchkit.record.record import FINAL, Record
from benchkit.streams import protect_streams
from benchkit.sweep import resume
from benchkit.sweep.manifest import SubmittedJob
from benchkit.version import __version__
from launch.agents.connect import connect_agents
from launch.agents.group import Agents
from launch.agents.messages import JoinError, Lost, SweepEnds
from launch.launcher_env import ALONE_VARIABLE, detect_launcher
from launch.signals import (
    STOP_SIGNALS,
    StopRequested,
    ignore_signals,
    install_handlers,
    to_stop_request,
)

STATUS_OF_STATE = {
    "BOOT_FAIL": "crash", "CANCELLED": "cancelled", "COMPLETED": "error", "DEADLINE": "timeout",
    "FAILED": "crash", "NODE_FAIL": "crash", "OUT_OF_MEMORY": "oom", "PREEMPTED": "preempted",
    "TIMEOUT": "timeout",
}  # fmt: skip
"""Status of a point that a job left without a result, by Slurm's state of the job."""


def own_job() -> str:
    """Return how Slurm's commands call this job; "" outside of Slurm.

    One task of an array has the array's number, by which they mean all of its tasks. The other
    tasks have a number of their own. So has a job that a task submits, which inherits the task's
    variables of the array.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    is_named_as_array = job == os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{job}_{task}" if task and is_named_as_array else job


STANDING = "--Format=State:|,TimeLimit:|,TimeUsed:|,PreemptTime:|"


def query_own_job() -> tuple[str, float | None]:
    """Return this job's state, "" outside of Slurm, and its seconds left; None if unknown.

    A job that is to make room for another counts as preempted while it still runs, with all of its
    time left. Where Slurm does not answer, as in a container without its commands, the job counts
    as running, until the time that newer versions of Slurm put into its environment.
    """
    job = own_job()
    if not job:
        return "", None
    with contextlib.suppress(OSError, subprocess.SubprocessError, LookupError, ValueError):
        state, limit, used, preempt_time, _ = squeue(job, STANDING, 5.0)[-1]
        if preempt_time[0].isdigit():
            return "PREEMPTED", math.inf
        if limit == "UNLIMITED":
            return state, math.inf
        return state, float(in_seconds(limit) - in_seconds(used))
    with contextlib.suppress(ValueError):
        return "RUNNING", float(os.environ.get("SLURM_JOB_END_TIME", "")) - time.time()
    return "RUNNING", None


CLUSTERS = "SLURM_CLUSTERS"
"""Environment variable with the names of the clusters that Slurm's commands ask."""


def slurm_environment(clusters: str | None = "") -> dict[str, str]:
    """Return the environment in which Slurm's commands ask these clusters; "" is this host's own.

    None leaves it to the shell, and a job inherits what its user's shell asks.
    """
    if clusters is None:
        return dict(os.environ)
    others = {name: value for name, value in os.environ.items() if name != CLUSTERS}
    return others | ({CLUSTERS: clusters} if clusters else {})


def squeue(jobs: str, columns: str, timeout_s: float, clusters: str | None = "") -> list[list[str]]:
    """Return each job's columns; raise OSError or SubprocessError where Slurm does not answer.

    Sites with several clusters, and wrappers, print other lines, too.
    """
    command = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={jobs}", columns]
    done = subprocess.run(
        command, capture_output=True, errors="replace", check=False, timeout=timeout_s,
        env=slurm_environment(clusters),
    )  # fmt: skip
    if done.returncode and "Invalid job id" not in done.stderr:
        raise OSError(done.stderr.strip() or f"squeue ended with {done.returncode}")
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == 1 + columns.count("|")]


def in_seconds(text: str) -> int:
    """Convert Slurm's [days-][[hours:]minutes:]seconds to seconds."""
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in reversed(clock.split(":"))]
    of_day = sum(part * unit for part, unit in zip(parts, (1, 60, 3600), strict=False))
    return 86400 * int(days or 0) + of_day


WHY = {
    "timeout": "the job's time limit is near, or reached",
    "preempted": "preempted by Slurm",
    "interrupted": "stopped by a signal",
    "cancelled": "the job was ended by scancel, or with one of its nodes",
    "crash": "the job was ended by Slurm",
    "oom": "the job was ended by Slurm",
    "error": "the job was ended by Slurm",
}
ANSWER_S = 30.0
EARLY_S = 90.0
"""Slurm may warn of a time limit up to a minute early (sbatch --signal)."""
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class BatchJob:
    """A picklable call that runs points one after another.

    Started again after a preemption, it goes on with the points that are still open.

    Attributes:
        folder: where the agents of several nodes meet.
        signal_delay_s: how long before the time limit Slurm sends its warning.
        max_num_timeout: how often a job that ran out of time is queued again.
    """

    points: list[Point]
    folder: Path
    signal_delay_s: int
    max_num_timeout: int

    def __call__(self) -> None:
        """Run the points; their records say how they ended."""
        protect_streams("benchkit")
        if os.environ.get("SUBMITIT_EXECUTOR") == "slurm":  # srun starts agents that join
            os.environ.pop(ALONE_VARIABLE, None)  # of the process that submitted the job
        show_log()
        install_handlers(STOP_SIGNALS, self.stop)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        from benchkit.sweep.progress import SweepProgress  # numpy is imported from here on

        preload_fork_server(point.config for point in self.points)
        try:
            agents, open_points = self.connect()
            with agents.stop_together():
                list(run_points(open_points, agents, SweepProgress().report))
                agents.wait_for_end()
        except KeyboardInterrupt as error:
            self.leave(to_stop_request(error))
        except SweepEnds as error:
            sys.exit(f"{error}; the sweep ends, what was measured is kept")

    def connect(self) -> tuple[Agents, list[Point]]:
        """Connect to the job's agents on other nodes, or exit; return agent 0's open points."""
        traits = {"benchkit": __version__, "torch": metadata.version("torch")}
        is_open = [not resume.settled_status(point.folder) for point in self.points]
        config = self.points[0].config
        try:
            started = detect_launcher()
            agents = connect_agents(
                started, traits, self.folder, config.join_timeout_s, config.trust_network
            )
            is_open_at_0 = agents.broadcast(is_open, list[bool])
        except (JoinError, Lost) as error:
            if detect_launcher().index == 0:
                for point in compress(self.points, is_open):
                    record_end(point, "error", str(error))
            sys.exit(str(error))
        return agents, list(compress(self.points, is_open_at_0))

    def stop(self, number: int, frame: Any) -> None:
        """Handle a signal: raise StopRequested with what the signal means.

        A point that is cut off by the time limit is no time-out while its job may start again.
        """
        ignore_signals()
        word, rest_s = query_own_job()
        status = "interrupted"
        if number == signal.SIGUSR2:
            late = rest_s is None or rest_s <= self.signal_delay_s + EARLY_S
            status = "timeout" if late else "preempted"
        elif word and number != signal.SIGINT:
            late = rest_s is not None and rest_s <= 0
            status = "timeout" if late else STATUS_OF_STATE.get(word, "cancelled")
        why = WHY[status]
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        if status == "timeout" and word and restarts < self.max_num_timeout:
            status = "preempted"
        raise StopRequested(number, status, why)

    def leave(self, error: StopRequested) -> None:
        """End the process; agent 0 first queues a job again that is to go on."""
        job = own_job()
        if error.status == "preempted" and job and detect_launcher().index == 0:
            problem = requeue(job)
            log.warning("%s; %s", error, problem or "queued again")
        sys.exit(128 + error.number)


def requeue(job: str) -> str:
    """Queue a job of this node's cluster again, unless Slurm has; return why it is not, else ""."""
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_S,
            env=slurm_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    else:
        if done.returncode == 0 or "Job is pending execution" in done.stderr:
            return ""
        why = " ".join(done.stderr.split()) or f"scontrol ended with {done.returncode}"
    return f"not queued again ({why}): --resume goes on"


def record_end(
    point: Point,
    status: str,
    message: str,
    current: Callable[[], Record | None] = lambda: None,
) -> Record | None:
    """Write how a point ended into the record that was left unfinished, or never begun.

    Return the record; None if a process is at the point, or has finished it meanwhile. `current`
    reads this attempt's record.
    """
    point.folder.mkdir(parents=True, exist_ok=True)
    try:
        with claim_folder(point.folder, POINT_FILE, anywhere=True):
            begun = current()
            if begun and begun.status in FINAL:
                return None
            if not begun:
                begun = new_record(
                    point, point.provisional_placement(), archive_attempt(point.folder)
                )
            hosts = dict.fromkeys(agent.host for agent in begun.agents)
            error = error_report(message, host="+".join(hosts))
            result = replace(begun, status=status, error=error, finished_at=now())
            write_with_retries(result, point.folder)
    except ConfigError:
        return None
    return result


def show_log() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO if detect_launcher().index == 0 else logging.WARNING)


NO_CONFIGURATION = "Could not establish a configuration source"
"""What Slurm's commands say on a host that belongs to no cluster."""
NO_SLURM = "; no Slurm answers here: type this on a node of the cluster, or launcher=local"


@dataclass(frozen=True)
class JobState:
    """The state of one job in its queue.

    `detail` is such as why the job is pending, or its nodes. `status` is that of a point the job
    left without a result, "" while it may go on.
    """

    name: str
    detail: str = ""
    status: str = ""


class JobQueue(Protocol):
    """Jobs that were submitted, in the order in which they were given."""

    name: str

    def states(self) -> list[JobState]:
        """Return the current state of every job."""
        ...

    def submitted(self) -> list[SubmittedJob]:
        """Return the jobs that the sweep's manifest is to remember."""
        ...

    def interrupt(self) -> str:
        """Stop waiting for the jobs; return what becomes of them, in words."""
        ...

    def output(self, number: int) -> Path:
        """Return the file with a job's messages."""
        ...


def submit(executor: Any, jobs: Sequence[BatchJob]) -> list[Any]:
    """Hand jobs to submitit; raise ConfigError, in the scheduler's words, where it refuses."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit also prints what it raises
            if len(jobs) > 1:
                return list(executor.map_array(BatchJob.__call__, jobs))
            return [executor.submit(jobs[0])]
    except (FailedJobError, FailedSubmissionError, subprocess.CalledProcessError) as error:
        reasons = re.findall(r"^(?:sbatch|srun): (?:error: )?(.+)", str(error), re.MULTILINE)
        if not reasons:
            lines = str(error).strip().splitlines()
            reasons = [line for line in lines if not line.startswith("Try ")][-1:]
        hint = NO_SLURM if NO_CONFIGURATION in str(error) else ""
        raise ConfigError(f"sbatch refused the job: {'; '.join(reasons)}{hint}") from None


POLL_INTERVAL_S = (0.5, 10.0)
"""Seconds between two looks at the queue: at first, and after a while."""
SETTLING_S = 15.0
"""Seconds after a job's end in which a shared file system may still show what it wrote."""
Signature = tuple[int, int]  # of a record file: inode, and time of writing in ns


def wait_for_points(
    points: Sequence[Sequence[Point]],
    queue: JobQueue,
    report: RecordCallback,
    stale: Mapping[Path, Signature] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield the status of every point of every job as it ends.

    Args:
        points: of each job, in the order of the queue.
        stale: by a point's folder, the record of an earlier attempt, which does not count now.
    """
    waiting = [(job, point) for job, group in enumerate(points) for point in group]
    total = len(waiting)
    ended_at: dict[int, float] = {}
    last_summary = ""
    pause_s = POLL_INTERVAL_S[0]
    try:
        while True:
            states = queue.states()
            for job, point in list(waiting):
                if found := final_record(point, job, states[job], ended_at, queue, stale):
                    report(found)
                    waiting.remove((job, point))
                    pause_s = POLL_INTERVAL_S[0]
                    yield found.status
            if not waiting:
                return
            if (line := summary(states)) != last_summary:
                log.info("%s: %s", queue.name, line)
                last_summary = line
            time.sleep(pause_s)
            pause_s = min(POLL_INTERVAL_S[1], pause_s * 1.1)
    except (KeyboardInterrupt, GeneratorExit):
        # From here on the jobs' own records are all there is, and all that is needed.
        ended = total - len(waiting)
        log.warning("%d of %d points have ended; %s", ended, total, queue.interrupt())
        raise


NEVER_STARTS = (
    "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "JobHeldAdmin",
    "JobHeldUser", "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed",
)  # fmt: skip
"""Reasons of Slurm for a job that waits until somebody changes it, or the partition."""


def summary(states: Sequence[JobState]) -> str:
    """Count jobs by state, with the reason of pending ones: "2 running, 3 pending (Priority)"."""
    counts: Counter[str] = Counter()
    for state in states:
        if state.status:
            continue
        is_explained = state.name == "PENDING" and state.detail
        advice = ": does not start as asked; Ctrl-C ends the wait"
        why = state.detail + (advice if state.detail in NEVER_STARTS else "")
        reason = f" ({why})" if is_explained else ""
        counts[state.name.lower() + reason] += 1
    return ", ".join(f"{count} {text}" for text, count in counts.items()) or "ended"


def final_record(
    point: Point,
    job: int,
    state: JobState,
    ended_at: dict[int, float],
    queue: JobQueue,
    stale: Mapping[Path, Signature],
) -> Record | None:
    """Return a point's record once nothing more will happen to it, else None.

    Args:
        ended_at: by job, when its end was first seen, in seconds of the monotonic clock; updated.
        stale: as of `follow`.
    """
    found = fresh_record(point, stale)
    if found and found.status in FINAL:
        return found
    if not state.status:
        ended_at.pop(job, None)
        return None
    if found and found.status == state.status:
        return found
    if time.monotonic() - ended_at.setdefault(job, time.monotonic()) < SETTLING_S:
        return None
    if found and found.status == "preempted":  # not queued again: it is left to --resume
        return found
    known = "in this point" if found else "no record of this point"
    output = f"see {queue.output(job)}" if queue.output(job).exists() else ""
    cause = " ".join(filter(None, (f"{queue.name}:", state.name, state.detail)))
    message = "; ".join(filter(None, (cause, known, output)))
    return record_end(point, state.status, message, lambda: fresh_record(point, stale))


def fresh_record(point: Point, stale: Mapping[Path, Signature]) -> Record | None:
    signature = record_signature(point.folder)
    if signature and signature == stale.get(point.folder):
        return None
    return point.record()


def record_signature(folder: Path) -> Signature | None:
    """Return what tells a record from the one that replaces it; None without a record."""
    with suppress(OSError):
        status = (folder / files.FILE_NAME).stat()
        return status.st_ino, status.st_mtime_ns
    return None


QUEUE = "--format=%i|%T|%r|%N"


class SlurmQueue:
    """Jobs in Slurm; several jobs that are submitted together are one array."""

    def __init__(
        self, executor: Any, jobs: Sequence[BatchJob], before: Sequence[SubmittedJob] = ()
    ) -> None:
        """Submit jobs; follow those submitted `before` as well, first in order."""
        self._jobs = [*before, *(submit_jobs(executor, jobs) if jobs else [])]
        # of the arrays, each once, by clusters
        self._numbers: dict[str | None, dict[str, None]] = {}
        for job in self._jobs:
            self._numbers.setdefault(job.clusters, {})[job.job_id.split("_")[0]] = None
        self._states = [JobState("PENDING")] * len(self._jobs)
        self._silent = False
        self.name = f"Slurm job {', '.join(chain(*self._numbers.values()))}"

    @classmethod
    def active_jobs(cls, jobs: Sequence[SubmittedJob]) -> list[SubmittedJob]:
        """Return those of earlier submitted jobs that are pending or running."""
        if not jobs:
            return []
        states = cls(None, [], jobs).states()
        return [job for job, state in zip(jobs, states, strict=True) if not state.status]

    def in_words(self) -> str:
        """Return how many jobs are in which state, such as 2 running; "" if all have ended."""
        states = self.states()
        if self._silent:
            return f"{self.name}: Slurm does not answer here"
        all_ended = all(state.status for state in states)
        return "" if all_ended else f"{self.name}: {summary(states)}"

    def submitted(self) -> list[SubmittedJob]:
        return self._jobs

    def states(self) -> list[JobState]:
        """Return the state of every job; the last known one while Slurm does not answer.

        Several clusters may each have a job of one number: it goes on while any of them does.
        """
        try:
            found = [
                ((job, clusters), slurm_state(*about))
                for clusters, numbers in self._numbers.items()
                for job, *about in squeue(",".join(numbers), QUEUE, ANSWER_S, clusters)
            ]
        except (OSError, subprocess.TimeoutExpired) as error:
            # slurmctld restarts, or is busy, which does not affect the jobs
            if not self._silent:
                log.warning("Slurm does not answer: %s", error)
            self._silent = True
            return self._states
        self._silent = False
        gone = JobState("GONE", "Slurm knows it no more", "error")
        known = dict(sorted(found, key=lambda each: not each[1].status))  # those that go on: last
        self._states = [known.get((job.job_id, job.clusters), gone) for job in self._jobs]
        return self._states

    def interrupt(self) -> str:
        commands = [
            " ".join(["scancel", *([f"--clusters={clusters}"] if clusters else []), *numbers])
            for clusters, numbers in self._numbers.items()
        ]
        return f"{self.name} goes on; `{'; '.join(commands)}` ends it"

    def output(self, number: int) -> Path:
        return Path(self._jobs[number].output)


def submit_jobs(executor: Any, jobs: Sequence[BatchJob]) -> list[SubmittedJob]:
    """Submit jobs, and return how to find each again."""
    options = executor.parameters.get("additional_parameters", {})
    clusters = options.get("clusters") or os.environ.get(CLUSTERS, "")
    found = []
    for sent, job in zip(submit(executor, jobs), jobs, strict=True):
        folders = [os.path.relpath(point.folder, job.folder) for point in job.points]
        found.append(SubmittedJob(str(sent.job_id), str(sent.paths.stderr), folders, clusters))
    return found


def slurm_state(word: str, reason: str, nodes: str) -> JobState:
    why = reason if word == "PENDING" and reason != "None" else ""
    return JobState(word, why or nodes, STATUS_OF_STATE.get(word, ""))


ENDING_S = 20.0


class LocalQueue:
    """Run jobs one after another; submitit itself would start them all at once."""

    name = "local job"

    def __init__(
        self, executor: Any, jobs: Sequence[BatchJob], before: Sequence[SubmittedJob] = ()
    ) -> None:
        assert not before  # active_jobs() finds none
        self._executor = executor
        self._waiting = list(jobs)
        self._number = len(jobs)
        self._submitted: list[Any] = []
        self._start_next()

    @classmethod
    def active_jobs(cls, jobs: Sequence[SubmittedJob]) -> list[SubmittedJob]:
        """Return no job: one that outlives the sweep holds the claim on its point."""
        return []

    def submitted(self) -> list[SubmittedJob]:
        """Return no job: a resumed sweep could not wait for it."""
        return []

    def states(self) -> list[JobState]:
        """Return the current state of every job; start the next job when one has ended."""
        if self._waiting and self._submitted[-1].done():
            self._start_next()
        over = JobState("FINISHED", "", "error")
        begun = [over if job.done() else JobState("RUNNING") for job in self._submitted]
        return begun + [JobState("PENDING")] * (self._number - len(begun))

    def interrupt(self) -> str:
        """End the running job, which records that, and wait for its end."""
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

"""Submitted jobs, in Slurm or here: the call that runs on their nodes, and their outcomes.

It does not import Hydra.
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
    """Return the id of this job for Slurm's commands; "" outside of Slurm.

    One task of an array has the array's own number, which means all of its tasks: its id is
    ARRAY_TASK. The other tasks have numbers of their own, and so has a job that a task submits,
    although it inherits the variables of the array.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    is_named_as_array = job == os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{job}_{task}" if task and is_named_as_array else job


STANDING = "--Format=State:|,TimeLimit:|,TimeUsed:|,PreemptTime:|"


def query_own_job() -> tuple[str, float | None]:
    """Return this job's state, "" outside of Slurm, and its seconds left; None if unknown.

    A job with a PreemptTime counts as preempted while it still runs, with unlimited time left.
    Without an answer of squeue, as in a container without it, the job counts as running, until
    SLURM_JOB_END_TIME if that is set.
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
        return state, float(parse_duration(limit) - parse_duration(used))
    with contextlib.suppress(ValueError):
        return "RUNNING", float(os.environ.get("SLURM_JOB_END_TIME", "")) - time.time()
    return "RUNNING", None


CLUSTERS = "SLURM_CLUSTERS"
"""Environment variable with the names of the clusters that Slurm's commands query."""


def slurm_environment(clusters: str | None = "") -> dict[str, str]:
    """Return the environment in which Slurm's commands query these clusters; "": this host's.

    None keeps the variable of the user's shell, which a job inherits.
    """
    if clusters is None:
        return dict(os.environ)
    environment = {name: value for name, value in os.environ.items() if name != CLUSTERS}
    return environment | ({CLUSTERS: clusters} if clusters else {})


def squeue(jobs: str, columns: str, timeout_s: float, clusters: str | None = "") -> list[list[str]]:
    """Return each job's columns; raise OSError or SubprocessError without an answer.

    Other lines are ignored: wrappers, and sites with several clusters, print them.
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


def parse_duration(text: str) -> int:
    """Convert Slurm's [days-][[hours:]minutes:]seconds to seconds."""
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in reversed(clock.split(":"))]
    seconds = sum(part * unit for part, unit in zip(parts, (1, 60, 3600), strict=False))
    return 86400 * int(days or 0) + seconds


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

    After a preemption and a restart, it runs the points that are still open.

    Attributes:
        folder: folder of the rendezvous of agents on several nodes.
        signal_delay_s: seconds from Slurm's warning to the time limit.
        max_num_timeout: how often a job that ran out of time is requeued.
    """

    points: list[Point]
    folder: Path
    signal_delay_s: int
    max_num_timeout: int

    def __call__(self) -> None:
        """Run the points; their records have the outcomes."""
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
            context = detect_launcher()
            agents = connect_agents(
                context, traits, self.folder, config.join_timeout_s, config.trust_network
            )
            is_open_at_0 = agents.broadcast(is_open, list[bool])
        except (JoinError, Lost) as error:
            if detect_launcher().index == 0:
                for point in compress(self.points, is_open):
                    record_end(point, "error", str(error))
            sys.exit(str(error))
        return agents, list(compress(self.points, is_open_at_0))

    def stop(self, number: int, frame: Any) -> None:
        """Handle a signal: raise StopRequested with the status that the signal means.

        At its time limit, a job that may be requeued is preempted, and has no timeout.
        """
        ignore_signals()
        state, left_s = query_own_job()
        status = "interrupted"
        if number == signal.SIGUSR2:
            is_late = left_s is None or left_s <= self.signal_delay_s + EARLY_S
            status = "timeout" if is_late else "preempted"
        elif state and number != signal.SIGINT:
            is_late = left_s is not None and left_s <= 0
            status = "timeout" if is_late else STATUS_OF_STATE.get(state, "cancelled")
        reason = WHY[status]
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        if status == "timeout" and state and restarts < self.max_num_timeout:
            status = "preempted"
        raise StopRequested(number, status, reason)

    def leave(self, error: StopRequested) -> None:
        """End the process; agent 0 first requeues a preempted job."""
        job = own_job()
        if error.status == "preempted" and job and detect_launcher().index == 0:
            problem = requeue(job)
            log.warning("%s; %s", error, problem or "queued again")
        sys.exit(128 + error.number)


def requeue(job: str) -> str:
    """Requeue a job of this node's cluster, unless Slurm has; return why that failed, or ""."""
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
        reason = str(error)
    else:
        if done.returncode == 0 or "Job is pending execution" in done.stderr:
            return ""
        reason = " ".join(done.stderr.split()) or f"scontrol ended with {done.returncode}"
    return f"not queued again ({reason}): --resume goes on"


def record_end(
    point: Point,
    status: str,
    message: str,
    current: Callable[[], Record | None] = lambda: None,
) -> Record | None:
    """Write the outcome of a point into its unfinished record, or into a new one.

    Return the record; None if a process measures the point, or has finished it meanwhile.
    `current` reads this attempt's record.
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
"""Message of Slurm's commands on a host that belongs to no cluster."""
NO_SLURM = "; no Slurm answers here: type this on a node of the cluster, or launcher=local"


@dataclass(frozen=True)
class JobState:
    """The state of one job in its queue.

    `detail` is the reason why the job is pending, or its nodes. `status` is the status of points
    that the job left without a result; "" while it may go on.
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

    def submitted_jobs(self) -> list[SubmittedJob]:
        """Return the jobs for the sweep's manifest."""
        ...

    def interrupt(self) -> str:
        """Stop waiting for the jobs; return a text on what becomes of them."""
        ...

    def output(self, number: int) -> Path:
        """Return the file with a job's messages."""
        ...


def submit(executor: Any, jobs: Sequence[BatchJob]) -> list[Any]:
    """Submit jobs by submitit; raise ConfigError with the scheduler's reason for a refusal."""
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
"""Seconds between two queries of the queue: at first, and after a while."""
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
        points: points of each job, in the order of the queue.
        stale: signatures of earlier attempts' records, by the points' folders; they are ignored.
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
                if record := final_record(point, job, states[job], ended_at, queue, stale):
                    report(record)
                    waiting.remove((job, point))
                    pause_s = POLL_INTERVAL_S[0]
                    yield record.status
            if not waiting:
                return
            if (line := summary(states)) != last_summary:
                log.info("%s: %s", queue.name, line)
                last_summary = line
            time.sleep(pause_s)
            pause_s = min(POLL_INTERVAL_S[1], pause_s * 1.1)
    except (KeyboardInterrupt, GeneratorExit):
        # From here on the jobs' own records suffice.
        ended = total - len(waiting)
        log.warning("%d of %d points have ended; %s", ended, total, queue.interrupt())
        raise


NEVER_STARTS = (
    "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "JobHeldAdmin",
    "JobHeldUser", "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed",
)  # fmt: skip
"""Slurm's reasons for a job that is pending until somebody changes it, or the partition."""


def summary(states: Sequence[JobState]) -> str:
    """Count jobs by state, with the reason of pending ones: "2 running, 3 pending (Priority)"."""
    counts: Counter[str] = Counter()
    for state in states:
        if state.status:
            continue
        is_explained = state.name == "PENDING" and state.detail
        advice = ": does not start as asked; Ctrl-C ends the wait"
        detail_text = state.detail + (advice if state.detail in NEVER_STARTS else "")
        reason = f" ({detail_text})" if is_explained else ""
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
    """Return a point's record once it is final, else None.

    Args:
        ended_at: by job, when its end was first seen, in seconds of the monotonic clock; updated.
        stale: see wait_for_points.
    """
    record = fresh_record(point, stale)
    if record and record.status in FINAL:
        return record
    if not state.status:
        ended_at.pop(job, None)
        return None
    if record and record.status == state.status:
        return record
    if time.monotonic() - ended_at.setdefault(job, time.monotonic()) < SETTLING_S:
        return None
    if record and record.status == "preempted":  # not requeued: --resume measures it
        return record
    place = "in this point" if record else "no record of this point"
    output = f"see {queue.output(job)}" if queue.output(job).exists() else ""
    cause = " ".join(filter(None, (f"{queue.name}:", state.name, state.detail)))
    message = "; ".join(filter(None, (cause, place, output)))
    return record_end(point, state.status, message, lambda: fresh_record(point, stale))


def fresh_record(point: Point, stale: Mapping[Path, Signature]) -> Record | None:
    signature = record_signature(point.folder)
    if signature and signature == stale.get(point.folder):
        return None
    return point.record()


def record_signature(folder: Path) -> Signature | None:
    """Return what distinguishes a record from its successor; None without a record."""
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
        """Submit jobs; those submitted `before` precede them in the queue."""
        self._jobs = [*before, *(submit_jobs(executor, jobs) if jobs else [])]
        # job numbers by clusters, each array once
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

    def to_text(self) -> str:
        """Return the number of jobs by state, such as "2 running"; "" if all have ended."""
        states = self.states()
        if self._silent:
            return f"{self.name}: Slurm does not answer here"
        all_ended = all(state.status for state in states)
        return "" if all_ended else f"{self.name}: {summary(states)}"

    def submitted_jobs(self) -> list[SubmittedJob]:
        return self._jobs

    def states(self) -> list[JobState]:
        """Return the state of every job; the last known one while Slurm does not answer.

        Job ids are unique per cluster only: a job is active while any cluster reports it active.
        """
        try:
            pairs = [
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
        state_by_job = dict(sorted(pairs, key=lambda pair: not pair[1].status))  # active ones last
        self._states = [state_by_job.get((job.job_id, job.clusters), gone) for job in self._jobs]
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
    """Submit jobs; return their ids, outputs, folders and clusters."""
    options = executor.parameters.get("additional_parameters", {})
    clusters = options.get("clusters") or os.environ.get(CLUSTERS, "")
    submitted = []
    for handle, job in zip(submit(executor, jobs), jobs, strict=True):
        folders = [os.path.relpath(point.folder, job.folder) for point in job.points]
        submitted.append(
            SubmittedJob(str(handle.job_id), str(handle.paths.stderr), folders, clusters)
        )
    return submitted


def slurm_state(name: str, reason: str, nodes: str) -> JobState:
    pending_reason = reason if name == "PENDING" and reason != "None" else ""
    return JobState(name, pending_reason or nodes, STATUS_OF_STATE.get(name, ""))


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

    def submitted_jobs(self) -> list[SubmittedJob]:
        """Return no job: a resumed sweep could not wait for it."""
        return []

    def states(self) -> list[JobState]:
        """Return the current state of every job; start the next job when one has ended."""
        if self._waiting and self._submitted[-1].done():
            self._start_next()
        finished = JobState("FINISHED", "", "error")
        started = [finished if job.done() else JobState("RUNNING") for job in self._submitted]
        return started + [JobState("PENDING")] * (self._number - len(started))

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
        # The job inherits that SIGINT is ignored: this process handles Ctrl-C, and stops the job.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._submitted += submit(self._executor, [self._waiting.pop(0)])
        finally:
            signal.signal(signal.SIGINT, handler)

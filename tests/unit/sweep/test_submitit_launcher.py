"""What is asked of Slurm and what is made of its answers, without one."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from benchkit.errors import ConfigError
from benchkit.point.point import Point
from benchkit.record import files
from benchkit.sweep import job_queues as following
from benchkit.sweep import job_queues as slurm_job
from benchkit.sweep import job_queues as slurm_queue
from benchkit.sweep.job_queues import BatchJob, JobState, parse_duration, slurm_state, summary, wait_for_points
from benchkit.sweep.launchers import SubmititLauncher
from benchkit.sweep.manifest import SubmittedJob
from launch.launcher_env import LaunchContext
from launch.signals import StopRequested

from tests.support.cli import PATIENCE_S
from tests.support.configs import config
from tests.support.records import as_record, make_record

SBATCH = """#!/bin/sh
for last; do :; done
cp "$last" "$SAVED"
echo Submitted batch job 7
"""


@pytest.mark.parametrize("launcher", [pytest.param("slurm", marks=pytest.mark.slow), "slurm_packed"])
def test_sbatch_script_matches_golden_file(cli, tmp_path, golden, launcher):
    """Waiting is interrupted at once: this squeue knows of a job that never begins."""
    for name, text in {"sbatch": SBATCH, "squeue": "#!/bin/sh\necho '7|PENDING|Priority|'\n", "srun": ""}.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    process = cli.start(
        "+suite=allreduce", f"launcher={launcher}", "data_size=1,10", "hydra.launcher.nodes=2",
        "hydra.launcher.partition=gpu", "hydra.launcher.account=me", "hydra.launcher.constraint=a100",
        "hydra.launcher.gpus_per_node=4", "hydra.launcher.cpus_per_task=8", "hydra.launcher.timeout_min=90",
        "+hydra.launcher.additional_parameters.reservation=bench", "hydra.launcher.setup=[module load cuda]",
        "+hydra.launcher.srun_args=['--mpi=pmix']",
        PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", SAVED=str(tmp_path / "script.sh"),
    )  # fmt: skip
    for line in process.stdout:
        if "pending (Priority)" in line or launcher == "slurm":
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, out + err
    script = (tmp_path / "script.sh").read_text()
    assert "--kill-on-bad-exit=0 --cpus-per-task=8 --mpi=pmix" in script
    lines = [line for line in script.splitlines() if line.startswith(("#SBATCH", "mod"))]
    golden("\n".join(line for line in lines if not line.startswith(("#SBATCH --error", "#SBATCH --output"))))


def test_missing_slurm_is_refused(cli, tmp_path, golden):
    (tmp_path / "empty").mkdir()
    done = cli("+suite=allreduce", "launcher=slurm", PATH=str(tmp_path / "empty"))
    assert done.returncode == 2
    golden(done.stderr, {r"Could not .*\? ": "(WHY) "})


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"timeout_min": 0}, {"tasks_per_node": -1}])
def test_launcher_refuses_values_out_of_range(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(ConfigError, match=f"hydra.launcher.{name}={value}: "):
        SubmititLauncher(**({"nodes": 1, "tasks_per_node": 1} | wrong)).check(config(), LaunchContext("plain", 0, 1))


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (("PENDING", "Priority", ""), JobState("PENDING", "Priority")),
        (("RUNNING", "None", "n[1-2]"), JobState("RUNNING", "n[1-2]")),
        (("NODE_FAIL", "NodeDown", "n1"), JobState("NODE_FAIL", "n1", "crash")),
        (("OUT_OF_MEMORY", "OutOfMemory", "n1"), JobState("OUT_OF_MEMORY", "n1", "oom")),
        (("CANCELLED", "Resources", ""), JobState("CANCELLED", "", "cancelled")),
    ],
)
def test_slurm_state_maps_to_status(told, state):
    assert slurm_state(*told) == state


def test_summary_counts_job_states():
    running, pending, failed = (
        JobState("RUNNING", "n1"),
        JobState("PENDING", "Priority"),
        JobState("FAILED", "", "crash"),
    )
    states = [running, running, pending, failed]
    assert summary(states) == "2 running, 1 pending (Priority)"
    assert summary(states[-1:]) == "ended"
    stuck = [
        summary([JobState("PENDING", why)]) for why in ("PartitionConfig", "BadConstraints", "Priority", "Resources")
    ]
    assert ["Ctrl-C" in text for text in stuck] == [True, True, False, False]


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("1:30", 90), ("1-01:00:00", 90000)])
def test_in_seconds_reads_slurm_durations(text, seconds):
    assert parse_duration(text) == seconds


WORDS = ("JOB_ID", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "JOB_END_TIME", "RESTART_COUNT", "CLUSTERS")


@pytest.fixture
def job(monkeypatch, tmp_path):
    """A process in a job, where commands of Slurm are scripts."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(slurm_job, "ignore_signals", lambda: None)
    for name in os.environ.keys() & {f"SLURM_{word}" for word in WORDS}:
        monkeypatch.delenv(name)
    return Stand(monkeypatch, tmp_path)


class Stand:
    def __init__(self, monkeypatch, folder):
        self.monkeypatch, self.folder = monkeypatch, folder

    def script(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def queues(self, text=":"):
        self.script("scontrol", f"echo $* $SLURM_CLUSTERS >> {self.folder}/asked; {text}")

    def variables(self, **values):
        for name, value in values.items():
            self.monkeypatch.setenv(name, str(value))

    def ends(self, number, max_num_timeout=0):
        """The point's status, and what scontrol was asked."""
        ran = BatchJob([], Path(), 60, max_num_timeout)
        with pytest.raises(StopRequested) as told:
            ran.stop(number, None)
        with pytest.raises(SystemExit) as left:
            ran.leave(told.value)
        assert left.value.code == 128 + number
        asked = self.folder / "asked"
        return told.value.status, asked.read_text().splitlines() if asked.exists() else []


@pytest.mark.parametrize(
    ("number", "says", "status"),
    [
        (signal.SIGUSR2, "RUNNING|1:00:00|10:00|N/A|", "preempted"),
        (signal.SIGUSR2, "RUNNING|1:00:00|58:20|N/A|", "timeout"),  # 60 s before the limit, up to a minute early
        (signal.SIGUSR2, "RUNNING|UNLIMITED|10:00|N/A|", "preempted"),
        (signal.SIGTERM, "COMPLETING|1:00:00|10:00|N/A|", "cancelled"),
        (signal.SIGTERM, "COMPLETING|1:00:00|1:00:01|N/A|", "timeout"),
        (signal.SIGTERM, "NODE_FAIL|1:00:00|10:00|N/A|", "crash"),
        # Slurm says so before the job's grace ends, and also where no time is left
        (signal.SIGTERM, "SIGNALING|1:00:00|10:00|2026-11-28T23:57:15|", "preempted"),
        (signal.SIGTERM, "COMPLETING|1:00:00|0:00|2026-11-28T23:57:15|", "preempted"),
        (signal.SIGTERM, "RUNNING|1:00:00|1:00:01|2026-11-28T23:57:15|", "preempted"),
        (signal.SIGUSR2, "RUNNING|1:00:00|59:30|2026-11-28T23:57:15|", "preempted"),
        (signal.SIGINT, "RUNNING|1:00:00|1:00:01|N/A|", "interrupted"),
    ],
)
@pytest.mark.parametrize("before", [":", "echo CLUSTER: site", "echo; echo 'Lmod: a|b'; echo 'of|one|two|three'"])
def test_signal_status_follows_slurm(job, number, says, status, before):
    job.script("squeue", f"{before}; echo '{says}'")
    job.queues()
    job.variables(SLURM_JOB_ID=7)
    assert job.ends(number) == (status, ["requeue 7"] if status == "preempted" else [])


def test_job_that_slurm_has_queued_already_needs_nothing_more(job, caplog):
    job.script("squeue", "echo 'COMPLETING|1:00:00|0:00|2026-11-28T23:57:15|'")
    job.queues("echo Job is pending execution for job 7 >&2; exit 1")
    job.variables(SLURM_JOB_ID=7)
    assert job.ends(signal.SIGTERM) == ("preempted", ["requeue 7"])
    assert "not queued" not in caplog.text


@pytest.mark.parametrize(("number", "status"), [(signal.SIGUSR2, "timeout"), (signal.SIGTERM, "interrupted")])
def test_signal_outside_of_slurm_queues_nothing(job, number, status):
    """submitit's local queue warns of its time limit in the same way."""
    job.queues()
    assert job.ends(number, max_num_timeout=1) == (status, [])


@pytest.mark.parametrize(
    ("restarts", "allowed", "again"), [(0, 0, False), (0, 1, True), (1, 1, False), (1, 2, True), (5, 0, False)]
)
@pytest.mark.parametrize(
    ("number", "used", "by_itself"),
    [(signal.SIGUSR2, "59:30", False), (signal.SIGTERM, "1:00:01", False), (signal.SIGUSR2, "10:00", True)],
)
def test_time_limit_is_final_once_the_job_may_not_start_again(job, restarts, allowed, again, number, used, by_itself):
    """Until then its point is as one that was preempted, whose job always starts again."""
    job.script("squeue", f"echo 'RUNNING|1:00:00|{used}|N/A|'")
    job.queues()
    job.variables(SLURM_JOB_ID=7, SLURM_RESTART_COUNT=restarts)
    queued = ("preempted", ["requeue 7"])
    assert job.ends(number, allowed) == (queued if again or by_itself else ("timeout", []))


ARRAY = """
case $SLURM_CLUSTERS$* in
elsewhere*) exit 1 ;;
*--jobs=36_1*) echo 'RUNNING|1:00:00|59:30|N/A|' ;;
*--jobs=36*) echo 'RUNNING|1:00:00|59:30|N/A|'; echo 'RUNNING|1:00:00|1|N/A|' ;;
*) echo 'RUNNING|1:00:00|1|N/A|' ;;
esac
"""


@pytest.mark.parametrize("clusters", [None, "elsewhere", "elsewhere,here"])
@pytest.mark.parametrize(
    ("number", "allowed", "status", "asked"),
    [
        (36, 0, "timeout", []),
        (36, 1, "preempted", ["requeue 36_1"]),
        (37, 0, "preempted", ["requeue 37"]),  # another task, or a job that a task has submitted
    ],
)
def test_task_of_an_array_speaks_of_itself_only(job, clusters, number, allowed, status, asked):
    """One task has the number of its array, by which Slurm means all; a shell names clusters to ask."""
    job.script("squeue", ARRAY)
    job.queues()
    job.variables(SLURM_JOB_ID=number, SLURM_ARRAY_JOB_ID=36, SLURM_ARRAY_TASK_ID=1)
    if clusters:
        job.variables(SLURM_CLUSTERS=clusters, SLURM_CLUSTER_NAME="here")
    assert job.ends(signal.SIGUSR2, allowed) == (status, asked)


@pytest.mark.parametrize("squeue", [None, "exit 1", "echo CLUSTER: site", "echo 'RUNNING|INVALID|||'"])
@pytest.mark.parametrize("scontrol", [None, "exit 1", "echo a >&2; echo disabled >&2; exit 1"])
@pytest.mark.parametrize(
    ("number", "rest_s", "status"),
    [
        (signal.SIGUSR2, 100, "timeout"), (signal.SIGUSR2, 3000, "preempted"), (signal.SIGUSR2, None, "timeout"),
        (signal.SIGTERM, -1, "timeout"), (signal.SIGTERM, 3000, "cancelled"), (signal.SIGTERM, None, "cancelled"),
    ],
)  # fmt: skip
def test_job_without_answers_goes_by_the_end_in_its_environment(job, caplog, squeue, scontrol, number, rest_s, status):
    """As in a container that has no command of Slurm."""
    if squeue:
        job.script("squeue", squeue)
    if scontrol:
        job.queues(scontrol)
    job.variables(SLURM_JOB_ID=7)
    if rest_s is not None:
        job.variables(SLURM_JOB_END_TIME=round(time.time()) + rest_s)
    is_asked = scontrol and status == "preempted"
    assert job.ends(number) == (status, ["requeue 7"] if is_asked else [])
    said = [record.getMessage() for record in caplog.records]
    assert [("\n" in line, "disabled" in line, "not queued again" in line) for line in said] == (
        [(False, "disabled" in str(scontrol), True)] if status == "preempted" else []
    )


class Script:
    """A queue that says what it was told to, look after look."""

    name = "job 7"

    def __init__(self, *looks):
        self.looks = list(looks)

    def states(self):
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def interrupt(self):
        return "it goes on"

    def output(self, number):
        return Path("log.err")


@pytest.fixture
def points(tmp_path):
    return [[Point(config(), tmp_path / str(index), [])] for index in range(2)]


def write(point, status):
    point.folder.mkdir(exist_ok=True)
    files.write(as_record(make_record(status=status, agents=[{"host": "n1"}])), point.folder)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(following, "POLL_INTERVAL_S", (0.0, 0.0))
    monkeypatch.setattr(following, "SETTLING_S", 0.0)


def test_follow_trusts_final_record(points, at_once):
    write(points[0][0], "error")
    write(points[1][0], "oom")
    script = Script([JobState("RUNNING"), JobState("COMPLETED", "", "error")])
    assert list(wait_for_points(points, script, report=lambda record: None)) == ["error", "oom"]


def test_follow_writes_missing_outcome(points, at_once):
    write(points[0][0], "running")
    ended = [JobState("NODE_FAIL", "n1", "crash"), JobState("CANCELLED", "", "cancelled")]
    assert list(wait_for_points(points, Script(ended), report=lambda record: None)) == ["crash", "cancelled"]
    killed, never = (point.record() for [point] in points)
    assert ("NODE_FAIL" in killed.error.message, killed.error.host) == (True, "n1")
    assert "CANCELLED" in never.error.message
    assert never.finished_at


def test_follow_waits_for_preempted_job(points, at_once):
    write(points[0][0], "preempted")
    write(points[1][0], "error")
    looks = [[JobState("PENDING"), JobState("RUNNING")]] * 3 + [
        [JobState("PREEMPTED", "", "preempted"), JobState("RUNNING")]
    ]
    script = Script(*looks)
    assert list(wait_for_points(points, script, report=lambda record: None)) == ["error", "preempted"]
    assert len(script.looks) == 1


def test_preempted_point_of_a_job_that_was_not_queued_again_is_left_to_resume(points, at_once):
    write(points[0][0], "preempted")
    ended = [JobState("FAILED", "n1", "crash")] * 2
    assert list(wait_for_points(points, Script(ended), report=lambda record: None)) == ["preempted", "crash"]


def test_states_survive_silent_slurm(monkeypatch):
    answers = [
        subprocess.CompletedProcess([], 0, "CLUSTER: site\n7_0|RUNNING|None|n1\n", ""),
        subprocess.CompletedProcess([], 1, "", "slurm_load_jobs error: Unable to contact slurm controller"),
        subprocess.CompletedProcess([], -signal.SIGKILL, "", ""),
        subprocess.CompletedProcess([], 1, "", "slurm_load_jobs error: Invalid job id specified"),
    ]
    monkeypatch.setattr(slurm_queue.subprocess, "run", lambda *_, **__: answers.pop(0))
    slurm = slurm_queue.SlurmQueue(None, [], [SubmittedJob("7_0", "7_0.err", [])])
    assert [slurm.states()[0].name for _ in range(4)] == ["RUNNING", "RUNNING", "RUNNING", "GONE"]


BY_CLUSTER = """
[ "$SLURM_CLUSTERS" ] && echo "CLUSTER: $SLURM_CLUSTERS"
case $SLURM_CLUSTERS in
other) echo '7_0|RUNNING|None|n1' ;;
elsewhere) echo '8|PENDING|Priority|' ;;
*) echo '7_0|COMPLETED|None|n1'; echo '7_1|RUNNING|None|n1' ;;
esac
"""


@pytest.mark.parametrize(
    ("shell", "option", "clusters", "word"),
    [("", None, "", "COMPLETED"), ("other", None, "other", "RUNNING"), ("", "other", "other", "RUNNING"),
     ("other", "elsewhere", "elsewhere", "GONE")],
)  # fmt: skip
def test_jobs_are_followed_in_the_cluster_that_took_them(job, shell, option, clusters, word):
    """Numbers repeat from cluster to cluster; the shell of another day names another one."""
    job.script("squeue", BY_CLUSTER)
    job.variables(SLURM_CLUSTERS=shell)
    sent = SimpleNamespace(job_id="7_0", paths=SimpleNamespace(stderr=""))
    options = {"additional_parameters": {"clusters": option}} if option else {}
    executor = SimpleNamespace(parameters=options, submit=lambda job: sent)
    before = [SubmittedJob("7_1", "", [], ""), SubmittedJob("8", "", [], "elsewhere")]
    slurm = slurm_queue.SlurmQueue(executor, [BatchJob([], Path(), 60, 0)], before)
    assert [each.clusters for each in slurm.submitted_jobs()] == ["", "elsewhere", clusters]
    again = slurm_queue.SlurmQueue(None, [], slurm.submitted_jobs())
    job.variables(SLURM_CLUSTERS="nowhere")
    assert [state.name for state in again.states()] == ["RUNNING", "PENDING", word]
    assert "scancel --clusters=elsewhere 8" in slurm.interrupt()


def test_jobs_of_an_older_manifest_are_followed_where_the_shell_looks(job):
    """It says of no job which clusters took it."""
    job.script("squeue", BY_CLUSTER)
    job.variables(SLURM_CLUSTERS="other")
    found = [msgspec.convert({"job_id": "7_0", "output": "", "folders": ["0"]}, SubmittedJob)]
    assert slurm_queue.SlurmQueue.active_jobs(found) == found
    assert "scancel 7" in slurm_queue.SlurmQueue(None, [], found).interrupt()


@pytest.mark.parametrize("words", [("RUNNING", "COMPLETED"), ("COMPLETED", "RUNNING")])
def test_job_goes_on_while_one_of_its_number_does_in_any_of_its_clusters(job, words):
    """sbatch chooses one of several clusters; another of them may have a job of the same number."""
    job.script("squeue", "".join(f"echo CLUSTER: {word}; echo '7|{word}|None|n1'\n" for word in words))
    sent = SubmittedJob("7", "", [], "a,b")
    assert slurm_queue.SlurmQueue.active_jobs([sent]) == [sent]

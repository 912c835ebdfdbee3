"""What is asked of Slurm and what is made of its answers, without one."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from benchkit.errors import ConfigError
from benchkit.point.point import Point
from benchkit.record import files
from benchkit.sweep import slurm as following
from benchkit.sweep import slurm as slurm_job
from benchkit.sweep import slurm as slurm_queue
from benchkit.sweep.launchers import Submitting
from benchkit.sweep.manifest import Submitted
from benchkit.sweep.slurm import Job, State, follow, in_seconds, slurm_state, summary
from launch.signals import StopRequested
from launch.topology import LaunchContext

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
        Submitting(**({"nodes": 1, "tasks_per_node": 1} | wrong)).check(config(), LaunchContext("plain", 0, 1))


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("7_1|PENDING|Priority|", State("PENDING", "Priority")),
        ("7_1|RUNNING|None|n[1-2]", State("RUNNING", "n[1-2]")),
        ("7_1|NODE_FAIL|NodeDown|n1", State("NODE_FAIL", "n1", "crash")),
        ("7_1|OUT_OF_MEMORY|OutOfMemory|n1", State("OUT_OF_MEMORY", "n1", "oom")),
        ("7_1|CANCELLED|Resources|", State("CANCELLED", "", "cancelled")),
    ],
)
def test_slurm_state_maps_to_status(line, state):
    assert slurm_state(line) == state


def test_summary_counts_job_states():
    running, pending, failed = State("RUNNING", "n1"), State("PENDING", "Priority"), State("FAILED", "", "crash")
    states = [running, running, pending, failed]
    assert summary(states) == "2 running, 1 pending (Priority)"
    assert summary(states[-1:]) == "ended"


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("1:30", 90), ("1-01:00:00", 90000)])
def test_in_seconds_reads_slurm_durations(text, seconds):
    assert in_seconds(text) == seconds


@pytest.mark.parametrize(
    ("number", "says", "status"),
    [
        (signal.SIGUSR2, ("RUNNING", 3000.0), "preempted"),
        (signal.SIGUSR2, ("RUNNING", 100.0), "timeout"),  # 60 s before the limit, up to a minute early
        (signal.SIGUSR2, ("", None), "timeout"),  # submitit's local queue warns so
        (signal.SIGTERM, ("COMPLETING", 3000.0), "cancelled"),
        (signal.SIGTERM, ("COMPLETING", -1.0), "timeout"),
        (signal.SIGTERM, ("NODE_FAIL", 3000.0), "crash"),
        (signal.SIGTERM, ("", None), "interrupted"),
    ],
)
def test_signal_status_follows_slurm(monkeypatch, number, says, status):
    monkeypatch.setattr(slurm_job, "slurm_says", lambda: says)
    monkeypatch.setattr(slurm_job, "ignore_signals", lambda: None)
    with pytest.raises(StopRequested) as told:
        Job([], Path(), 60, 0).stop(number, None)
    assert (told.value.number, told.value.status) == (number, status)


@pytest.mark.parametrize(
    ("status", "restarts", "allowed", "again"),
    [("preempted", 5, 0, True), ("timeout", 0, 0, False), ("timeout", 0, 1, True), ("timeout", 1, 1, False),
     ("cancelled", 0, 9, False)],
)  # fmt: skip
def test_job_is_requeued_after_preemption(monkeypatch, status, restarts, allowed, again):
    commands = []
    monkeypatch.setattr(slurm_job.subprocess, "run", lambda command, check: commands.append(command))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(restarts))
    with pytest.raises(SystemExit) as left:
        Job([], Path(), 60, allowed).leave(StopRequested(signal.SIGUSR2, status))
    assert left.value.code == 128 + signal.SIGUSR2
    assert commands == ([["scontrol", "requeue", "7"]] if again else [])


ARRAY = """#!/bin/sh
case $* in
*--jobs=36_1*) echo RUNNING 1:00:00 59:30 ;;
*--jobs=36*) echo RUNNING 1:00:00 59:30; echo RUNNING 1:00:00 1 ;;
*) echo RUNNING 1:00:00 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("job", "rest_s", "allowed", "status", "queued"),
    [
        ("36", 30.0, 0, "timeout", None),
        ("36", 30.0, 1, "timeout", "36_1"),
        ("37", 3599.0, 0, "preempted", "37"),  # another task, or a job that a task has submitted
    ],
)
def test_task_of_an_array_speaks_of_itself_only(monkeypatch, tmp_path, job, rest_s, allowed, status, queued):
    """One task has the number of its array, by which Slurm's commands mean all tasks."""
    (tmp_path / "squeue").write_text(ARRAY)
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    task = {"SLURM_JOB_ID": job, "SLURM_ARRAY_JOB_ID": "36", "SLURM_ARRAY_TASK_ID": "1"}
    for name, value in task.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm_job, "ignore_signals", lambda: None)
    assert slurm_job.slurm_says() == ("RUNNING", rest_s)
    with pytest.raises(StopRequested) as told:
        Job([], Path(), 60, allowed).stop(signal.SIGUSR2, None)
    assert told.value.status == status
    commands = []
    monkeypatch.setattr(slurm_job.subprocess, "run", lambda command, check: commands.append(command))
    with pytest.raises(SystemExit):
        Job([], Path(), 60, allowed).leave(told.value)
    assert commands == ([["scontrol", "requeue", queued]] if queued else [])


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
    script = Script([State("RUNNING"), State("COMPLETED", "", "error")])
    assert list(follow(points, script, report=lambda record: None)) == ["error", "oom"]


def test_follow_writes_missing_outcome(points, at_once):
    write(points[0][0], "running")
    ended = [State("NODE_FAIL", "n1", "crash"), State("CANCELLED", "", "cancelled")]
    assert list(follow(points, Script(ended), report=lambda record: None)) == ["crash", "cancelled"]
    killed, never = (point.record() for [point] in points)
    assert ("NODE_FAIL" in killed.error.message, killed.error.host) == (True, "n1")
    assert "CANCELLED" in never.error.message
    assert never.finished_at


def test_follow_waits_for_preempted_job(points, at_once):
    write(points[0][0], "preempted")
    write(points[1][0], "error")
    looks = [[State("PENDING"), State("RUNNING")]] * 3 + [[State("PREEMPTED", "", "preempted"), State("RUNNING")]]
    script = Script(*looks)
    assert list(follow(points, script, report=lambda record: None)) == ["error", "preempted"]
    assert len(script.looks) == 1


def test_states_survive_silent_slurm(monkeypatch):
    answers = [
        subprocess.CompletedProcess([], 0, "7_0|RUNNING|None|n1\n", ""),
        subprocess.CompletedProcess([], 1, "", "slurm_load_jobs error: Unable to contact slurm controller"),
        subprocess.CompletedProcess([], -signal.SIGKILL, "", ""),
        subprocess.CompletedProcess([], 1, "", "slurm_load_jobs error: Invalid job id specified"),
    ]
    monkeypatch.setattr(slurm_queue.subprocess, "run", lambda *_, **__: answers.pop(0))
    slurm = slurm_queue.Slurm(None, [], [Submitted("7_0", "7_0.err", [])])
    assert [slurm.states()[0].word for _ in range(4)] == ["RUNNING", "RUNNING", "RUNNING", "GONE"]

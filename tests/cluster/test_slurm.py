"""Points as jobs of a real Slurm: what becomes of them is in our records, whatever becomes of the jobs."""

import itertools
import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from benchkit.record.record import FINAL

from tests.support.cli import PATIENCE_S, Cli, wait_until

pytestmark = pytest.mark.usefixtures("slurm")
QUICK = "measure.max_iterations=10"
APART = ("total", "wait_for_host")
"""Entries of `phases_s` in which a point does not use its host, or that are no phase."""
SLURM = ("+suite=faulty", "launcher=slurm", "timeout_s=600", QUICK)


def job_of(cli: Cli) -> str:
    """The number of the job that was submitted last."""
    found = [path.name for path in (cli.folder / "outputs" / "latest" / ".submitit").iterdir()]
    return str(max(int(re.match(r"\d+", name)[0]) for name in found if name[0].isdigit()))


def begun(cli: Cli, point: int) -> bool:
    log = cli.folder / "outputs" / "latest" / str(point) / "rank_1.log"
    return log.exists() and bool(log.read_text())


def statuses(cli: Cli) -> list[str]:
    return [record["status"] for record in cli.records()]


def scancel(*words: str) -> None:
    subprocess.run(["scancel", *words], check=True)


def test_job_failures_are_recorded(cli):
    done = cli(*SLURM, "fault=raise,none,sigkill", "hydra.launcher.nodes=2")
    assert done.returncode == 1
    assert statuses(cli) == ["error", "ok", "crash"]
    assert all(len(record["agents"]) == 2 for record in cli.records())
    assert cli.records()[0]["error"]["rank"] == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_points_on_one_host_do_not_overlap(cli):
    """bk1 and bk2 are one machine: their jobs run at the same time, their measurements must not."""
    done = cli(*SLURM, "seed=1,2,3,4")
    assert done.returncode == 0
    assert len({record["environment"]["host"] for record in cli.records()}) == 2
    spans = []
    for found in cli.records():
        ended = datetime.fromisoformat(found["finished_at"])
        busy = sum(length for name, length in found["phases_s"].items() if name not in APART)
        spans.append((ended - timedelta(seconds=busy), ended))
    for (_, ended), (began, _) in itertools.pairwise(sorted(spans)):
        assert ended <= began + timedelta(milliseconds=50)  # a record is written after the host is free again


def test_cancelled_jobs_are_recorded(cli, golden):
    process = cli.start(*SLURM, "fault=none,hang,none", "hydra.launcher.nodes=2")
    assert wait_until(lambda: begun(cli, 1))
    job = job_of(cli)
    scancel(f"{job}_2")
    scancel(f"{job}_1")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert statuses(cli) == ["ok", "cancelled", "cancelled"]
    numbers = {r"\d+_(\d)": r"JOB_\1", r"Slurm job \d+": "Slurm job N"}
    golden("\n".join(record["error"]["message"] for record in cli.records()[1:]), numbers)


def test_preempted_job_is_requeued(cli):
    """Packed: the first point is done and stays; the second meets SIGUSR2, says so, and hangs again until cancelled."""
    process = cli.start("+suite=faulty", "launcher=slurm_packed", "timeout_s=600", QUICK, "fault=none,hang")
    assert wait_until(lambda: begun(cli, 1))
    first = cli.records()[0]["finished_at"]
    scancel("--signal=USR2", job_of(cli))
    assert wait_until(lambda: statuses(cli) == ["ok", "preempted"])
    assert "preempted" in cli.records()[1]["error"]["message"]
    (cli.folder / "outputs" / "latest" / "1" / "rank_1.log").unlink()
    hurry(job_of(cli))
    assert wait_until(lambda: begun(cli, 1))
    assert statuses(cli) == ["ok", "running"]
    assert cli.records()[0]["finished_at"] == first
    scancel(job_of(cli))
    process.communicate(timeout=PATIENCE_S)
    assert statuses(cli) == ["ok", "cancelled"]


def test_job_that_makes_room_for_another_is_requeued(cli):
    """Slurm gives it a minute's grace, and would not queue a job again that ends by then."""
    process = cli.start(*SLURM, "fault=hang", "hydra.launcher.partition=spare", "hydra.launcher.nodes=2")
    assert wait_until(lambda: begun(cli, 0))
    subprocess.run(["srun", "--partition=all", "--nodes=2", "--exclusive", "sleep", "1"], check=True)
    assert statuses(cli) == ["preempted"]
    (cli.folder / "outputs" / "latest" / "0" / "rank_1.log").unlink()
    hurry(job_of(cli))
    assert wait_until(lambda: begun(cli, 0))
    assert [(record["status"], record["attempt"]) for record in cli.records()] == [("running", 2)]
    scancel(job_of(cli))
    process.communicate(timeout=PATIENCE_S)
    assert statuses(cli) == ["cancelled"]


def test_job_time_limit_is_timeout(cli):
    """The warning comes 80 s after the start, or up to a minute before that: late enough for the job to hear it."""
    done = cli(*SLURM, "fault=hang", "hydra.launcher.timeout_min=3", "hydra.launcher.signal_delay_s=100")
    assert done.returncode == 1
    assert statuses(cli) == ["timeout"]


def test_point_that_exceeds_the_limit_is_queued_again_alone(cli):
    """The last task has the number of its array, by which Slurm means all of its tasks.

    It inherits the names of clusters from a shell, which none of Slurm's commands can ask here.
    """
    wrapper = python_after(cli, "export SLURM_CLUSTERS=elsewhere")
    process = cli.start(*SLURM, "fault=none,none,none,hang", "hydra.launcher.array_parallelism=1",
                        "hydra.launcher.timeout_min=3", "hydra.launcher.signal_delay_s=100",
                        "hydra.launcher.max_num_timeout=1", f"+hydra.launcher.python={wrapper}")  # fmt: skip
    assert wait_until(lambda: begun(cli, 3))
    task = f"{job_of(cli)}_3"
    assert task_facts(task)["JobId"] == job_of(cli)
    assert wait_until(lambda: statuses(cli)[3:] == ["preempted"])
    hurry(task)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert statuses(cli) == ["ok", "ok", "ok", "timeout"]
    assert [record["attempt"] for record in cli.records()] == [1, 1, 1, 2]
    assert [task_facts(f"{job_of(cli)}_{number}")["Restarts"] for number in range(4)] == ["0", "0", "0", "1"]


def python_after(cli: Cli, line: str, python: str | Path = sys.executable) -> Path:
    """A script that starts Python after a line of shell."""
    script = cli.folder / "wrapper"
    script.write_text(f'#!/bin/sh\n{line}\nexec {python} "$@"\n')
    script.chmod(0o755)
    return script


def test_job_that_cannot_be_queued_again_is_left_to_resume(cli):
    """As in a container, where no command of Slurm is."""
    hidden = python_after(cli, "export SLURM_JOB_END_TIME=$(($(date +%s) + 3000)) PATH=/nowhere")
    process = cli.start(*SLURM, "fault=hang", f"+hydra.launcher.python={hidden}")
    assert wait_until(lambda: begun(cli, 0))
    job = job_of(cli)
    scancel("--signal=USR2", job)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert statuses(cli) == ["preempted"]
    assert task_facts(job)["JobState"] == "FAILED"
    logs = "".join(path.read_text() for path in (cli.folder / "outputs" / "latest" / ".submitit").rglob("*.out"))
    assert ("not queued again" in logs, "Traceback" in logs) == (True, False)


def hurry(job: str) -> None:
    """Slurm holds what it requeues for 2 min; a node refuses a job in the second in which it was killed there."""
    update = ["scontrol", "update", f"JobId={job}", "StartTime=now+3"]
    assert wait_until(lambda: subprocess.run(update, capture_output=True, check=False).returncode == 0)


def task_facts(task: str) -> dict[str, str]:
    told = subprocess.run(["scontrol", "--oneliner", "show", "job", task], capture_output=True, text=True, check=True)
    return dict(word.split("=", 1) for word in told.stdout.split() if "=" in word)


def test_ctrl_c_leaves_jobs_running(cli):
    process = cli.start(*SLURM, "fault=none,hang", "hydra.launcher.nodes=2")
    assert wait_until(lambda: begun(cli, 1))
    table = cli("outputs/latest", module="analysis")
    assert table.returncode == 0, table.stderr
    assert "running" in table.stdout
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert f"`scancel {job_of(cli)}` ends it" in out + err
    assert statuses(cli) == ["ok", "running"]
    scancel(job_of(cli))
    assert wait_until(lambda: statuses(cli) == ["ok", "cancelled"])


def test_jobs_start_by_a_wrapped_python_of_another_environment(cli):
    venv.create(cli.folder / "other", symlinks=True)
    packages = cli.folder / "other" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    line = f"echo $SLURM_PROCID >> {cli.folder}/calls"
    wrapper = python_after(cli, line, cli.folder / "other" / "bin" / "python")
    done = cli(*SLURM, "hydra.launcher.nodes=2", f"+hydra.launcher.python={wrapper}")
    assert (done.returncode, statuses(cli)) == (0, ["ok"])
    assert sorted((cli.folder / "calls").read_text().split()) == ["0", "1"]


def test_slurm_refusal_is_one_line(cli):
    done = cli(*SLURM, "hydra.launcher.partition=nowhere")
    assert done.returncode == 2
    assert (done.stderr.count("\n"), "nowhere" in done.stderr) == (1, True)


def test_submit_refuses_indivisible_world_size(cli):
    done = cli(*SLURM, "world_size=3", "hydra.launcher.nodes=2")
    assert done.returncode == 2
    assert "world_size=3" in done.stderr


def test_lost_slurmd_keeps_finished_records(cli):
    """Slurm takes the node's job down after SlurmdTimeout; the queue holds what was requeued until somebody cancels."""
    process = cli.start("+suite=faulty", "launcher=slurm_packed", "timeout_s=600", QUICK, "fault=none,hang,none",
                        "hydra.launcher.nodes=2", "+hydra.launcher.additional_parameters.no-requeue=true")  # fmt: skip
    assert wait_until(lambda: begun(cli, 1))
    os.kill(int(Path("/var/tmp/benchkit-slurm/slurmd.bk2.pid").read_text()), signal.SIGKILL)
    try:
        process.communicate(timeout=PATIENCE_S)
    finally:
        subprocess.run(["slurmd", "-N", "bk2"], check=True)
        assert wait_until(lambda: sinfo() == "2")
    assert process.returncode == 1
    ended = statuses(cli)
    assert ended[0] == "ok"
    assert ended[1] in ("crash", "cancelled")
    assert set(ended) <= set(FINAL)
    assert wait_until(lambda: not cli.processes())


def sinfo() -> str:
    done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_resume_replaces_cancelled_packed_job(cli):
    process = cli.start(*SLURM, "launcher=slurm_packed", "-m", "fault=none,none,hang,none", "seed=1,2", "timeout_s=20")
    assert wait_until(lambda: begun(cli, 4))
    first = job_of(cli)
    scancel(first)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert statuses(cli)[:5] == ["ok", "ok", "ok", "ok", "cancelled"]
    done = cli("--resume", "outputs/latest")
    assert done.returncode == 1  # the two that hang
    assert statuses(cli) == ["ok", "ok", "ok", "ok", "timeout", "timeout", "ok", "ok"]
    assert [record["attempt"] for record in cli.records()] == [1] * 4 + [2] * 4
    assert job_of(cli) != first


def test_resume_follows_running_jobs(cli):
    process = cli.start(*SLURM, "-m", "fault=none,hang", "timeout_s=25")
    assert wait_until(lambda: begun(cli, 1))
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    job = job_of(cli)
    done = cli("--resume", "outputs/latest")
    assert done.returncode == 1, done.stdout + done.stderr
    assert statuses(cli) == ["ok", "timeout"]
    assert [record["attempt"] for record in cli.records()] == [1, 1]
    assert job_of(cli) == job

"""What `python -m benchkit status` says of a sweep."""

import json
import os

import pytest
from benchkit.errors import ConfigError
from benchkit.point.claim import FILE_NAME, this_process
from benchkit.record.naming import UNPRINTABLE
from benchkit.sweep import manifest, status
from benchkit.sweep.entries import Entry
from benchkit.sweep.manifest import Manifest, Submitted

from tests.support.records import make_record


@pytest.fixture
def sweep(tmp_path):
    """Four points: one ok, one timed out, one running, one not begun."""
    names = ["0", "1", "2", "3"]
    Manifest([], {}, [Entry(f"k{name}", 0, name, [f"seed={name}"]) for name in names]).write(tmp_path)
    for name, how in zip(names, ("ok", "timeout", "running"), strict=False):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(json.dumps(make_record(status=how)))
    return tmp_path


def lines_of(capsys, sweep, code):
    assert status.main([str(sweep)]) == code
    return capsys.readouterr().out.splitlines()


def test_status_of_abandoned_sweep(sweep, capsys):
    head, rest, failed = lines_of(capsys, sweep, 1)
    assert head == f"{sweep}: 2 of 4 points have ended (1 ok, 1 timeout, 1 running)"
    assert rest == f"no process works on it; `python -m benchkit --resume {sweep}` measures the rest"
    assert failed == "timeout: point 1 (seed=1): it went timeout"


def test_status_of_running_sweep(sweep, capsys):
    owner = this_process()
    (sweep / FILE_NAME).write_text(json.dumps({"host": owner.host, "boot_id": owner.boot_id, "pid": os.getpid()}))
    (sweep / "progress.json").write_text('{"seconds_left": 90}')
    _, work, running, _ = lines_of(capsys, sweep, 1)
    assert work.startswith(f"process {os.getpid()} on {owner.host} works on it; about 0:01:30 left, until ")
    assert running.startswith("running: point 2 (seed=2), since 2026-01-01")


def test_unreadable_progress_is_left_out(sweep, capsys):
    owner = this_process()
    (sweep / FILE_NAME).write_text(json.dumps({"host": owner.host, "boot_id": owner.boot_id, "pid": os.getpid()}))
    (sweep / "progress.json").write_text('{"seconds_left": null}')
    assert lines_of(capsys, sweep, 1)[1] == f"process {os.getpid()} on {owner.host} works on it"


def test_status_of_finished_sweep(sweep, capsys):
    for name in "123":
        (sweep / name).mkdir(exist_ok=True)
        (sweep / name / "record.json").write_text(json.dumps(make_record()))
    assert lines_of(capsys, sweep, 0) == [f"{sweep}: 4 of 4 points have ended (4 ok)"]


@pytest.fixture
def squeue(tmp_path, monkeypatch, sweep):
    """What squeue answers about the jobs that the sweep was submitted as."""
    path = tmp_path / "bin" / "squeue"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", str(path.parent), prepend=os.pathsep)
    left = manifest.read(sweep)
    left.jobs = [Submitted(f"7_{number}", "job.log", [str(number)]) for number in range(4)]
    left.write(sweep)

    def answers(text):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return answers


def test_status_asks_queue_for_submitted_jobs(sweep, squeue, capsys):
    squeue("echo '7_0|COMPLETED|None|\n7_1|FAILED|None|\n7_2|RUNNING|None|n1\n7_3|PENDING|Priority|'")
    _, jobs, rest, running, _ = lines_of(capsys, sweep, 1)
    assert jobs == "Slurm job 7: 1 running, 1 pending (Priority)"
    assert rest == f"`python -m benchkit --resume {sweep}` waits for it again"
    assert running.startswith("running: point 2 (seed=2), since ")


def test_status_with_all_jobs_ended(sweep, squeue, capsys):
    squeue("echo 'Invalid job id' >&2; exit 1")
    assert lines_of(capsys, sweep, 1)[1].startswith("no process works on it; ")


def test_status_where_slurm_is_silent(sweep, squeue, capsys):
    squeue("echo 'Unable to contact' >&2; exit 1")
    assert lines_of(capsys, sweep, 1)[1] == "Slurm job 7: Slurm does not answer here"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["none"], "status none: no such folder"), (["a", "b"], "allowed is one folder"), (["--all"], "allowed is one")],
)
def test_status_refuses_other_arguments(arguments, said):
    with pytest.raises(ConfigError, match=said):
        status.main(arguments)


def test_status_of_a_strangers_folder(sweep, tmp_path, capsys):
    """Nothing in it is waited for, and nothing that it says steers the terminal."""
    evil = "\x1b[2J\x9b\u202e\nnext"
    points = [Entry("k", 0, name, [f"seed={name}{evil}"]) for name in "0123"]
    Manifest([], {}, points).write(sweep)
    record = make_record(status="crash") | {"error": {"message": evil}, "started_at": evil}
    (sweep / "1" / "record.json").write_text(json.dumps(record))
    (sweep / "2" / "record.json").unlink()
    os.mkfifo(sweep / "2" / "record.json")
    (sweep / "3").mkdir()
    (sweep / "3" / "record.json").symlink_to("/dev/zero")
    os.mkfifo(sweep / FILE_NAME)
    os.mkfifo(sweep / "progress.json")
    lines = lines_of(capsys, sweep, 1)
    assert len(lines) == 3
    assert not UNPRINTABLE.search("".join(lines))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_manifest_that_is_no_file_is_refused(sweep, make):
    (sweep / "sweep.json").unlink()
    make(sweep / "sweep.json")
    with pytest.raises(ConfigError, match=r"sweep\.json: "):
        status.main([str(sweep)])

"""What `python -m benchkit status` says of a sweep."""

import json
import os

import pytest
from benchkit.point.point_folder import FILE_NAME, this_process
from benchkit.record.naming import UNPRINTABLE

from tests.support.records import make_record, write_plan


@pytest.fixture
def sweep(tmp_path):
    """Four points: one ok, one timed out, one running, one not begun."""
    names = ["0", "1", "2", "3"]
    write_plan(tmp_path, names)
    for name, how in zip(names, ("ok", "timeout", "running"), strict=False):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(json.dumps(make_record(status=how)))
    return tmp_path


def claim(sweep, progress):
    """This process works on the sweep, and has left word of its progress."""
    owner = this_process()
    (sweep / FILE_NAME).write_text(json.dumps({"host": owner.host, "boot_id": owner.boot_id, "pid": os.getpid()}))
    (sweep / "progress.json").write_text(progress)


def test_status_tells_who_works_and_what_failed(sweep, told, golden):
    before = told("status", str(sweep))
    claim(sweep, '{"seconds_left": 90}')
    during = told("status", str(sweep))
    claim(sweep, '{"seconds_left": null}')
    unreadable = told("status", str(sweep))
    assert [code for code, _, _ in (before, during, unreadable)] == [1] * 3
    golden("\n".join(out for _, out, _ in (before, during, unreadable)))


def test_status_of_finished_sweep(sweep, told):
    for name in "123":
        (sweep / name).mkdir(exist_ok=True)
        (sweep / name / "record.json").write_text(json.dumps(make_record()))
    code, out, _ = told("status", str(sweep))
    assert (code, out.count("\n"), "4 of 4" in out) == (0, 1, True)


def test_status_of_a_study_is_that_of_its_sweeps(tmp_path, told):
    (tmp_path / "study.json").write_text("{}")
    code, out, err = told("status", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    for number, (step, how) in enumerate([("second", "ok"), ("first", "timeout")]):
        (tmp_path / step / "0").mkdir(parents=True)
        write_plan(tmp_path / step, ["0"])
        (tmp_path / step / "0" / "record.json").write_text(json.dumps(make_record(status=how)))
        os.utime(tmp_path / step / "sweep.json", (9 - number, 9 - number))
    code, out, err = told("status", str(tmp_path))
    lines = [line for line in out.splitlines() if line.startswith(str(tmp_path))]
    assert (code, err, [line.count("1 of 1") for line in lines]) == (1, "", [1, 1])
    assert lines[0].startswith(str(tmp_path / "first"))


@pytest.fixture
def squeue(tmp_path, monkeypatch, sweep):
    """What squeue answers about the jobs that the sweep was submitted as."""
    path = tmp_path / "bin" / "squeue"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", str(path.parent), prepend=os.pathsep)
    jobs = [{"job_id": f"7_{number}", "output": "job.log", "folders": [str(number)]} for number in range(4)]
    left = json.loads((sweep / "sweep.json").read_text())
    (sweep / "sweep.json").write_text(json.dumps(left | {"jobs": jobs}))

    def answers(text):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return answers


def test_status_asks_queue_for_submitted_jobs(sweep, squeue, told, golden):
    texts = []
    for answer in (
        "echo '7_0|COMPLETED|None|\n7_1|FAILED|None|\n7_2|RUNNING|None|n1\n7_3|PENDING|Priority|'",
        "echo 'Invalid job id' >&2; exit 1",
        "echo 'Unable to contact' >&2; exit 1",
    ):
        squeue(answer)
        code, out, _ = told("status", str(sweep))
        assert code == 1
        texts.append(out)
    golden("\n".join(texts))


def test_status_refuses_other_arguments(told, golden):
    refused = [told("status", *words) for words in (["none"], ["a", "b"], ["--all"])]
    assert [code for code, _, _ in refused] == [2] * 3
    golden("".join(err for _, _, err in refused))


def test_status_of_a_strangers_folder(sweep, told):
    """Nothing in it is waited for, and nothing that it says steers the terminal."""
    evil = "\x1b[2J\x9b\u202e\nnext"
    write_plan(sweep, [f"{name}{evil}" for name in "0123"])
    record = make_record(status="crash") | {"error": {"message": evil}, "started_at": evil}
    (sweep / "1" / "record.json").write_text(json.dumps(record))
    (sweep / "2" / "record.json").unlink()
    os.mkfifo(sweep / "2" / "record.json")
    (sweep / "3").mkdir()
    (sweep / "3" / "record.json").symlink_to("/dev/zero")
    os.mkfifo(sweep / FILE_NAME)
    os.mkfifo(sweep / "progress.json")
    code, out, _ = told("status", str(sweep))
    assert (code, len(out.splitlines())) == (1, 3)
    assert not UNPRINTABLE.search("".join(out.splitlines()))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_manifest_that_is_no_file_is_refused(sweep, told, make):
    (sweep / "sweep.json").unlink()
    make(sweep / "sweep.json")
    code, _, err = told("status", str(sweep))
    assert (code, "sweep.json: " in err) == (2, True)

"""Which points of a sweep are still to be measured, and who may measure them."""

import contextlib
import errno
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from benchkit.errors import ConfigError
from benchkit.point import point_folder
from benchkit.point.point_folder import Owner, claim_folder, this_process
from benchkit.record import files
from benchkit.record.naming import without_settings
from benchkit.sweep import agenda, manifest, resume
from benchkit.sweep.manifest import Manifest, PointEntry
from benchkit.sweep.tally import Tally
from launch import trust
from launch.agents.messages import SweepEnds

from tests.support.cli import ROOT
from tests.support.records import as_record, make_record


def store(folder, status, **config):
    folder.mkdir(parents=True, exist_ok=True)
    made = make_record(status=status)
    files.write(as_record(made | {"config": made["config"] | config}), folder)


@pytest.mark.parametrize(
    ("status", "open_under"),
    [
        ("ok", []),
        ("skipped", ["all"]),
        ("invalid", ["failed", "all"]),
        ("crash", ["failed", "all"]),
        ("interrupted", ["none", "failed", "all"]),
        ("running", ["none", "failed", "all"]),
    ],
)
def test_retry_selects_open_statuses(tmp_path, status, open_under):
    store(tmp_path, status)
    assert [retry for retry in resume.RETRY if not resume.settled_status(tmp_path, retry)] == open_under
    (tmp_path / files.FILE_NAME).write_text("{half")
    assert resume.settled_status(tmp_path) == ""


def test_set_aside_overwrites_no_attempt(tmp_path):
    assert point_folder.archive_attempt(tmp_path) == 1
    for attempt in (1, 2):
        store(tmp_path, f"error {attempt}")
        (tmp_path / "rank_0.log").write_text(f"log {attempt}")
        (tmp_path / "trace_rank_0.json.gz").write_text("trace")
        assert point_folder.archive_attempt(tmp_path) == attempt + 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"attempt_{attempt}{suffix}" for attempt in (1, 2)
        for suffix in (".json", "_rank_0.log", "_trace_rank_0.json.gz")
    )  # fmt: skip
    assert json.loads((tmp_path / "attempt_2.json").read_text())["status"] == "error 2"
    assert (tmp_path / "attempt_1_rank_0.log").read_text() == "log 1"
    (tmp_path / "attempt_7.json").write_text("{}")
    store(tmp_path, "error")
    assert point_folder.archive_attempt(tmp_path) == 9
    assert (tmp_path / "attempt_7.json").read_text() == "{}"


def test_flags_become_sweeper_settings(tmp_path):
    odd = tmp_path / "it's, odd=1"
    odd.mkdir()
    given = ["+suite=x", "-m", "a=1,2"]
    told = resume.parse([*given[:1], "--resume", str(odd), "-m", "--retry=failed", *given[2:]])
    quoted = "'" + str(odd).replace("'", "\\'") + "'"
    assert told == [
        *given, f"hydra.sweeper.resume={quoted}", f"hydra.sweep.dir={quoted}", "hydra.sweeper.retry=failed",
        "hydra.sweeper.force=false",
    ]  # fmt: skip
    assert without_settings(told) == resume.parse(given) == given
    Manifest(given, {}, []).write(tmp_path)
    assert resume.parse(["--resume", str(tmp_path), "--force"])[:3] == given  # those that are stored


@pytest.mark.parametrize(
    "arguments",
    [
        "--resume nowhere", "--retry failed +suite=x", "--force", "--resume . --retry some", "--resume .", "--resume",
        "suite=\x1b[2J",
    ],
)  # fmt: skip
def test_invalid_flags_are_refused(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        resume.parse(arguments.split())
    assert resume.parse(["on_end=a\nb"]) == ["on_end=a\nb"]


def test_repeated_configuration_is_two_points():
    twice = manifest.entries(["k", "l", "k"], ["0", "1", "2"], [[], [], []])
    assert [entry.identity for entry in twice] == [("k", 0), ("l", 0), ("k", 1)]


def test_merged_keeps_folders_of_points():
    before = manifest.entries(["a", "b"], ["0", "1"], [["a"], ["b"]])
    now = manifest.entries(["c", "b", "a", "b"], ["0", "1", "2", "3"], [["c"], ["b"], ["a"], ["b"]])
    assert [(each.key, each.folder) for each in manifest.merge_entries(before, now)] == [
        ("c", "2"), ("b", "1"), ("a", "0"), ("b", "3"),
    ]  # fmt: skip


def test_manifest_is_rebuilt_from_records(tmp_path):
    for number, seed in (("10", 1), ("2", 1), ("1", 0)):
        store(tmp_path / number, "ok", seed=seed, timeout_s=5)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / files.FILE_NAME).write_text("{half")
    found = manifest.read(tmp_path)
    again = manifest.key_of(make_record()["config"] | {"seed": 1, "timeout_s": 600})
    assert [(each.folder, each.occurrence) for each in found.points] == [("1", 0), ("2", 0), ("10", 1)]
    assert found.points[1].key == found.points[2].key == again


EMPTY = '{"version": 1, "made_with": {}, "points": [], "jobs": [], "arguments": '


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"version": 2}', '{"version": 1, "points": [{}]}', '{"version": 1}', EMPTY + "[1]}"],
)
def test_invalid_manifest_is_refused(tmp_path, text):
    (tmp_path / manifest.FILE_NAME).write_text(text)
    with pytest.raises(ConfigError, match=manifest.FILE_NAME):
        manifest.read(tmp_path)


HOLDER = """
import sys, time
from pathlib import Path
from benchkit.point.point_folder import claim_folder
with claim_folder(Path(sys.argv[1])):
    print("holds", flush=True)
    time.sleep(60)
"""


def test_claim_lasts_until_owner_ends(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "holds\n"
        with (
            pytest.raises(ConfigError, match=f"process {other.pid} on "),
            claim_folder(tmp_path, anywhere=True),
        ):
            pass
        other.kill()
    assert (tmp_path / point_folder.FILE_NAME).exists()
    with claim_folder(tmp_path):
        assert point_folder.owner_of(tmp_path / point_folder.FILE_NAME) == this_process()
    assert not (tmp_path / point_folder.FILE_NAME).exists()


def test_claim_on_other_host_is_respected(tmp_path):
    there = Owner("n7", "another", os.getpid())
    (tmp_path / point_folder.FILE_NAME).write_text(json.dumps(asdict(there)))
    with pytest.raises(ConfigError, match=r"process \d+ on n7 "), claim_folder(tmp_path):
        pass
    with claim_folder(tmp_path, anywhere=True):
        assert point_folder.owner_of(tmp_path / point_folder.FILE_NAME) == this_process()


def test_claim_of_ended_container_is_taken_over_with_a_word(tmp_path, caplog):
    container = Owner("a-name-before-the-restart", this_process().boot_id, 1)
    (tmp_path / point_folder.FILE_NAME).write_text(json.dumps(asdict(container)))
    with claim_folder(tmp_path):
        assert point_folder.owner_of(tmp_path / point_folder.FILE_NAME) == this_process()
    assert [each.levelname for each in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("lock", ["free", "held", "none"])
@pytest.mark.parametrize("kind", ["ext4", "fuse.juicefs"])
@pytest.mark.parametrize("is_same_kernel", [True, False])
@pytest.mark.parametrize("anywhere", [True, False])
def test_owner_of_another_name_may_be_alive(tmp_path, monkeypatch, lock, kind, is_same_kernel, anywhere):
    """Each mount of FUSE has locks of its own: a free one does not tell of another container's."""
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mounts"
    mounts.write_text(f"3 2 {os.major(device)}:{os.minor(device)} / / rw,noatime - {kind} x rw\n")
    monkeypatch.setattr(trust, "MOUNTS", mounts)
    boot_id = this_process().boot_id if is_same_kernel else "another"
    path = tmp_path / point_folder.FILE_NAME
    is_taken_over = {
        "free": anywhere or (is_same_kernel and kind == "ext4"), "held": False,
        "none": anywhere and not is_same_kernel,
    }[lock]  # fmt: skip
    if lock == "none":
        without_locks(monkeypatch)
    with contextlib.ExitStack() as held:
        if lock == "held":
            held.enter_context(claim_folder(tmp_path))
        path.write_text(json.dumps(asdict(Owner("n7", boot_id, 1))))
        if is_taken_over:
            held.enter_context(claim_folder(tmp_path, anywhere=anywhere))
        else:
            with pytest.raises(ConfigError) as refused, claim_folder(tmp_path, anywhere=anywhere):
                pass
            assert f"remove {path}" in str(refused.value)


def without_locks(monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(point_folder.fcntl, "flock", no_locks)


def test_claim_before_reboot_is_stale(tmp_path):
    me = this_process()
    (tmp_path / point_folder.FILE_NAME).write_text(json.dumps(asdict(Owner(me.host, "an earlier start", 1))))
    with claim_folder(tmp_path):
        pass


def test_claim_is_private_and_no_symlink(tmp_path):
    with claim_folder(tmp_path):
        assert (tmp_path / point_folder.FILE_NAME).stat().st_mode & 0o777 == 0o600
    (tmp_path / point_folder.FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="a link"), claim_folder(tmp_path):
        pass


def test_claim_works_without_locks(tmp_path, monkeypatch):
    without_locks(monkeypatch)
    with claim_folder(tmp_path), pytest.raises(ConfigError), claim_folder(tmp_path):
        pass
    me = this_process()
    (tmp_path / point_folder.FILE_NAME).write_text(json.dumps(asdict(Owner(me.host, me.boot_id, 2**22 + 1))))
    with claim_folder(tmp_path):
        pass


@pytest.mark.parametrize("folder", ["../x", "/tmp/x", "a/../../x"])
def test_folder_outside_sweep_is_refused(tmp_path, folder):
    entry = PointEntry("k", 0, folder, [])
    with pytest.raises(ConfigError, match=r"hydra\.sweep\.dir"):
        manifest.require_folders_of_their_own([entry])
    Manifest([], {}, [entry]).write(tmp_path)
    with pytest.raises(ConfigError, match="folder"):
        manifest.read(tmp_path)


def test_writable_manifest_is_refused(tmp_path):
    Manifest(["on_end=anything"], {}, []).write(tmp_path)
    (tmp_path / manifest.FILE_NAME).chmod(0o666)
    with pytest.raises(ConfigError):
        manifest.read(tmp_path)


def test_tally_ignores_interrupted_points(tmp_path):
    tally = Tally(tmp_path, ["ok"], [1.0] * 4, max_failures=2)
    for status in ("cancelled", "preempted", "error"):
        tally.add(status)
    assert tally.num_left == 3
    with pytest.raises(SweepEnds):
        tally.add("crash")


def test_differences_name_changed_software():
    found = resume.differences(
        {"torch": "2.12", "commit": "a", "old": "x"}, {"torch": "2.13", "commit": "a", "new": "y"}
    )
    assert found == {"torch": ["2.12", "2.13"]}


@pytest.mark.parametrize("name", ["0", "0/rank_0.log", "0/alone_0/rank_1.log", "benchkit.log"])
@pytest.mark.parametrize(
    ("make", "asked"),
    [(os.mkfifo, None), (lambda path: path.symlink_to("/nowhere"), None), (os.mkfifo, resume.Resume(Path("sweep")))],
)
def test_folder_with_a_link_where_a_sweep_writes_is_refused(tmp_path, name, make, asked):
    folder = tmp_path / "sweep"
    wanted = Manifest(["a=1"], {}, [PointEntry("k", 0, "0", ["a=1"])])
    (folder / name).parent.mkdir(parents=True)
    if asked:
        wanted.write(folder)
    make(folder / name)
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    with contextlib.ExitStack() as held, pytest.raises(ConfigError):
        agenda.prepare_agenda(folder, wanted, [2], asked, held)
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before


def test_older_manifest_with_secrets_is_resumed_and_written_without(tmp_path):
    words = ["+suite=allreduce", "+backend.env.A_TOKEN=hunter2", "hydra.sweep.dir=runs/key=3"]
    Manifest(words, {}, [PointEntry(key, 0, key, words) for key in ("0", "1")]).write(tmp_path)
    for again in ([], words[1:2]):
        assert resume.parse(["--resume", str(tmp_path), *again])[:2] == words[:2]
    assert not [word for word in resume.parse(["--resume", str(tmp_path)]) if "runs" in word]
    wanted = Manifest([], {}, [PointEntry("0", 0, "0", [*words[:1], "+backend.env.A_TOKEN=…"])])
    with contextlib.ExitStack() as held:
        agenda.prepare_agenda(tmp_path, wanted, [2], resume.Resume(tmp_path), held)
    assert "hunter2" not in (tmp_path / manifest.FILE_NAME).read_text()
    assert [entry.folder for entry in manifest.read(tmp_path).points] == ["0", "1"]
    assert resume.parse(["--resume", str(tmp_path), words[1]])[:2] == words[:2]

"""A disk that fills up, or becomes read-only, in the middle of a sweep."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cli import PATIENCE_S, Cli, wait_until

SWEEP = ("+suite=faulty", "-m", "fault=none", "seed=range(40)", "measure=fixed", "measure.max_iterations=50")
SIZE_MB = 40


@pytest.fixture
def disk(cli):
    """A small file system of its own at outputs/."""
    place = cli.folder / "outputs"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", place], check=False)
    if made.returncode:
        pytest.skip("a file system of its own needs root")
    yield place
    for pid in cli.processes():
        os.kill(pid, 9)
    while place.is_mount():  # one may lie over the other
        subprocess.run(["umount", "--lazy", place], check=True)


def recorded(cli: Cli) -> list[str]:
    return [record["status"] for record in cli.records()]


def fill(disk, left_mb: float) -> None:
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with suppress(OSError):  # the sweep writes meanwhile
        (disk / "filler").write_bytes(b"x" * int(free - left_mb * 2**20))


def test_sweep_resumes_after_full_disk(cli, disk):
    process = cli.start(*SWEEP)
    assert wait_until(lambda: recorded(cli).count("ok") >= 2)
    fill(disk, left_mb=0)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert (err.count("\n"), "Traceback" in out + err, "--resume outputs/" in out) == (1, False, True), err
    assert recorded(cli).count("ok") >= 2
    (disk / "filler").unlink()
    done = cli("--resume", "outputs/latest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert recorded(cli) == ["ok"] * 40


def test_sweep_checks_free_disk_space(cli, disk, golden):
    fill(disk, left_mb=10)
    done = cli(*SWEEP)
    assert done.returncode == 1
    golden(done.stderr, {r"[\d.]+ MiB of": "N MiB of"})
    assert recorded(cli) == []


@pytest.fixture
def read_only(disk, tmp_path):
    """The same file system, read-only, to lay over outputs/: a mount where files are open for writing cannot change."""
    view = tmp_path / "view"
    view.mkdir()
    for command in (["--bind", disk, view], ["-o", "remount,ro,bind", view]):
        subprocess.run(["mount", *command], check=True)
    yield view
    subprocess.run(["umount", "--lazy", view], check=True)


def test_sweep_resumes_after_read_only_disk(cli, disk, read_only):
    process = cli.start(*SWEEP)
    assert wait_until(lambda: recorded(cli).count("ok") >= 2)
    subprocess.run(["mount", "--bind", read_only, disk], check=True)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert err.count("\n") == 1, err
    subprocess.run(["umount", disk], check=True)
    if kept := err.partition("it is in ")[2].split(";")[0].strip():
        assert json.loads(Path(kept).read_text())["status"] in ("ok", "running")  # the end of a point, or its begin
    assert cli("--resume", "outputs/latest").returncode == 0
    assert recorded(cli) == ["ok"] * 40

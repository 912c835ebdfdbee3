"""Figures that the user's cache keeps: a table is the same with them and without, whatever happened to either."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from analysis.records import derive as cache
from analysis.records import derive as sources
from analysis.records import derive as workers
from analysis.records.derive import SOURCES, derive
from analysis.records.harvest import harvest
from analysis.table.combine import combine

from tests.support.cli import ROOT
from tests.support.records import make_record, make_rich_record, write_all

SUITES = ("collective", "auto_shard", "ring_attention", "matmul_lut", "tp_columnwise", "transformer")
NUMBER, CHANGED = 10, "7"
"""Records of the sweep, and the folder of the one that tests change."""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep of records of all kinds, which are cached though they are few."""
    monkeypatch.setattr(sources, "WORTH_BYTES", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    records = [make_rich_record(suite) for suite in SUITES] + [make_rich_record(samples=400)]
    records += [make_record(), make_record(status="crash"), make_record(3.0)]
    for number, record in enumerate(records):
        record["started_at"] = f"2026-01-01T00:00:{number:02}.000+00:00"
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "multirun.yaml").touch()
    return write_all(tmp_path / "sweep", records)


@pytest.fixture
def read(monkeypatch):
    """The paths of files whose figures are derived, in order."""
    paths = []

    def noted(path):
        paths.append(path)
        return derive(path)

    monkeypatch.setattr(workers, "derive", noted)
    return paths


def kept():
    """The files of the cache."""
    return [path for path in Path(os.environ["XDG_CACHE_HOME"]).rglob("*") if path.is_file()]


def forget():
    for path in kept():
        path.unlink()


def seen(folder, processes=1):
    """All that comes of a harvest: the tables as CSV, the environments, the remarks."""
    found = harvest([folder], processes)
    tables = [combine(found.rows).to_csv(), found.ranks.to_csv()]
    return [*tables, json.dumps(found.environments), *found.remarks()]


def change(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_table_is_same_with_cache_and_without(sweep, read):
    before = set(sweep.rglob("*"))
    first = seen(sweep)
    [path] = kept()
    assert path.parent.stat().st_mode & 0o077 == 0
    assert set(sweep.rglob("*")) == before  # the folder of records holds records alone
    assert len(read) == NUMBER
    read.clear()
    assert seen(sweep) == first
    assert read == []


def test_record_that_broke_is_named(sweep):
    seen(sweep)
    change(sweep / CHANGED / "record.json", world_size=-1)
    for _ in range(2):
        [line] = harvest([sweep]).skipped
        assert f"{CHANGED}/record.json: " in line


def test_record_whose_status_was_forged_is_read_again(sweep, read, monkeypatch):
    """Size, inode and times can be what a stranger wants; the digest of a content cannot."""
    seen(sweep)
    path = sweep / CHANGED / "record.json"
    before, real = path.lstat(), os.lstat
    path.write_text(path.read_text().replace('"gloo"', '"nccl"'))
    monkeypatch.setattr(os, "lstat", lambda place: before if str(place) == str(path) else real(place))
    read.clear()
    assert "nccl" in {row["backend"] for row in harvest([sweep]).rows}
    assert read == [str(path)]


def test_sweep_put_back_is_told_by_digests(sweep, tmp_path, read):
    first = seen(sweep)
    sweep.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", sweep, copy_function=shutil.copy)
    read.clear()
    assert seen(sweep) == first
    assert read == []


def test_damaged_cache_is_ignored(sweep, read):
    first = seen(sweep)
    [path] = kept()
    content = path.read_bytes()
    flipped = content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
    for damaged in (content[:-1], b"", b"\xff" * 500, flipped, None):
        if damaged is None:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(damaged)
        read.clear()
        assert seen(sweep) == first
        assert len(read) == NUMBER


def test_cache_of_other_code_is_ignored(sweep, read, monkeypatch):
    first = seen(sweep)
    monkeypatch.setattr(cache, "fingerprint", lambda: b"x" * 32)
    read.clear()
    assert seen(sweep) == first
    assert len(read) == NUMBER
    read.clear()
    assert seen(sweep) == first
    assert read == []


def test_file_in_a_folder_of_records_is_no_cache(sweep, read):
    """Whoever packed the folder may have put it there; unpacked it belongs to this user."""
    first = seen(sweep)
    [path] = kept()
    crafted = path.read_bytes()
    forget()
    change(sweep / CHANGED / "record.json", launched_by="torchrun")
    for name in (".analysis_cache", path.name):
        (sweep / name).write_bytes(crafted)
    read.clear()
    assert seen(sweep) != first
    assert len(read) == NUMBER


@pytest.mark.parametrize("kind", ["open", "link", "file", "absent"])
def test_cache_is_in_a_folder_of_this_user_alone_or_nowhere(sweep, tmp_path, read, monkeypatch, kind):
    folder = tmp_path / "home" / "benchkit" / "figures"
    folder.parent.mkdir(parents=True)
    if kind == "open":
        folder.mkdir()
        folder.chmod(0o770)
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        folder.touch()
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")  # of a user without a home, as in a container
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
        monkeypatch.chdir(tmp_path)
    first = seen(sweep)
    read.clear()
    assert seen(sweep) == first
    assert len(read) == NUMBER
    assert [path for path in (tmp_path / "home").rglob("*") if path not in (folder.parent, folder)] == []
    assert not (tmp_path / "~").exists()


def test_cache_has_a_limit(sweep, tmp_path, monkeypatch):
    other = write_all(tmp_path / "other", [make_record(seconds=2e-3)])
    harvest([sweep])
    [old] = kept()
    os.utime(old, (1, 1))
    monkeypatch.setattr(cache, "MOST_BYTES", old.stat().st_size)
    harvest([other])
    assert old not in kept()
    assert len(kept()) == 1


def test_few_records_have_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    harvest([write_all(tmp_path / "sweep", [make_record()])])
    assert not (tmp_path / "home").exists()


def test_cache_holds_what_was_read_last(sweep, read):
    """Of a sweep that is measured again and again it holds no more than there is."""
    seen(sweep)
    [path] = kept()
    size = path.stat().st_size
    read.clear()
    harvest([sweep / CHANGED])
    assert read == []
    assert path.stat().st_size == size
    change(sweep / CHANGED / "record.json", launched_by="torchrun")
    harvest([sweep / CHANGED])
    assert path.stat().st_size < size / 2


def test_each_sweep_has_a_cache_whatever_its_name(tmp_path, sweep, read):
    write_all(tmp_path / os.fsdecode(b"caf\xe9"), [make_record(seconds=2e-3)])
    first = seen(tmp_path)
    assert len(kept()) == 2
    read.clear()
    assert seen(tmp_path) == first
    assert read == []


def test_long_integers_are_text(tmp_path):
    record = make_record()
    record["config"]["count"] = 2**70
    [row] = harvest([write_all(tmp_path, [record])]).rows
    assert row["count"] == str(2**70)


def test_processes_find_the_same_also_where_they_fail(sweep, monkeypatch):
    monkeypatch.setattr(workers, "FEWEST_BYTES", 1)
    change(sweep / CHANGED / "record.json", world_size=-1)
    first = seen(sweep)
    for program in (sys.executable, "/bin/false", "/nonexistent"):
        forget()
        monkeypatch.setattr(sys, "executable", program)
        assert seen(sweep, processes=2) == first


def test_fingerprint_covers_all_code_that_derives():
    """A figure that a changed formula would give must not come from the cache; and processes start fast."""
    program = "import sys, analysis.records.derive\nprint(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = set(shown.stdout.split())
    assert not modules & {"pandas", "matplotlib", "torch", "hydra"}
    paths = [name.replace(".", "/") for name in modules if name.split(".")[0] in ("analysis", "benchkit", "launch")]
    covered = tuple(source.removesuffix(".py") for source in SOURCES)
    assert {path for path in paths if not path.startswith(covered)} <= {
        "analysis",
        "benchkit",
        "benchkit/api",
        "launch",
    }


def test_what_is_kept_is_of_its_maker_and_whole(sweep, tmp_path):
    name, maker = "something", bytes(32)
    cache.write_cache(name, maker, b"content")
    assert bytes(cache.read_cache_file(name, lambda: maker)) == b"content"
    assert not cache.read_cache_file(name, lambda: bytes([1]) * 32)
    [path] = kept()
    path.write_bytes(path.read_bytes()[:-1])
    assert not cache.read_cache_file(name, lambda: maker)
    assert not cache.read_cache_file("another", lambda: maker)

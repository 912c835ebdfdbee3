"""What each rank does alone: every test runs, wrong results are found, and the disk's file leaves nothing behind."""

import errno
import os
from types import SimpleNamespace

import pytest
import torch
from benchkit.errors import InvalidResult
from benchkit.suites.rank_speed import cases
from benchkit.suites.rank_speed.suite import TESTS, RankSpeedConfig

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.configs import made

SMALL = ["matmul_size=32", "memory_size=64KiB", "disk_size=4KiB", "measure=few"]


@pytest.mark.slow
def test_every_test_runs_or_says_what_is_missing(cli: Cli):
    done = cli("+suite=rank_speed", "world_size=2", "dtypes=[float32,bfloat16]", "hardware=cpu", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    found = {(case["labels"]["test"], case["labels"].get("dtype")): case for case in record["cases"]}
    assert {test for test, _ in found} == set(TESTS)
    assert [case["status"] for case in found.values()].count("unavailable") == 2
    moved = {test: case["details"].get("moved_bytes") for (test, _), case in found.items() if case["status"] == "ok"}
    assert moved == {"matmul": None, "copy": 2**17, "triad": 3 * 2**16, "disk_write": 4096, "disk_read": 4096}
    assert found["matmul", "bfloat16"]["useful_flops"] == 2 * 2 * 32**3
    assert {path.name for path in (cli.folder / "outputs" / "latest" / "0").iterdir()} == {
        "record.json", "rank_0.log", "rank_1.log",
    }  # fmt: skip


@pytest.fixture
def rank(tmp_path):
    return SimpleNamespace(
        index=1, world_size=2, seed=0, device=torch.device("cpu"), folder=tmp_path,
        memory_shortage=lambda needed, host_bytes: "",
    )  # fmt: skip


def built(test, rank):
    config = made(
        RankSpeedConfig,
        tests=[test, test],
        dtypes=["float32"],
        matmul_size=16,
        memory_size=0.01,
        disk_size=2**-8,
        minutes=5,
        measure=fakes.plan(max_seconds=1),
    )
    [case] = cases.cases_of(config, rank)
    return case


@pytest.mark.slow
def test_tests_without_time_are_skipped(cli: Cli):
    cli("+suite=rank_speed", "world_size=2", "hardware=cpu", "minutes=0.0001", *SMALL)
    [record] = cli.records()
    reasons = {case["reason"] for case in record["cases"] if case["status"] != "unavailable"}
    [reason] = reasons
    assert reason.startswith("minutes=0.0001")


@pytest.mark.parametrize("test", ["matmul", "copy", "triad", "disk_write", "disk_read"])
def test_right_result_passes_again_and_again(test, rank):
    case = built(test, rank)
    for _ in range(2):
        fakes.verify(case)
        case.reset()
        case.step()
    assert list(rank.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("test", "broken"), [("matmul", "torch.mm"), ("copy", "torch.Tensor.copy_"), ("triad", "torch.add")]
)
def test_wrong_result_is_invalid(test, broken, rank, monkeypatch):
    if test == "copy":
        case = built(test, rank)
        monkeypatch.setattr(cases.verification, "tile", lambda buffer, values: buffer.zero_())
    else:
        right = getattr(torch, broken.split(".")[1])
        monkeypatch.setattr(broken, lambda *given, **named: right(*given, **named).add_(1))
        case = built(test, rank)
    with pytest.raises(InvalidResult, match="element"):
        fakes.verify(case)


def test_disk_names_first_wrong_byte(tmp_path, monkeypatch):
    file = cases.Disk(tmp_path, "f", bytes(range(100)))
    for step, check in ((file.write, file.check_write), (file.read, file.check_read)):
        fakes.verify(SimpleNamespace(step=step, verify=check))
    right = cases.os.pwrite
    monkeypatch.setattr(cases.os, "pwrite", lambda fd, data, at: right(fd, bytes(data).replace(b"\x07", b"\x08"), at))
    with pytest.raises(InvalidResult, match="byte 4"):
        fakes.verify(SimpleNamespace(step=file.write, verify=file.check_write))


def test_file_is_closed_with_its_last_use(tmp_path):
    file = cases.Disk(tmp_path, "f", b"content")
    descriptor = file.file
    del file
    with pytest.raises(OSError, match="descriptor"):
        cases.os.fstat(descriptor)


def test_full_disk_is_unavailable(rank, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cases.os, "pwrite", full)
    assert built("disk_write", rank).unavailable == f"{rank.folder}: {os.strerror(errno.ENOSPC)}"

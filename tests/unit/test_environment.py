"""What records say of a host and of the code: versions, load, differences between agents, the commit."""

import platform
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from benchkit import environment
from benchkit.record.record import VERSIONS, AgentReport

from tests.support.configs import agent_group, config
from tests.support.entries.agents import single_agent
from tests.support.entries.point import Point, all_gather_facts, new_record, place_ranks


def test_host_and_versions_are_described():
    found, report = environment.read_environment(), environment.agent_report()
    assert (found.torch, found.cuda, found.kernel) == (torch.__version__, torch.version.cuda, platform.release())
    assert found.host
    assert found.cpu
    assert 1 <= found.available_cores <= found.cores
    assert found.available_bytes > 2**20
    assert found.git_commit is None or len(found.git_commit) == 40
    assert len(found.load_average) == len(report.load_average) == 3
    for name in ("host", "cpu", "available_cores", "gpus", *VERSIONS):
        assert getattr(report, name) == getattr(found, name)
    assert environment.static_environment() is environment.static_environment()  # of the code that began to run
    [facts] = all_gather_facts(single_agent()).values()
    assert repr(replace(facts.report, load_average=[])) == repr(replace(report, load_average=[]))


def test_nccl_is_asked_without_a_start_of_cuda(monkeypatch):
    monkeypatch.setattr(environment, "torch_build", lambda: {"__version__": "2", "cuda": None})
    assert environment.nccl_version() is None
    monkeypatch.setattr(environment, "torch_build", lambda: {"__version__": "2", "cuda": "13.0"})
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 7))
    monkeypatch.setattr(torch.cuda, "init", lambda: pytest.fail("CUDA was started"))
    assert environment.nccl_version() == "2.29.7"


def test_nccl_of_record_is_what_is_loaded(monkeypatch):
    """Not what torch was built with, which LD_LIBRARY_PATH or LD_PRELOAD may replace."""

    def say(number):
        number._obj.value = 23203
        return 0

    monkeypatch.setattr(environment, "is_built_for_gpus", lambda: True)
    monkeypatch.setattr(environment.ctypes, "CDLL", lambda name, mode: SimpleNamespace(ncclGetVersion=say))
    assert environment.nccl_version() == "2.32.3"


def test_record_warns_of_version_differences(tmp_path, golden):
    several = agent_group("n0", "n1", "n2", "n2")
    for index, version in enumerate(("2.13.0", "2.12.0", "2.13.0", "2.13.0")):
        facts = several.facts[index]
        several.facts[index] = replace(facts, report=replace(facts.report, torch=version, kernel="6.1"))
    point = Point(config(), tmp_path, [])
    record = new_record(point, place_ranks(config(), several))
    assert record.agents[1].torch == "2.12.0"
    assert new_record(point, point.provisional_placement()).warnings == []
    lacking = [AgentReport(host="n0", cuda="13.0"), AgentReport(host="n1")]
    golden("\n".join([*record.warnings, *environment.version_differences(lacking)]))


def test_record_warns_of_bound_agents(tmp_path):
    bound = agent_group("n0", cores=[[0]], cpuset=[0, 1])
    record = new_record(Point(config(), tmp_path, []), place_ranks(config(), bound))
    assert len(record.warnings) == 1


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one commit, which checkout.py takes for its own."""
    file = tmp_path / "checkout.py"
    file.write_bytes(b"a = 1\n")
    commands = (["init", "-q"], ["add", "checkout.py"], ["commit", "-qm", "Begin"])
    for command in commands:
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", "-C", tmp_path, *who, *command], check=True)
    monkeypatch.setattr(environment, "__file__", str(file))
    return file


def test_dirty_checkout_has_diff_hash(checkout):
    clean = environment.checkout.__wrapped__()
    assert len(clean["git_commit"]) == 40
    assert (clean["git_dirty"], clean["git_diff_hash"]) == (False, None)
    hashes = set()
    for text in (b"a = 2\n", b"a = 3\n", b"a = '\xff'\n"):  # the last is no UTF-8
        checkout.write_bytes(text)
        changed = environment.checkout.__wrapped__()
        assert changed["git_dirty"]
        assert len(changed["git_diff_hash"]) == 12
        hashes.add(changed["git_diff_hash"])
    assert len(hashes) == 3


def test_installed_package_has_no_commit(checkout, monkeypatch):
    monkeypatch.setattr(environment, "__file__", str(checkout.with_name("installed.py")))
    assert set(environment.checkout.__wrapped__().values()) == {None}

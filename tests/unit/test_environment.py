import platform
from dataclasses import replace

import pytest
import torch
from benchkit import checkout, environment
from benchkit.point import recording
from benchkit.point.forming import gather_facts
from benchkit.point.placement import place_ranks
from benchkit.point.point import Point
from benchkit.record.environment import VERSIONS, AgentReport
from launch.agents.group import alone

from tests.support.configs import agent_group, config


def test_describe_reports_host_and_versions():
    found = environment.describe()
    assert found.torch == torch.__version__
    assert found.host
    assert found.cpu
    assert 1 <= found.available_cores <= found.cores
    assert len(found.load_average) == 3
    assert found.available_bytes > 2**20
    assert found.git_commit is None or len(found.git_commit) == 40


def test_environment_reports_kernel_and_nccl(monkeypatch):
    monkeypatch.setattr(environment, "torch_build", lambda: {"__version__": "2", "cuda": None})
    assert environment.nccl_version() is None
    monkeypatch.setattr(environment, "torch_build", lambda: {"__version__": "2", "cuda": "13.0"})
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 7))
    monkeypatch.setattr(torch.cuda, "init", lambda: pytest.fail("CUDA was started"))
    assert environment.nccl_version() == "2.29.7"
    assert environment.static_environment().kernel == platform.release()


def test_torch_build_is_read_without_import():
    assert environment.torch_build()["__version__"] == torch.__version__
    assert environment.torch_build()["cuda"] == torch.version.cuda


def test_git_and_nvidia_smi_run_once_per_process(monkeypatch):
    calls = []
    monkeypatch.setattr(checkout, "output", lambda *command: calls.append(command) or "")
    monkeypatch.setattr(environment.smi, "answer", lambda *command, **_: calls.append(("nvidia-smi", *command)) or "")
    cached = (environment.static_environment, checkout.checkout)
    for each in cached:
        each.cache_clear()
    try:
        for _ in range(3):
            environment.describe()
            environment.of_agent()
    finally:
        for each in cached:
            each.cache_clear()
    assert len({command[0] for command in calls}) == 2
    assert len(set(calls)) == len(calls)


def test_agent_reports_own_environment():
    report, here = environment.of_agent(), environment.describe()
    assert report.torch == torch.__version__
    assert len(report.load_average) == 3
    for name in ("host", "cpu", "available_cores", "gpus", *VERSIONS):
        assert getattr(report, name) == getattr(here, name)


def test_agents_learn_what_each_found():
    [facts] = gather_facts(alone()).values()
    assert repr(replace(facts.report, load_average=[])) == repr(replace(environment.of_agent(), load_average=[]))


def test_record_warns_of_version_differences(tmp_path):
    two = agent_group("n0", "n1", "n2", "n2")
    for index, version in enumerate(("2.13.0", "2.12.0", "2.13.0", "2.13.0")):
        facts = two.facts[index]
        two.facts[index] = replace(facts, report=replace(facts.report, torch=version, kernel="6.1"))
    point = Point(config(), tmp_path, [])
    record = recording.new_record(point, place_ranks(config(), two))
    assert record.warnings == ["n0, n2 have torch 2.13.0, n1 has 2.12.0"]
    assert record.agents[1].torch == "2.12.0"
    assert recording.new_record(point, point.unplaced()).warnings == []


def test_record_warns_of_bound_agents(tmp_path):
    bound = agent_group("n0", cores=[[0]], cpuset=[0, 1])
    record = recording.new_record(Point(config(), tmp_path, []), place_ranks(config(), bound))
    assert len(record.warnings) == 1


def test_missing_version_counts_as_difference():
    hosts = [AgentReport(host="n0", cuda="13.0"), AgentReport(host="n1")]
    assert environment.version_differences(hosts) == ["n0 has cuda 13.0, n1 has none"]

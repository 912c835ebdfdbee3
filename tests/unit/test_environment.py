import platform

import pytest
import torch
from benchkit import checkout, environment
from benchkit.api import memory
from benchkit.point import recording
from benchkit.point.placement import place_ranks
from benchkit.point.point import Point
from launch import topology

from tests.support.configs import agent_group, config


def test_it_tells_what_a_reader_needs():
    told = environment.describe()
    assert told["torch"] == torch.__version__
    assert told["host"]
    assert told["cpu"]
    assert 1 <= told["available_cores"] <= told["cores"]
    assert len(told["load_average"]) == 3
    assert told["available_bytes"] > 2**20
    assert told["git_commit"] is None or len(told["git_commit"]) == 40


def test_gpus_are_read_from_nvidia_smi(monkeypatch):
    line = "NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15, 700.00 W, 1980 MHz, GPU-1"
    monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(environment, "output", lambda *command: line + "\n" + line)
    gpus = environment.gpus()
    assert len(gpus) == 2
    assert gpus[0]["name"] == "NVIDIA H100 80GB HBM3"
    assert gpus[0]["clocks.max.sm"] == "1980 MHz"


@pytest.mark.parametrize(
    ("chosen", "visible"),
    [(None, ["GPU-a", "GPU-b", "GPU-c"]), ("2,0", ["GPU-c", "GPU-a"]), ("GPU-b", ["GPU-b"]), ("", ["GPU-a", "GPU-b"])],
)
def test_visible_gpus_have_names_that_two_processes_share(monkeypatch, chosen, visible):
    there = [{"uuid": f"GPU-{letter}"} for letter in "abc"]
    monkeypatch.setattr(environment, "static_environment", lambda: {"gpus": there})
    monkeypatch.setattr(environment, "num_usable_gpus", lambda: len(visible))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert environment.visible_gpus() == visible


def test_without_nvidia_smi_gpus_are_numbers(monkeypatch):
    monkeypatch.setattr(environment, "static_environment", lambda: {"gpus": []})
    monkeypatch.setattr(environment, "num_usable_gpus", lambda: 2)
    assert environment.visible_gpus() == ["0", "1"]


def fake_files(monkeypatch, module, files):
    monkeypatch.setattr(module, "read_text", lambda path: files.get(path, ""))


def test_memory_is_cut_to_the_cgroup(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB",
        "/sys/fs/cgroup/memory.max": "3000000000",
        "/sys/fs/cgroup/memory.current": "1000000000",
    }
    fake_files(monkeypatch, memory, files)
    assert memory.available_bytes(torch.device("cpu")) == 2_000_000_000
    fake_files(monkeypatch, memory, files | {"/sys/fs/cgroup/memory.max": "max"})
    assert memory.available_bytes(torch.device("cpu")) == 8_000_000 * 1024


def test_cores_are_cut_to_the_quota(monkeypatch):
    monkeypatch.setattr(topology.os, "sched_getaffinity", lambda pid: set(range(16)))
    fake_files(monkeypatch, topology, {"/sys/fs/cgroup/cpu.max": "350000 100000"})
    assert topology.cpu_quota() == 3.5
    assert topology.available_cores() == 3
    fake_files(monkeypatch, topology, {"/sys/fs/cgroup/cpu.max": "max 100000"})
    assert topology.available_cores() == 16
    v1 = {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}
    fake_files(monkeypatch, topology, v1)
    assert topology.available_cores() == 1


def test_kernel_and_nccl_are_told_and_a_cpu_build_has_no_nccl(monkeypatch):
    monkeypatch.setattr(environment, "torch_build", lambda: {"__version__": "2", "cuda": None})
    assert environment.nccl_version() is None
    monkeypatch.setattr(environment, "torch_build", lambda: {"__version__": "2", "cuda": "13.0"})
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 7))
    monkeypatch.setattr(torch.cuda, "init", lambda: pytest.fail("CUDA was started"))
    assert environment.nccl_version() == "2.29.7"
    assert environment.static_environment()["kernel"] == platform.release()


def test_the_build_of_torch_is_read_without_importing_it(monkeypatch):
    assert environment.torch_build()["__version__"] == torch.__version__
    assert environment.torch_build()["cuda"] == torch.version.cuda
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for build, usable in (({"cuda": None}, 0), ({"cuda": None, "hip": "7.0"}, 3), ({"cuda": "13.0"}, 3)):
        monkeypatch.setattr(environment, "torch_build", lambda build=build: build)
        assert environment.num_usable_gpus() == usable


def test_git_and_nvidia_smi_are_called_once_per_process(monkeypatch):
    calls = []
    for module in (environment, checkout):
        monkeypatch.setattr(module, "output", lambda *command: calls.append(command) or "")
    monkeypatch.setattr(environment.shutil, "which", lambda name: name)
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


def test_every_agent_tells_of_its_own_environment():
    told = environment.of_agent()
    assert set(told) == {*environment.OF_AGENT, "load_average"}
    assert told["torch"] == torch.__version__
    assert len(told["load_average"]) == 3


def test_hosts_with_different_software_are_named_in_a_warning(tmp_path):
    two = agent_group("n0", "n1", "n2", "n2")
    for index, version in enumerate(("2.13.0", "2.12.0", "2.13.0", "2.13.0")):
        two.facts[index] |= {"torch": version, "nccl": None, "kernel": "6.1"}
    record = recording.new_record(Point(config(), tmp_path, []), place_ranks(config(), two))
    assert record["warnings"] == ["n0, n2 have torch 2.13.0, n1 has 2.12.0"]
    assert record["agents"][1]["torch"] == "2.12.0"
    assert environment.version_differences([{"host": "a"}, {"host": "b", "torch": "2.13.0"}]) == []

"""What records hold of GPUs, from an nvidia-smi that is a script."""

import logging

from benchkit import environment, gpus
from benchkit.secrets import HIDDEN

from tests.support.fake_gpus import install_nvidia_smi


def pci_device(folder, monkeypatch, address, node):
    (folder / address).mkdir(parents=True)
    (folder / address / "numa_node").write_text(f"{node}\n")
    monkeypatch.setattr(gpus, "PCI_DEVICES", folder)


def test_listing_has_modes_and_numa_node(tmp_path, monkeypatch):
    install_nvidia_smi(tmp_path, monkeypatch)
    pci_device(tmp_path / "pci", monkeypatch, "0000:17:00.0", 1)
    first, second = gpus.query_gpus()
    assert first == {
        "name": "NVIDIA H100 80GB HBM3", "memory.total": "81559 MiB", "driver_version": "550.54.15",
        "power.limit": "700.00 W", "clocks.max.sm": "1980 MHz", "uuid": "GPU-0", "pci.bus_id": "00000000:17:00.0",
        "mig.mode.current": "Disabled", "compute_mode": "Default", "persistence_mode": "Enabled",
        "ecc.mode.current": "Enabled", "numa_node": "1",
    }  # fmt: skip
    assert (second["uuid"], "numa_node" in second) == ("GPU-1", False)


def test_older_driver_lists_what_it_knows(tmp_path, monkeypatch):
    install_nvidia_smi(tmp_path, monkeypatch, knows_modes=False)
    assert [set(gpu) for gpu in gpus.query_gpus()] == [set(gpus.BASIC)] * 2


def test_gpu_without_numa_has_no_node(tmp_path, monkeypatch):
    pci_device(tmp_path, monkeypatch, "0000:17:00.0", -1)
    assert gpus.node_of_pci("00000000:17:00.0") is None
    assert gpus.node_of_pci("") is None


def test_numa_nodes_of_cores(tmp_path, monkeypatch):
    for node, cores in (("node0", "0-3,8-11"), ("node1", "4-7"), ("node10", "12"), ("node2", "")):
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(cores + "\n")
    monkeypatch.setattr(gpus, "NODES", tmp_path)
    assert gpus.nodes_of_cores({9, 12}) == [0, 10]
    assert gpus.nodes_of_cores({5}) == [1]
    assert gpus.nodes_of_cores({99}) == []


def test_topology_has_matrix_and_cards(tmp_path, monkeypatch):
    install_nvidia_smi(tmp_path, monkeypatch)
    text = gpus.topology()
    assert text.startswith("GPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0")
    assert text.endswith("NIC0: mlx5_0")
    assert "Connection traversing" not in text
    (tmp_path / "topology").write_text("x" * 10_000)
    assert len(gpus.topology()) == gpus.MOST_LETTERS


def test_slow_nvidia_smi_is_reported_once(tmp_path, monkeypatch, caplog):
    asked = install_nvidia_smi(tmp_path, monkeypatch, body='#!/bin/sh\necho $1 >> "{folder}/asked"\nexec sleep 30\n')
    monkeypatch.setattr(gpus.run_nvidia_smi, "__kwdefaults__", {"limit_s": 0.2})
    with caplog.at_level(logging.WARNING):
        assert gpus.query_gpus() == []
    assert len(asked.read_text().split()) == 1
    [line] = caplog.messages
    assert "0.2 s" in line
    assert (gpus.LIMIT_S, gpus.TOPOLOGY_LIMIT_S) == (60, 30)


def test_environment_describes_gpu_host(tmp_path, monkeypatch):
    install_nvidia_smi(tmp_path, monkeypatch)
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    environment.static_environment.cache_clear()
    try:
        found, report = environment.read_environment(), environment.agent_report()
    finally:
        environment.static_environment.cache_clear()
    assert found.driver == report.driver == "550.54.15"
    assert found.topology.startswith("GPU0\tGPU1")
    assert found.variables["NCCL_P2P_DISABLE"] == report.variables["NCCL_P2P_DISABLE"] == "1"
    assert [gpu["persistence_mode"] for gpu in report.gpus] == ["Enabled"] * 2


def test_driver_is_also_read_from_kernel(monkeypatch):
    files = {"/sys/module/amdgpu/version": "6.10.5"}
    monkeypatch.setattr(environment, "read_text", lambda path: files.get(path, ""))
    assert environment.driver_version([]) == "6.10.5"
    assert environment.driver_version([{"driver_version": "550"}]) == "550"
    files.clear()
    assert environment.driver_version([]) is None


def test_variables_are_kept_without_secrets():
    kept = {"NCCL_DEBUG": "INFO", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0", "CUDA_VISIBLE_DEVICES": "", "HSA_XNACK": "1"}
    hidden = {"UCX_AUTH_TOKEN": "s", "CUDA_key": "s", "GLOO_Secret": "s", "MKL_PASSWORD": "s"}
    assert environment.variables(kept | hidden | {"HOME": "/root"}) == kept | dict.fromkeys(hidden, HIDDEN)
    assert list(environment.variables(kept)) == sorted(kept)
    assert len(environment.variables({"UCX_TLS": "x" * 1000})["UCX_TLS"]) == environment.MOST_LETTERS
    assert environment.variables({"OMP_NUM_THREADS": "\udce9"}) == {"OMP_NUM_THREADS": r"\udce9"}

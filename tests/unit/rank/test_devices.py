"""What a rank tells of its device, with a torch.cuda and an NVML that are stand-ins."""

import os
import sys
from types import SimpleNamespace

import pytest
import torch
from benchkit.gpus import numa, nvml
from benchkit.rank import devices
from benchkit.record.devices import RankDevice

from tests.support.fake_gpus import FakeNvml

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
PROPERTIES = SimpleNamespace(
    name="NVIDIA H100", uuid="a", multi_processor_count=132, total_memory=85 * 10**9, pci_domain_id=0, pci_bus_id=0x17,
    pci_device_id=0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """A host with one GPU on NUMA node 1, and cores of node 0."""
    monkeypatch.setattr(numa, "node_of_pci", lambda address: 1 if "17:00.0" in address else None)
    monkeypatch.setattr(numa, "nodes_of_cores", lambda cores: [0])
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: PROPERTIES)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 7))


def install(monkeypatch, fake):
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def gathered(monkeypatch, device, *others, **ours):
    """The devices of all ranks where the others tell these values and process ids."""
    monkeypatch.setattr(devices, "gather_json", lambda value, group: [value, *others])
    return devices.gather_devices(device, SimpleNamespace(handle=None), **ours)


def test_gpu_rank_tells_uuid_and_numa_nodes(monkeypatch):
    install(monkeypatch, FakeNvml())
    found, gpu = devices.describe_device(GPU)
    assert found == RankDevice(
        device="cuda:0", numa_nodes=[0], name="NVIDIA H100", uuid="GPU-a", pci="0000:17:00.0", numa_node=1,
        multiprocessors=132, memory_bytes=85 * 10**9, nccl="2.29.7",
    )  # fmt: skip
    assert (gpu.uuid, gpu.instance, gpu.whole) == ("GPU-a", "GPU-a", "GPU-a")


def test_mig_instance_is_read_from_whole_gpu(monkeypatch):
    install(monkeypatch, FakeNvml(known=("MIG-a",)))
    found, gpu = devices.describe_device(GPU)
    assert (found.uuid, gpu.instance, gpu.whole) == ("MIG-a", "MIG-a", "GPU-parent")
    assert gpu.reading() == [1980, 2619, 650, 60, 0]


def test_older_torch_lets_nvml_tell_address(monkeypatch):
    install(monkeypatch, FakeNvml())
    older = SimpleNamespace(name="A100", uuid="a", multi_processor_count=108, total_memory=1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: older)
    found, _ = devices.describe_device(GPU)
    assert (found.pci, found.numa_node) == ("00000000:17:00.0", 1)


@pytest.mark.parametrize("lacking", ["package", "library", "gpu"])
def test_gpu_is_described_without_nvml(monkeypatch, lacking):
    fakes = {"library": FakeNvml(refused=("nvmlInit",)), "gpu": FakeNvml(known=())}
    install(monkeypatch, fakes.get(lacking))  # None: the import fails
    found = gathered(monkeypatch, GPU)
    assert (found.gpu, found.is_unread) == (None, True)
    assert (found.of_ranks[0].name, found.of_ranks[0].uuid, found.of_ranks[0].numa_node) == ("NVIDIA H100", "a", 1)


def test_rocm_gpu_has_name_and_expects_no_nvml(monkeypatch):
    install(monkeypatch, None)
    monkeypatch.setattr(torch.version, "hip", "7.0")
    amd = SimpleNamespace(name="AMD Instinct MI300X", multi_processor_count=304, total_memory=192 * 10**9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: amd)
    found = gathered(monkeypatch, GPU)
    assert (found.of_ranks[0].name, found.of_ranks[0].uuid, found.is_unread) == ("AMD Instinct MI300X", None, False)


def test_cpu_rank_asks_no_gpu(monkeypatch):
    fake = install(monkeypatch, FakeNvml())
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: pytest.fail("CUDA was started"))
    found = gathered(monkeypatch, CPU)
    assert found.of_ranks == [RankDevice(device="cpu", numa_nodes=[0])]
    assert (found.gpu, found.is_unread, fake.calls) == (None, False, [])


def test_ranks_know_who_shares_their_gpu(monkeypatch):
    install(monkeypatch, FakeNvml())
    others = [[{"device": "cuda:0", "uuid": uuid}, pids] for uuid, pids in (("GPU-a", [7, 9]), ("GPU-b", [8]))]
    found = gathered(monkeypatch, GPU, *others)
    assert [each.uuid for each in found.of_ranks] == ["GPU-a", "GPU-a", "GPU-b"]
    assert found.pids == {os.getpid(), 7, 8, 9}


@pytest.mark.parametrize(
    ("ours", "count"), [({}, 2), ({"by_mps": True}, 3), ({"idle_pids": [7, 8]}, 4)], ids=["ranks", "mps", "idle"]
)
def test_our_processes_on_a_gpu_are_counted(monkeypatch, ours, count):
    """Where NVML tells numbers of another namespace, nothing else tells them from strangers."""
    install(monkeypatch, FakeNvml(processes=dict.fromkeys(range(101, 101 + count), "")))
    others = [[{"device": "cuda:0", "uuid": uuid}, [9]] for uuid in ("GPU-a", "GPU-b")]
    found = gathered(monkeypatch, GPU, *others, **ours)
    assert found.num_processes == count
    assert found.gpu.strangers(found.pids, found.num_processes) == 0
    install(monkeypatch, FakeNvml(processes=dict.fromkeys(range(101, 102 + count), "")))
    assert nvml.open_gpu("a").strangers(found.pids, found.num_processes) == 1


@pytest.mark.parametrize(
    ("processes", "strangers"),
    [
        ({}, 0),
        ({1: "python", 2: "python"}, 0),
        ({1: "python", 2: "python", 3: "python"}, 1),
        ({1: "python", 9: "/usr/bin/nvidia-cuda-mps-server"}, 0),
        ({101: "/usr/bin/nvidia-cuda-mps-server", 102: "", 103: ""}, 1),  # names of another namespace say nothing
        ({101: "", 102: ""}, 0),
        ({101: "", 102: "", 103: ""}, 1),
    ],
)
def test_strangers_are_neither_ranks_nor_mps(monkeypatch, processes, strangers):
    install(monkeypatch, FakeNvml(processes=processes))
    assert nvml.open_gpu("a").strangers({1, 2}, num_ours=2) == strangers


def test_unsupported_readings_are_zero(monkeypatch):
    refused = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetComputeRunningProcesses")
    install(monkeypatch, FakeNvml(refused=refused))
    gpu = nvml.open_gpu("a")
    assert gpu.reading() == [1980, 2619, 0, 60, 0]
    assert gpu.strangers(set(), 1) == 0


@pytest.mark.parametrize("answers", [True, False])
def test_newer_name_of_reasons_is_asked_first(monkeypatch, answers):
    fake = install(monkeypatch, FakeNvml(readings=[(1980, 2619, 1000, 60, 4)]))

    def newer(handle):
        if not answers:
            raise fake.NVMLError("Function Not Found")
        return 0x40

    fake.nvmlDeviceGetCurrentClocksEventReasons = newer
    assert nvml.open_gpu("a").reading()[-1] == (0x40 if answers else 4)


def test_torch_settings_are_told(monkeypatch):
    found = devices.torch_settings({})
    assert found == {
        "float32_matmul_precision": "highest", "allow_tf32": False, "cudnn_allow_tf32": True,
        "bf16_reduced_precision_reduction": True, "fp16_reduced_precision_reduction": True,
        "flight_recorder_entries": None,
    }  # fmt: skip
    torch.set_float32_matmul_precision("high")
    try:
        changed = devices.torch_settings({"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"})
    finally:
        torch.set_float32_matmul_precision("highest")
    assert (changed["float32_matmul_precision"], changed["allow_tf32"]) == ("high", True)
    assert changed["flight_recorder_entries"] == 0
    both = {"TORCH_FR_BUFFER_SIZE": "9", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}
    assert devices.torch_settings(both)["flight_recorder_entries"] == 9


def test_refused_torch_setting_is_none(monkeypatch):
    def refuse():
        raise RuntimeError("you have used both sets of names")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    assert devices.torch_settings({})["float32_matmul_precision"] is None

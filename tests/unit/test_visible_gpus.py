"""Which GPUs ranks can use, by fake tools of their vendors and a fake torch.cuda."""

import pytest
import torch
from benchkit import visible_gpus as counting
from benchkit.record.environment import Environment

MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
UUIDS = [f"{letter * 8}-{letter * 4}-{letter * 4}-{letter * 4}-{letter * 12}" for letter in "abcd"]


@pytest.fixture
def host(monkeypatch):
    """A host with these GPUs, as torch, its variables and the tools of the vendors see it; returns what is visible."""

    def found(usable, build="cuda", gpus=(), tools=(), **masks):
        printed = dict(tools)
        there = Environment(host="n0", gpus=[{"uuid": uuid} for uuid in gpus])
        monkeypatch.setattr(counting, "static_environment", lambda: there)
        monkeypatch.setattr(counting, "torch_build", lambda: {"cuda": None, build: "13.0"})
        monkeypatch.setattr(torch.cuda, "device_count", lambda: usable)
        monkeypatch.setattr(counting, "output", lambda *command: printed.get(" ".join(command), ""))
        for name in MASKS:
            monkeypatch.delenv(name, raising=False)
        for name, value in masks.items():
            monkeypatch.setenv(name, value)
        return counting.visible_gpus()

    forget()
    yield found
    forget()


def forget():
    for cached in (counting.mig_instances, counting.amd_uuids):
        cached.cache_clear()


def test_gpus_are_counted_by_torch_built_for_them(host):
    assert host(3, build="none") == []
    assert host(3, build="cuda") == ["0", "1", "2"]
    assert host(3, build="hip") == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("mask", "visible"),
    [(None, ["GPU-a", "GPU-b", "GPU-c"]), ("2,0", ["GPU-c", "GPU-a"]), ("GPU-b", ["GPU-b"]), ("", ["GPU-a", "GPU-b"])],
)
def test_nvidia_gpus_have_uuids(host, mask, visible):
    masks = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert host(len(visible), gpus=["GPU-a", "GPU-b", "GPU-c"], **masks) == visible


LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-1)
  MIG 3g.20gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)"""


@pytest.mark.parametrize(
    ("mask", "usable", "visible"),
    [
        ("", 2, ["MIG-1"]),  # NVML counts two GPUs, CUDA shows one instance
        ("0", 1, ["MIG-1"]),
        ("MIG-2", 1, ["MIG-2"]),
        ("GPU-b", 1, ["GPU-b"]),
    ],
)
def test_cuda_shows_one_instance_of_divided_gpu(host, mask, usable, visible):
    tools = {"nvidia-smi -L": LISTED}
    assert host(usable, gpus=["GPU-a", "GPU-b"], tools=tools, CUDA_VISIBLE_DEVICES=mask) == visible


AMD_SMI = "\n".join(f"GPU: {index}\n    BDF: 0000:0{index}:00.0\n    UUID: {uuid}" for index, uuid in enumerate(UUIDS))
ROCM_SMI = "GPU[0]\t\t: Unique ID: 0x9a\nGPU[1]\t\t: Unique ID: 0x9b"


def test_amd_gpus_have_uuids(host):
    assert host(4, "hip", tools={"amd-smi list": AMD_SMI}) == UUIDS


def test_amd_gpus_have_unique_ids_of_older_tool(host):
    assert host(2, "hip", tools={"rocm-smi --showuniqueid": ROCM_SMI}) == ["0x9a", "0x9b"]


def test_parts_of_one_amd_gpu_are_numbered(host):
    assert host(2, "hip", tools={"amd-smi list": f"UUID: {UUIDS[0]}\nUUID: {UUIDS[0]}"}) == ["0", "1"]


@pytest.mark.parametrize("tools", [{}, {"amd-smi list": AMD_SMI}])
@pytest.mark.parametrize("variable", MASKS)
def test_agents_masked_to_own_gpus_differ(host, variable, tools):
    seen = []
    for index in "0123":
        seen += host(1, "hip", tools=tools, **{variable: index})
        forget()
    assert len(set(seen)) == 4


def test_hip_chooses_among_gpus_of_runtime(host):
    masks = {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert host(1, "hip", tools={"amd-smi list": AMD_SMI}, **masks) == [UUIDS[3]]

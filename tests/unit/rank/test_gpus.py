"""What a rank tells of its GPU, once and around the turns of cases; torch.cuda and NVML are stand-ins."""

import os
import sys
from types import SimpleNamespace

import pytest
import torch
from benchkit import gpus
from benchkit.api.case import Case
from benchkit.record.record import GPU_FIELDS, RankDevice

from tests.support import fakes
from tests.support.configs import config
from tests.support.entries import rank
from tests.support.entries.measure import HostClock
from tests.support.fake_gpus import FakeNvml
from tests.support.one_rank import UNSLOWED, group, reports_of

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
PROPERTIES = SimpleNamespace(
    name="NVIDIA H100", uuid="a", multi_processor_count=132, total_memory=85 * 10**9, pci_domain_id=0, pci_bus_id=0x17,
    pci_device_id=0,
)  # fmt: skip


NODE_0, NODE_1 = list(range(48)), list(range(48, 96))


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """A host with one GPU on NUMA node 1, and cores of node 0."""
    monkeypatch.setattr(gpus, "node_of_pci", lambda address: 1 if "17:00.0" in address else None)
    monkeypatch.setattr(gpus, "nodes_of_cores", lambda cores: [0])
    monkeypatch.setattr(gpus, "cores_of_node", lambda node: set())
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: PROPERTIES)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 7))


@pytest.fixture
def install(monkeypatch):
    def install(fake):
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return install


@pytest.fixture
def gathered(monkeypatch):
    """The devices of all ranks where the others tell these values and process ids."""

    def gather(device, *others, **ours):
        monkeypatch.setattr(rank.devices, "all_gather_json", lambda value, handle: [value, *others])
        return rank.devices.all_gather_devices(device, group(handle=None), **ours)

    return gather


def test_gpu_rank_tells_uuid_and_numa_nodes(install):
    install(FakeNvml())
    found, gpu = rank.devices.describe_device(GPU)
    assert found == RankDevice(
        device="cuda:0", numa_nodes=[0], name="NVIDIA H100", uuid="GPU-a", pci="0000:17:00.0", numa_node=1,
        multiprocessors=132, memory_bytes=85 * 10**9, nccl="2.29.7",
    )  # fmt: skip
    assert (gpu.uuid, gpu.handle, gpu.physical_handle) == ("GPU-a", "GPU-a", "GPU-a")


@pytest.mark.parametrize(
    ("threads", "others", "bound"),
    [
        (24, [], True),
        (49, [], False),
        (24, [["n0", NODE_1]], True),
        (25, [["n0", NODE_1]], False),
        (24, [["n0", NODE_1]] * 3, False),  # 96 threads: four of eight GPUs, on one socket
        (12, [["n0", NODE_1]] * 3 + [["n0", NODE_0]] * 4, True),
        (24, [["n0", NODE_1]] + [["n1", NODE_1]] * 2, True),
        (24, [["n0", NODE_1], ["n0", []]], True),  # a rank whose node is unknown
    ],
)
def test_rank_stays_at_its_gpus_node_where_threads_fit(monkeypatch, install, threads, others, bound):
    install(FakeNvml())
    chosen = {}
    monkeypatch.setattr(gpus, "cores_of_node", lambda node: {0: set(NODE_0), 1: set(NODE_1)}[node])
    monkeypatch.setattr(gpus, "nodes_of_cores", lambda cores: sorted({core // 48 for core in cores}))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {*NODE_0, *NODE_1})
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cores: chosen.setdefault(thread, cores))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    answers = iter([others, []])
    monkeypatch.setattr(rank.devices, "all_gather_json", lambda own, handle: [own, *next(answers)])
    found = rank.devices.all_gather_devices(GPU, group(handle=None), "n0")
    assert found.bound_to == (NODE_1 if bound else [])
    assert chosen.get(os.getpid()) == (set(NODE_1) if bound else None)
    assert found.of_ranks[0].numa_nodes == ([1] if bound else [0, 1])


def test_mig_instance_is_read_from_whole_gpu(install):
    install(FakeNvml(known=("MIG-a",)))
    found, gpu = rank.devices.describe_device(GPU)
    assert (found.uuid, gpu.handle, gpu.physical_handle) == ("MIG-a", "MIG-a", "GPU-parent")
    assert gpu.reading() == [1980, 2619, 650, 60, 0]


def test_older_torch_and_rocm_tell_less(monkeypatch, install, gathered):
    """NVML tells the address that torch before 2.8 does not; for a GPU of AMD there is no NVML to miss."""
    install(FakeNvml())
    amd = SimpleNamespace(name="AMD Instinct MI300X", multi_processor_count=304, total_memory=192 * 10**9)
    older = SimpleNamespace(**vars(amd) | {"uuid": "a"})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: older)
    found, _ = rank.devices.describe_device(GPU)
    assert (found.pci, found.numa_node) == ("00000000:17:00.0", 1)
    install(None)
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: amd)
    found = gathered(GPU)
    assert (found.of_ranks[0].name, found.of_ranks[0].uuid, found.is_unread) == (amd.name, None, False)


@pytest.mark.parametrize("lacking", ["package", "library", "gpu"])
def test_gpu_is_described_without_nvml(install, gathered, lacking):
    fakes = {"library": FakeNvml(refused=("nvmlInit",)), "gpu": FakeNvml(known=())}
    install(fakes.get(lacking))  # None: the import fails
    found = gathered(GPU)
    assert (found.gpu, found.is_unread) == (None, True)
    assert (found.of_ranks[0].name, found.of_ranks[0].uuid, found.of_ranks[0].numa_node) == ("NVIDIA H100", "a", 1)


def test_cpu_rank_asks_no_gpu(monkeypatch, install, gathered):
    fake = install(FakeNvml())
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: pytest.fail("CUDA was started"))
    found = gathered(CPU)
    assert found.of_ranks == [RankDevice(device="cpu", numa_nodes=[0])]
    assert (found.gpu, found.is_unread, fake.calls) == (None, False, [])


@pytest.mark.parametrize(
    ("ours", "count"), [({}, 2), ({"by_mps": True}, 3), ({"idle_pids": [7, 8]}, 4)], ids=["ranks", "mps", "idle"]
)
def test_our_processes_on_a_gpu_are_counted(install, gathered, ours, count):
    """Where NVML tells numbers of another namespace, only their count tells them from strangers."""
    install(FakeNvml(processes=dict.fromkeys(range(101, 101 + count), "")))
    others = [[{"device": "cuda:0", "uuid": uuid}, [9]] for uuid in ("GPU-a", "GPU-b")]
    found = gathered(GPU, *others, **ours)
    assert [each.uuid for each in found.of_ranks] == ["GPU-a", "GPU-a", "GPU-b"]
    assert found.pids == {os.getpid(), 9, *ours.get("idle_pids", [])}
    assert found.num_processes == count
    assert found.gpu.num_foreign_processes(found.pids, found.num_processes) == 0
    install(FakeNvml(processes=dict.fromkeys(range(101, 102 + count), "")))
    assert gpus.open_gpu("a").num_foreign_processes(found.pids, found.num_processes) == 1


@pytest.mark.parametrize(
    ("processes", "strangers"),
    [
        ({1: "python", 2: "python"}, 0),
        ({1: "python", 2: "python", 3: "python"}, 1),
        ({1: "python", 9: "/usr/bin/nvidia-cuda-mps-server"}, 0),
        ({101: "/usr/bin/nvidia-cuda-mps-server", 102: "", 103: ""}, 1),  # names of another namespace say nothing
    ],
)
def test_strangers_are_neither_ranks_nor_mps(install, processes, strangers):
    install(FakeNvml(processes=processes))
    assert gpus.open_gpu("a").num_foreign_processes({1, 2}, num_ours=2) == strangers


@pytest.mark.parametrize("answers", [True, False])
def test_newer_name_of_reasons_is_asked_first(install, answers):
    fake = install(FakeNvml(readings=[(1980, 2619, 1000, 60, 4)]))

    def newer(handle):
        if not answers:
            raise fake.NVMLError("Function Not Found")
        return 0x40

    fake.nvmlDeviceGetCurrentClocksEventReasons = newer
    assert gpus.open_gpu("a").reading()[-1] == (0x40 if answers else 4)
    install(FakeNvml(refused=("nvmlDeviceGetPowerUsage", "nvmlDeviceGetComputeRunningProcesses")))
    gpu = gpus.open_gpu("a")
    assert (gpu.reading(), gpu.num_foreign_processes(set(), 1)) == (
        [1980, 2619, 0, 60, 0],
        0,
    )  # what it does not support is 0


def test_torch_settings_are_told(monkeypatch):
    told = rank.devices.torch_settings
    assert told({}) == {
        "float32_matmul_precision": "highest", "allow_tf32": False, "cudnn_allow_tf32": True,
        "bf16_reduced_precision_reduction": True, "fp16_reduced_precision_reduction": True,
        "flight_recorder_entries": None,
    }  # fmt: skip
    older, newer = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, {"TORCH_FR_BUFFER_SIZE": "9"}
    assert [told(each)["flight_recorder_entries"] for each in (older, older | newer)] == [0, 9]

    def refuse():
        raise RuntimeError("you have used both sets of names")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    assert told({})["float32_matmul_precision"] is None


A, B = Case(labels={"case": "a"}), Case(labels={"case": "b"})
COLD, WARM, HOT = (210, 2619, 70_000, 35, 1), (1980, 2619, 500_000, 60, 2), (1400, 2619, 700_000, 85, 4 | 0x40)


@pytest.fixture
def watch(install):
    """A watch of a GPU with these readings, on a clock that moves by `step_s` at each look."""

    def make(*readings, step_s=1.0, **changes):
        fake = install(FakeNvml(readings or [WARM], **changes))
        ticks = iter(range(10**6))
        device = RankDevice(device="cuda:0", name="H100", uuid="GPU-a")
        return rank.GpuWatch(
            rank.Devices([device], gpus.open_gpu("a"), pids={1}), now=lambda: next(ticks) * step_s
        ), fake

    return make


def test_case_has_state_before_and_after(watch):
    seen, _ = watch(COLD, WARM, HOT, HOT, WARM)
    for case in (A, B, A):
        seen.switch_case(case)
    a, b = seen.end([A, B], fakes.alone)
    held = 4 | 0x40  # all reasons of its turns
    both = [[210], [2619], [70], [35], [1400], [2619], [700], [85]]
    assert a == dict(zip(GPU_FIELDS, [*both, [0], [0], [2 | held]], strict=True))
    assert (b["gpu_sm_mhz_before"], b["gpu_sm_mhz_after"], b["gpu_clock_reasons"]) == ([1980], [1400], [held])


@pytest.mark.parametrize(("step_s", "readings"), [(rank.FRESH_S / 100, 1), (1.0, 10)])
def test_young_reading_is_used_again(watch, step_s, readings):
    seen, fake = watch(step_s=step_s)
    for _ in range(10):
        seen.switch_case(A)
    assert fake.calls.count("nvmlDeviceGetPowerUsage") == readings


def test_state_while_busy_is_the_worst_one(watch):
    """The idle GPU around its turns tells nothing of it."""
    seen, _ = watch(WARM, HOT, (1100, 2619, 600_000, 80, 1), WARM, WARM)
    seen.switch_case(A)
    seen.while_busy()
    seen.while_busy()
    seen.switch_case(B)
    a, b = seen.end([A, B], fakes.alone)
    assert (a["gpu_sm_mhz_busy"], a["gpu_power_w_busy"], a["gpu_clock_reasons"]) == ([1100], [700], [4 | 0x40 | 1 | 2])
    assert (b["gpu_sm_mhz_busy"], b["gpu_power_w_busy"]) == ([0], [0])


def test_busy_gpu_is_seldom_read(watch):
    seen, fake = watch(step_s=rank.FRESH_S / 10)
    seen.switch_case(A)
    before = fake.calls.count("nvmlDeviceGetPowerUsage")
    for _ in range(30):
        seen.while_busy()
    assert 2 <= fake.calls.count("nvmlDeviceGetPowerUsage") - before <= 4


def test_rank_without_gpu_reads_nothing():
    seen = rank.GpuWatch(rank.Devices([RankDevice(device="cpu")]), now=lambda: pytest.fail("looked at the clock"))
    seen.switch_case(A)
    seen.while_busy()
    assert seen.end([A, B], fakes.alone) == [{}, {}]
    assert seen.warnings == []


def test_unread_gpu_leaves_zero_beside_others(watch):
    seen, _ = watch(COLD, WARM)
    seen.switch_case(A)
    [a] = seen.end([A], lambda own: [own, [1.0, 0.0, *[0.0] * len(GPU_FIELDS)]])
    assert a["gpu_sm_mhz_after"] == [1980, 0]
    assert len(seen.warnings) == 1


def test_strangers_are_sought_at_both_ends(watch):
    seen, fake = watch(processes={1: "python"})
    for case in (A, B, A, B):
        seen.switch_case(case)
    fake.processes[2] = "blender"
    seen.end([A, B], fakes.alone)
    assert fake.calls.count("nvmlDeviceGetComputeRunningProcesses") == 2
    assert len(seen.warnings) == 1
    seen, fake = watch(processes={1: "python", 2: "blender"})
    seen.switch_case(A)
    fake.processes.clear()
    seen.end([A], fakes.alone)
    assert len(seen.warnings) == 1


def test_each_kind_of_warning_is_one_line(golden):
    Seen = rank.GpuObservations
    for sound in (
        [Seen(), Seen()],
        [Seen(reasons=[2, 3], sm_mhz=[1500, 900])],
        [Seen(reasons=[0], sm_mhz=[1980, 1965])],
    ):
        assert rank.gpu_warnings(sound) == []
    lines = []
    for seen in (
        [Seen(), Seen(is_unread=True)],
        [Seen(strangers=1)],
        [Seen(strangers=3), Seen(), Seen(strangers=1)],
        [Seen(reasons=[2, 6]), Seen(reasons=[0x48 | 2, 2]), Seen(reasons=[4])],
        [Seen(reasons=[0, 1], sm_mhz=[1980, 1200]), Seen(reasons=[2], sm_mhz=[900])],
    ):
        [line] = rank.gpu_warnings(seen)
        lines.append(line)
    golden("\n".join(lines))


def test_warnings_of_gpus_follow_those_of_cases():
    seen = rank.GpuWatch(rank.Devices([]), warnings=["hot"])
    run = rank.RankRun(config(), HostClock(), group(), UNSLOWED, seen)
    reporter = rank.reporter.Reporter(None, run, [Case(warnings=("short",)), Case()], None, None, None)
    assert reporter.report([], ["late"]).measured.warnings == ["late", "short", "hot"]


def test_measured_case_has_gpu_state(watch):
    seen, _ = watch(COLD, WARM)
    none, some = reports_of([Case(skip="not here"), Case()], seen, max_iterations=4)
    assert none.disturbance == {}
    assert {*GPU_FIELDS, "steal_s", "lowest_ghz"} <= set(some.disturbance)
    assert (some.disturbance["gpu_sm_mhz_before"], some.disturbance["gpu_sm_mhz_after"]) == ([210], [1980])

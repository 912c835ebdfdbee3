"""The state of GPUs around the turns of cases, and what records say of it."""

import sys
from types import SimpleNamespace

import pytest
from benchkit.api.case import Case
from benchkit.gpus import nvml
from benchkit.measure.clocks import HostClock
from benchkit.rank.control_group import first_finding
from benchkit.rank.devices import Devices
from benchkit.rank.gpu_warnings import Seen, gpu_warnings
from benchkit.rank.gpu_watch import FRESH_S, GpuWatch
from benchkit.rank.main import collect_warnings
from benchkit.rank.run_cases import run_cases
from benchkit.rank.stopwatch import Stopwatch
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.record.devices import RankDevice
from benchkit.record.gpu_state import FIELDS
from launch.slowdown.throttle import NoThrottle

from tests.support import configs, fakes
from tests.support.fake_gpus import FakeNvml

A, B = Case(labels={"case": "a"}), Case(labels={"case": "b"})
COLD, WARM, HOT = (210, 2619, 70_000, 35, 1), (1980, 2619, 500_000, 60, 2), (1400, 2619, 700_000, 85, 4 | 0x40)


def watch(monkeypatch, *readings, step_s=1.0, **changes):
    """A watch of a GPU with these readings, on a clock that moves by `step_s` at each look."""
    fake = FakeNvml(readings or [WARM], **changes)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    ticks = iter(range(10**6))
    device = RankDevice(device="cuda:0", name="H100", uuid="GPU-a")
    of_rank = Devices([device], nvml.open_gpu("a"), pids={1})
    return GpuWatch(of_rank, now=lambda: next(ticks) * step_s), fake


def test_case_has_state_before_and_after(monkeypatch):
    seen, _ = watch(monkeypatch, COLD, WARM, HOT, WARM, WARM)
    for case in (A, B, A):
        seen.turn_to(case)
    a, b = seen.end([A, B], fakes.alone)
    assert a == dict(zip(FIELDS, [[210], [2619], [70], [35], [1980], [2619], [500], [60], [2]], strict=True))
    assert (b["gpu_sm_mhz_before"], b["gpu_sm_mhz_after"], b["gpu_clock_reasons"]) == ([1980], [1400], [4 | 0x40])


def test_reasons_of_all_turns_are_kept(monkeypatch):
    seen, _ = watch(monkeypatch, COLD, HOT, WARM, WARM)
    for case in (A, B, A):
        seen.turn_to(case)
    a, _ = seen.end([A, B], fakes.alone)
    assert a["gpu_clock_reasons"] == [4 | 0x40 | 2]
    assert a["gpu_sm_mhz_after"] == [1980]


def test_young_reading_is_used_again(monkeypatch):
    seen, fake = watch(monkeypatch, step_s=FRESH_S / 100)
    for _ in range(10):
        seen.turn_to(A)
    assert fake.calls.count("nvmlDeviceGetPowerUsage") == 1
    seen, fake = watch(monkeypatch)
    for _ in range(10):
        seen.turn_to(A)
    assert fake.calls.count("nvmlDeviceGetPowerUsage") == 10


def test_rank_without_gpu_reads_nothing():
    seen = GpuWatch(Devices([RankDevice(device="cpu")]), now=lambda: pytest.fail("looked at the clock"))
    seen.turn_to(A)
    assert seen.end([A, B], fakes.alone) == [{}, {}]
    assert seen.warnings == []


def test_unread_gpu_leaves_zero_beside_others(monkeypatch):
    seen, _ = watch(monkeypatch, COLD, WARM)
    seen.turn_to(A)
    [a] = seen.end([A], lambda own: [own, [1.0, 0.0, *[0.0] * len(FIELDS)]])
    assert a["gpu_sm_mhz_after"] == [1980, 0]
    assert seen.warnings == [
        "clocks, power and throttling of the GPU of rank 1 are not known: nvidia-ml-py is not installed, or the "
        "driver has no NVML"
    ]


def test_strangers_are_sought_at_both_ends(monkeypatch):
    seen, fake = watch(monkeypatch, processes={1: "python"})
    for case in (A, B, A, B):
        seen.turn_to(case)
    fake.processes[2] = "blender"
    seen.end([A, B], fakes.alone)
    assert fake.calls.count("nvmlDeviceGetComputeRunningProcesses") == 2
    assert seen.warnings == ["1 other process computed on the GPU of rank 0"]
    seen, fake = watch(monkeypatch, processes={1: "python", 2: "blender"})
    seen.turn_to(A)
    fake.processes.clear()
    seen.end([A], fakes.alone)
    assert seen.warnings == ["1 other process computed on the GPU of rank 0"]


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        ([Seen(), Seen()], []),
        ([Seen(reasons=[2, 3], sm_mhz=[1500, 1500])], []),
        ([Seen(strangers=3), Seen(), Seen(strangers=1)], ["up to 3 other processes computed on the GPU of ranks 0, 2"]),
        (
            [Seen(reasons=[2, 6]), Seen(reasons=[0x48 | 2, 2]), Seen(reasons=[4])],
            [
                "GPU clocks were held back: power cap (ranks 0, 2); hardware slowdown (rank 1); "
                "temperature (hardware) (rank 1)"
            ],
        ),
        (
            [Seen(reasons=[0, 1], sm_mhz=[1980, 1200]), Seen(reasons=[2], sm_mhz=[900])],
            [
                "GPU clocks are not locked (rank 0): SM at 1200 to 1980 MHz after cases; "
                "nvidia-smi -lgc locks them"
            ],
        ),
    ],
)  # fmt: skip
def test_each_kind_of_warning_is_one_line(seen, lines):
    assert gpu_warnings(seen) == lines


def test_warnings_of_gpus_follow_those_of_cases():
    seen = GpuWatch(Devices([]), warnings=["hot"])
    assert collect_warnings(None, [Case(warnings=("short",)), Case()], seen) == ["short", "hot"]


def test_measured_case_has_gpu_state(monkeypatch):
    group = SimpleNamespace(world_size=1, barrier=lambda: None, exchange=fakes.alone)
    group.first_reason = lambda reasons: [first_finding((reason,)) for reason in reasons]
    seen, _ = watch(monkeypatch, COLD, WARM)
    skipped, timed = Case(skip="not here"), Case()
    config = configs.config(measure=fakes.plan(max_iterations=4))
    controller = ThrottleController(NoThrottle(), 1.0, 1.0)
    none, some = run_cases([skipped, timed], config, HostClock(), group, Stopwatch(), controller, seen)
    assert none.disturbance == {}
    assert {*FIELDS, "steal_s", "lowest_ghz"} <= set(some.disturbance)
    assert some.disturbance["gpu_sm_mhz_before"] == [210]
    assert some.disturbance["gpu_sm_mhz_after"] == [1980]

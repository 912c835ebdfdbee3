"""Memory of a GPU, with a torch.cuda that is a stand-in, and of a host, with made-up control groups."""

from types import SimpleNamespace

import pytest
import torch
from benchkit.api import memory
from benchkit.suites.transformer.cases import PassCase

from tests.support.kernel import files_of_kernel

GB = 10**9
USES = {"max_memory_allocated": 3 * GB, "max_memory_reserved": 5 * GB, "memory_reserved": 4 * GB}


class FakeCuda:
    """80 GB, of which 10 are in use."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def ask(device):
            self.calls.append(name)
            return (70 * GB, 80 * GB) if name == "mem_get_info" else USES.get(name)

        return ask


def on_gpu(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(memory, "module_of", lambda device: fake)
    return memory.PeakMemory(torch.device("cuda", 0)), fake


def test_memory_outside_torch_is_used_less_reserved(monkeypatch):
    of_gpu, fake = on_gpu(monkeypatch)
    of_gpu.reset()
    assert of_gpu.peak_bytes() == 3 * GB
    assert of_gpu.reserved_and_outside() == (5 * GB, 6 * GB)
    assert fake.calls[0] == "reset_peak_memory_stats"


def test_pass_reports_memory_once(monkeypatch):
    of_gpu, fake = on_gpu(monkeypatch)
    made = PassCase.__new__(PassCase)
    made._name, made._steps, made._memory = "train_step", SimpleNamespace(), of_gpu
    made._models, made._sent_bytes, made.details = list, lambda: GB, {}
    for _ in range(2):
        made.observe({})
    assert made.details == {"peak_bytes": 2 * GB, "reserved_bytes": 5 * GB, "outside_bytes": 6 * GB}
    assert fake.calls.count("mem_get_info") == 1


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "names"),
    [
        ("0::/job/task", "4 1 0:4 / /cg rw - cgroup2 c rw", ("memory.max", "memory.current", "inactive_file")),
        (
            "4:memory:/job/task", "4 1 0:4 / /cg rw - cgroup c rw,memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)  # fmt: skip
def test_free_memory_is_what_tightest_group_leaves(tmp_path, cgroup, mountinfo, names):
    limit, usage, cache = names
    files = {
        "proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB",
        f"cg/job/task/{limit}": "max", f"cg/job/task/{usage}": "7000",
        f"cg/job/{limit}": str(3 * GB), f"cg/job/{usage}": str(2 * GB),
        "cg/job/memory.stat": f"x 1\n{cache} {GB // 2}",
    }  # fmt: skip
    files_of_kernel(tmp_path, cgroup, mountinfo, **files)
    assert memory.host_available_bytes(tmp_path) == 1.5 * GB
    files_of_kernel(tmp_path, cgroup, mountinfo, **{f"cg/job/task/{limit}": "9000"})
    assert memory.host_available_bytes(tmp_path) == 2000
    files_of_kernel(tmp_path, cgroup, mountinfo, **dict.fromkeys((f"cg/job/{limit}", f"cg/job/task/{limit}"), "max"))
    assert memory.host_available_bytes(tmp_path) == 8_000_000 * 1024

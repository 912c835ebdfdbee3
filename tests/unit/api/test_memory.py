"""Memory of a GPU, with a torch.cuda that is a stand-in."""

from types import SimpleNamespace

import torch
from benchkit.api import memory
from benchkit.suites.transformer.pass_case import PassCase

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
    monkeypatch.setattr(memory, "importlib", SimpleNamespace(import_module=lambda name: fake))
    return memory.PeakMemory(torch.device("cuda", 0)), fake


def test_memory_outside_torch_is_used_less_reserved(monkeypatch):
    of_gpu, fake = on_gpu(monkeypatch)
    of_gpu.reset()
    assert of_gpu.peak_bytes() == 3 * GB
    assert of_gpu.beside_peak() == {"reserved_bytes": 5 * GB, "outside_bytes": 6 * GB}
    assert fake.calls[0] == "reset_peak_memory_stats"


def test_cpu_has_nothing_beside_peak():
    assert memory.PeakMemory(torch.device("cpu")).beside_peak() == {}


def test_pass_reports_memory_once(monkeypatch):
    of_gpu, fake = on_gpu(monkeypatch)
    made = PassCase.__new__(PassCase)
    made._name, made._steps, made._memory = "train_step", SimpleNamespace(), of_gpu
    made._models, made._sent_bytes, made.details = list, lambda: GB, {}
    for _ in range(2):
        made.observe({})
    assert made.details == {"peak_bytes": 2 * GB, "reserved_bytes": 5 * GB, "outside_bytes": 6 * GB}
    assert fake.calls.count("mem_get_info") == 1

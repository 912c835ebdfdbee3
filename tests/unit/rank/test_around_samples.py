import weakref
from types import SimpleNamespace

import pytest
import torch
from benchkit.api.case import Case
from benchkit.errors import ConfigError, InvalidResult
from benchkit.measure.clocks import HostClock
from benchkit.measure.timer import measure
from benchkit.rank.around_samples import flushed_profiler, hooks_of
from benchkit.rank.control_group import first_finding
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.rank.verdicts import Verdicts
from launch.slowdown.throttle import NoThrottle

from tests.support import configs, fakes

OOM = "CUDA out of memory. Tried to allocate 9 bytes."
CONTROLLER = ThrottleController(NoThrottle(), 1.0, 1.0)


def run(case, config, cuda, clock):
    hooks = hooks_of(config, CONTROLLER, 1, cuda=cuda)
    few = fakes.plan(max_iterations=2, min_blocks=1, warmup_iterations=1)
    return measure([case], few, clock=clock, barrier=lambda: None, exchange=fakes.alone, seed=0, hooks=hooks)


@pytest.mark.parametrize("profile", [False, True, "nsys"])
def test_nsys_captures_measured_samples(profile):
    """Every series has a range with the labels of its case; with profile=nsys the blocks are captured."""
    cuda = fakes.FakeCuda()
    case = Case(step=lambda: cuda.calls.append("step"), labels={"size": 64, "timing": "latency"})
    run(case, configs.config(device="cuda", profile=profile), cuda, HostClock())
    name = "push size=64 timing=latency"
    block = [name, "step", "step", "pop"]
    captured = ["synchronize", "start", *block, "synchronize", "stop"] if profile == "nsys" else block
    assert cuda.calls == [name, "step", "pop", *captured]


def test_cpu_tells_nsys_nothing():
    cuda = fakes.FakeCuda()
    run(Case(), configs.config(), cuda, HostClock())
    with flushed_profiler("cpu", cuda):
        pass
    assert cuda.calls == []


def test_profiler_is_flushed_after_failure():
    cuda = fakes.FakeCuda()
    with pytest.raises(ZeroDivisionError), flushed_profiler("cuda", cuda):
        raise ZeroDivisionError
    assert cuda.calls == ["synchronize", "stop"]


def test_broken_gpu_does_not_hide_its_error():
    def broken():
        raise RuntimeError("CUDA error: an illegal memory access")

    with pytest.raises(ZeroDivisionError), flushed_profiler("cuda", SimpleNamespace(synchronize=broken)):
        raise ZeroDivisionError


def test_cold_l2_writes_twice_the_cache(monkeypatch):
    made, said = [], []

    def empty(size, dtype, device):
        made.append((size * dtype.itemsize, device))
        return SimpleNamespace(zero_=lambda: said.append("flush"))

    monkeypatch.setattr("torch.empty", empty)
    config = configs.config(device="cuda", measure=fakes.plan(cold_l2=True))
    case = Case(step=lambda: said.append("step"), reset=lambda: said.append("reset"))
    run(case, config, fakes.FakeCuda(), HostClock())
    assert made == [(2 * fakes.L2_BYTES, "cuda")]
    assert said == ["reset", "flush", "step"] * 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"measure": fakes.plan(cold_l2=True)}, "measure.cold_l2=true"), ({"profile": "nsys"}, "profile=nsys")],
)
def test_cpu_refuses_options_of_gpus(changes, said):
    configs.config(device="cuda", **changes).check()
    with pytest.raises(ConfigError, match=rf"^{said}: allowed with hardware.device=cuda$"):
        configs.config(**changes).check()
    configs.config(profile=True).check()


@pytest.fixture
def emptied(monkeypatch):
    """Which tensors of a case that ran out of memory are left when torch's cache is emptied."""
    held, left = [], []
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: left.append([each() for each in held]))

    def too_large(*call):
        tensor = torch.zeros(1)
        held.append(weakref.ref(tensor))
        tensor.holds = tensor  # a circle, which only a collection of garbage takes away
        raise torch.OutOfMemoryError(OOM)

    return too_large, left


def test_memory_is_freed_after_oom_in_step(emptied):
    too_large, left = emptied
    [result] = run(Case(step=too_large), configs.config(), None, HostClock())
    assert result.oom_reason == OOM
    assert left == [[None]]


def test_memory_is_freed_after_oom_in_check(emptied):
    too_large, left = emptied
    group = SimpleNamespace(world_size=1, first_reason=lambda reasons: [first_finding((each,)) for each in reasons])
    verdicts = Verdicts([Case(), Case(verify=too_large), Case(verify=wrong)], group)
    verdicts.note_invalid()
    assert verdicts.statuses == ["ok", "oom", "invalid"]
    assert [finding.reason for finding in verdicts.findings] == ["", OOM, "element 3"]
    assert left == [[None]]


def wrong(call):
    raise InvalidResult("element 3")


def test_several_ranks_raise_oom(emptied):
    too_large, left = emptied
    assert hooks_of(configs.config(), CONTROLLER, 2).after_oom is None
    group = SimpleNamespace(world_size=2, first_reason=None)
    with pytest.raises(torch.OutOfMemoryError):
        Verdicts([Case(verify=too_large)], group).note_invalid()
    assert left == []

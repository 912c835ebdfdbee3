from types import SimpleNamespace

import pytest
from benchkit.api.capture import CapturableStep
from benchkit.api.case import Case
from benchkit.api.regions import marked_by, region
from benchkit.errors import InvalidResult
from benchkit.measure.clocks import HostClock
from benchkit.rank import run_cases as module
from benchkit.rank.control_group import first_finding
from benchkit.rank.devices import Devices
from benchkit.rank.gpu_watch import GpuWatch
from benchkit.rank.graphs import capture
from benchkit.rank.run_cases import Stopwatch, run_cases
from benchkit.rank.throttle_controller import ThrottleController
from launch.slowdown.throttle import NoThrottle

from tests.support import configs, fakes

ON_GPU = configs.config(device="cuda", backend="nccl", measure=fakes.plan(mode="graph"))
OVER_GLOO = configs.config(device="cuda", measure=fakes.plan(mode="graph"))


class Doubling:
    """A case that doubles its input on a fake GPU, and checks that with new inputs."""

    def __init__(self, cuda, wrong_replay=False):
        self.cuda, self.wrong = cuda, wrong_replay
        self.value, self.result, self.python_calls = 1, 0, 0
        self.step = CapturableStep(self.queue)
        self.case = Case(step=self.step, verify=self.verify, regions=("compute",), observe=self.observe)

    def queue(self):
        self.python_calls += 1
        stale = self.value if self.wrong and self.cuda.captured is not None else None
        with region("compute"):
            self.cuda.queue(lambda: setattr(self, "result", 2 * (stale or self.value)))

    def verify(self, call):
        self.value += 1
        call()
        if self.result != 2 * self.value:
            raise InvalidResult(f"{self.result}, expected {2 * self.value}")

    def observe(self, regions_s):
        raise AssertionError("a replay has no regions")


def test_replay_takes_place_of_step():
    cuda = fakes.FakeGraphs()
    doubling = Doubling(cuda)
    with marked_by(refuse):
        assert capture(doubling.case, ON_GPU, cuda) == ""
    assert cuda.calls == ["side waits for main", "on side", "main waits for side", "on main", "capture"]
    doubling.value = 21
    doubling.case.step()
    assert (doubling.result, doubling.python_calls) == (42, 2)  # a first call and the capture
    assert capture(doubling.case, ON_GPU, cuda) == ""  # of another case with the same step
    assert cuda.calls.count("capture") == 1


def refuse(name):
    raise AssertionError("regions are not marked while a step is captured")


def test_failed_capture_says_why_and_restores_stream():
    cuda = fakes.FakeGraphs()

    def synchronizes():
        if cuda.captured is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nCompile with …")

    case = Case(step=CapturableStep(synchronizes))
    assert capture(case, ON_GPU, cuda) == (
        "measure.mode=graph: the step cannot be captured (CUDA error: operation not permitted when stream is capturing)"
    )
    assert cuda.current.name == "main"
    assert case.step.call is synchronizes
    divides = Case(step=CapturableStep(lambda: cuda.captured is None or 1 / 0))
    assert capture(divides, ON_GPU, cuda).endswith("(division by zero)")


def test_refused_step_is_not_run_again():
    """Ranks that captured it do not call it again either: its collective would find no partner."""
    cuda, calls = fakes.FakeGraphs(), []

    def fails_in_capture():
        calls.append(1)
        if cuda.captured is not None:
            raise RuntimeError("no")

    step = CapturableStep(fails_in_capture)
    first, second = (capture(Case(step=step, labels={"timing": name}), ON_GPU, cuda) for name in "ab")
    assert first == second == "measure.mode=graph: the step cannot be captured (no)"
    assert len(calls) == 2  # before the capture and in it


def test_error_outside_capture_is_raised():
    def broken():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory"):
        capture(Case(step=CapturableStep(broken)), ON_GPU, fakes.FakeGraphs())


@pytest.mark.parametrize(
    ("config", "step", "reason"),
    [
        (configs.config(measure=fakes.plan(mode="graph")), CapturableStep(print), "needs hardware.device=cuda"),
        (ON_GPU, print, "the suite does not offer this step for capture"),
        (OVER_GLOO, CapturableStep(print, over="default"), "a CUDA graph cannot hold what gloo does"),
        (ON_GPU, CapturableStep(print, over="ucc/tl/cuda"), "a CUDA graph cannot hold what ucc/tl/cuda does"),
    ],
)
def test_uncapturable_step_says_why(config, step, reason):
    assert capture(Case(step=step), config, None).startswith(f"measure.mode=graph: {reason}")


@pytest.mark.parametrize(("config", "over"), [(OVER_GLOO, ""), (OVER_GLOO, "nccl"), (ON_GPU, "default")])
def test_steps_over_nccl_or_none_are_captured(config, over):
    cuda = fakes.FakeGraphs()
    doubling = Doubling(cuda)
    doubling.step.over = over
    assert capture(doubling.case, config, cuda) == ""


def run_in_graph_mode(cases, cuda, monkeypatch):
    monkeypatch.setattr(module, "capture", lambda case, config: capture(case, ON_GPU, cuda))
    group = SimpleNamespace(world_size=1, barrier=lambda: None, exchange=fakes.alone)
    group.first_reason = lambda reasons: [first_finding((each,)) for each in reasons]
    measure = fakes.plan(mode="graph", max_iterations=2, min_blocks=1)
    config = configs.config(measure=measure)
    controller = ThrottleController(NoThrottle(), 1.0, 1.0)
    return run_cases(cases, config, HostClock(), group, Stopwatch(), controller, GpuWatch(Devices([])))


def test_replays_are_verified_and_timed(monkeypatch):
    cuda = fakes.FakeGraphs()
    good, stale, plain = Doubling(cuda), Doubling(cuda, wrong_replay=True), Case()
    reports = run_in_graph_mode([good.case, stale.case, plain], cuda, monkeypatch)
    assert [report.status for report in reports] == ["ok", "invalid", "unavailable"]
    assert reports[0].regions_s == {}
    assert good.python_calls == 3  # the first check, the call before the capture, and the capture
    assert (reports[1].reason, reports[1].samples_s) == ("4, expected 6", [])


def test_lack_of_memory_in_capture_is_oom(monkeypatch):
    cuda = fakes.FakeGraphs()

    def allocates():
        if cuda.captured is not None:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    greedy, good = Case(step=CapturableStep(allocates)), Doubling(cuda)
    reports = run_in_graph_mode([greedy, good.case], cuda, monkeypatch)
    assert [report.status for report in reports] == ["oom", "ok"]

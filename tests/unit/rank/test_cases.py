"""What a rank does with a suite's cases: refuses, verifies and times them, cold, as CUDA graphs, or seen by nsys."""

import math
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from benchkit.api.case import CallsPerSample, CapturableStep, Case, Components, Work
from benchkit.api.regions import region, use_marker
from benchkit.errors import ConfigError, InvalidResult
from benchkit.record.record import CaseRecord, ComponentPositions
from benchkit.suites.transformer.suite import TransformerConfig

from tests.support import configs, fakes
from tests.support.entries import rank
from tests.support.entries.measure import HostClock, Measurement, measure
from tests.support.one_rank import UNSLOWED, group, reports_of

EVEN, ODD = Case(labels={"strategy": "even"}), Case(labels={"strategy": "odd"})
COLD = {"mode": "cold", "warmup_iterations": 0, "max_iterations": 3}


def refusals(check, wanted, kind):
    """The lines by which a check refuses each of these."""
    lines = []
    for each in wanted:
        with pytest.raises(kind) as refused:
            check(each)
        lines.append(str(refused.value))
    return "\n".join(lines)


def test_require_sound_refuses_bad_cases(golden):
    wanted = [
        [],
        [Case(labels={"seed": 1})],
        [Case(labels={"model": 1})],
        [EVEN, EVEN],
        [Case(labels={"a": 1}, baseline=ODD)],
        [EVEN, Case(baseline=Case(labels=EVEN.labels))],
        [EVEN, Case(components=Components(ODD, EVEN))],
        [EVEN, Case(components=Components(EVEN, ODD))],
        [Case(labels={"rate": math.nan})],
        [Case(work=Work(useful_flops=math.inf))],
    ]
    config = configs.config(model=1)
    golden(refusals(lambda cases: rank.require_valid_cases(cases, config), wanted, ValueError))


def test_sound_cases_are_accepted():
    for cases in (
        [Case(), Case()],
        [Case(labels={"ranks": 2})],
        [Case(baseline=EVEN, components=Components(ODD, EVEN)), EVEN, ODD],
    ):
        rank.require_valid_cases(cases, configs.config())
    lists = [Case(labels={"model": size}) for size in (1, 2)]  # a key that holds a list is no column
    rank.require_valid_cases(lists, configs.config(model=[1, 2]))


def test_reports_refer_to_case_positions():
    even, sends = Case(skip="not here"), Case(skip="not here", is_component=True)
    ours = Case(skip="not here", baseline=even, components=Components(communication=sends))
    reports = reports_of([ours, even, sends])
    assert [report.baseline for report in reports] == [1, None, None]
    assert reports[0].components == ComponentPositions(computation=None, communication=2)
    assert [report.is_component for report in reports] == [False, False, True]


def test_timed_case_is_rounded_to_nanoseconds():
    odd_s, rounded_s = [[0.0012345678912, 1e-9]], [[0.001234568, 1e-9]]
    alike = {
        "calls_per_sample": 3, "blocks": [2], "steady": True, "disturbance": {"steal_s": [0.5]}, "elapsed_s": 0.1,
        "stopped_by": "max_iterations", "converged": False, "ranks": 1, "estimator": "any",
    }  # fmt: skip
    measurement = Measurement(
        warmup_s=odd_s, samples_s=odd_s, start_offsets_s=odd_s, regions_s={"wait": odd_s}, **alike
    )
    case = Case(labels={"a": 1}, work=Work(payload_bytes=8), details=lambda: {"tokens": [4]}, ranks=1, estimator="any")
    each = rank.CaseRun(case, measurement=measurement)
    record = rank.add_details(rank.case_record(each, [case], HostClock()), each)
    assert record == CaseRecord(
        labels={"a": 1}, status="ok", payload_bytes=8, details={"tokens": [4]},
        warmup_s=rounded_s, samples_s=rounded_s, start_offsets_s=rounded_s, regions_s={"wait": rounded_s}, **alike,
    )  # fmt: skip
    other = rank.case_record(each, [case], fakes.FakeClock(lambda: 0.0))
    assert other == replace(record, start_offsets_s=None, details={})


def test_settings_that_contradict_each_other_are_refused(golden):
    wanted = [
        {"measure": fakes.plan(cold_l2=True)},
        {"profile": "nsys"},
        {"measure": fakes.plan(**COLD | {"warmup_iterations": 2})},
        {"measure": fakes.plan(**COLD | {"calls_per_sample": 3})},
        {"measure": fakes.plan(**COLD), "ranks": "reuse"},
        {"ranks": "reuse", "repeat": 2},
    ]
    golden(refusals(lambda changes: configs.config(**changes).check(), wanted, ConfigError))
    for changes in wanted[:2]:
        configs.config(device="cuda", **changes).check()
    configs.config(profile=True).check()


def test_nothing_runs_before_first_cold_sample():
    done = []
    case = Case(
        step=lambda: done.append("call"), verify=lambda call: done.append("verify"), calls=CallsPerSample(fill_s=1.0)
    )
    [report] = reports_of([case], **COLD)
    assert done == ["call"] * 3 + ["verify"] + ["call"] * 2
    assert (report.status, len(report.samples_s[0]), report.calls_per_sample) == ("ok", 3, 1)
    [report] = reports_of([Case(verify=wrong)], **COLD)
    assert (report.status, report.reason) == ("invalid", "element 3")


def wrong(call):
    raise InvalidResult("element 3")


def test_details_that_are_no_numbers_are_warned_of():
    details = {"loss": math.nan, "norms": [1.0, math.inf], "of": {"step": -math.inf}, "sound": 1.0}
    reports = reports_of([Case(details=lambda: details), Case(details=lambda: {"sound": 1.0})])
    [warning] = rank.not_finite_warnings(reports)
    assert all(odd in warning for odd in ("loss=nan", "norms.1=inf", "of.step=-inf")), warning
    assert "sound" not in warning


def test_several_cold_cases_in_a_process_are_warned_of(golden):
    first = reports_of([Case()], **COLD)
    config = configs.made(TransformerConfig, passes=["forward", "train_step"], measure=fakes.plan(**COLD))
    [warning] = rank.shared_process_warnings(config, first * 2)
    golden(warning)  # with what to type instead
    assert rank.shared_process_warnings(config, first) == []
    config.measure = fakes.plan(**COLD | {"mode": "per_iteration"})
    assert rank.shared_process_warnings(config, first * 2) == []


def timed_with_hooks(case, config, cuda):
    hooks = rank.make_hooks(config, UNSLOWED, 1, cuda=cuda)
    few = fakes.plan(max_iterations=2, min_blocks=1, warmup_iterations=1)
    return measure([case], few, clock=HostClock(), barrier=lambda: None, all_gather=fakes.alone, seed=0, hooks=hooks)


@pytest.mark.parametrize("profile", [True, "nsys"])
def test_nsys_captures_measured_samples(profile):
    """Every series has a range with the labels of its case; with profile=nsys the blocks are captured."""
    cuda = fakes.FakeCuda()
    case = Case(step=lambda: cuda.calls.append("step"), labels={"size": 64, "timing": "latency"})
    timed_with_hooks(case, configs.config(device="cuda", profile=profile), cuda)
    name = "push size=64 timing=latency"
    block = [name, "step", "step", "pop"]
    captured = ["synchronize", "start", *block, "synchronize", "stop"] if profile == "nsys" else block
    assert cuda.calls == [name, "step", "pop", *captured]


def broken():
    raise RuntimeError("CUDA error: an illegal memory access")


@pytest.mark.parametrize("broken_gpu", [False, True])
def test_profiler_is_flushed_after_failure(broken_gpu):
    cuda = SimpleNamespace(synchronize=broken) if broken_gpu else fakes.FakeCuda()
    with pytest.raises(ZeroDivisionError), rank.flush_profiler("cuda", cuda):
        raise ZeroDivisionError
    assert broken_gpu or cuda.calls == ["synchronize", "stop"]


def test_cpu_tells_nsys_nothing():
    cuda = fakes.FakeCuda()
    timed_with_hooks(Case(), configs.config(), cuda)
    with rank.flush_profiler("cpu", cuda):
        pass
    assert cuda.calls == []


def test_cold_l2_writes_twice_the_cache(monkeypatch):
    made, said = [], []

    def empty(size, dtype, device):
        made.append((size * dtype.itemsize, device))
        return SimpleNamespace(zero_=lambda: said.append("flush"))

    monkeypatch.setattr("torch.empty", empty)
    config = configs.config(device="cuda", measure=fakes.plan(cold_l2=True))
    timed_with_hooks(
        Case(step=lambda: said.append("step"), reset=lambda: said.append("reset")), config, fakes.FakeCuda()
    )
    assert made == [(2 * fakes.L2_BYTES, "cuda")]
    assert said == ["reset", "flush", "step"] * 3


OOM = "CUDA out of memory. Tried to allocate 9 bytes."


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
    [result] = timed_with_hooks(Case(step=too_large), configs.config(), None)
    assert result.oom_reason == OOM
    assert left == [[None]]


def verified(cases, group):
    all_cases = [rank.CaseRun(case) for case in cases]
    rank.verify(rank.RankRun(configs.config(), HostClock(), group, UNSLOWED, None), all_cases)
    return all_cases


def test_memory_is_freed_after_oom_in_check(emptied):
    too_large, left = emptied
    cases = verified([Case(), Case(verify=too_large), Case(verify=wrong)], group())
    assert [each.status for each in cases] == ["ok", "oom", "invalid"]
    assert [each.why.reason for each in cases] == ["", OOM, "element 3"]
    assert left == [[None]]


def test_several_ranks_raise_oom(emptied):
    too_large, left = emptied
    assert rank.make_hooks(configs.config(), UNSLOWED, 2).after_oom is None
    with pytest.raises(torch.OutOfMemoryError):
        verified([Case(verify=too_large)], group(world_size=2, first_reason=None))
    assert left == []


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


def mark_nothing(name):
    raise AssertionError("regions are not marked while a step is captured")


def test_replay_takes_place_of_step():
    cuda = fakes.FakeGraphs()
    doubling = Doubling(cuda)
    with use_marker(mark_nothing):
        assert rank.capture(doubling.case, ON_GPU, cuda) == ""
    assert cuda.calls == ["side waits for main", "on side", "main waits for side", "on main", "capture"]
    doubling.value = 21
    doubling.case.step()
    assert (doubling.result, doubling.python_calls) == (42, 2)  # a first call and the capture
    assert rank.capture(doubling.case, ON_GPU, cuda) == ""  # of another case with the same step
    assert cuda.calls.count("capture") == 1


def failing_in_capture(cuda, error, calls):
    def step():
        calls.append(1)
        if cuda.captured is not None:
            raise error

    return CapturableStep(step)


def test_refused_step_is_not_run_again_and_says_why(golden):
    """It is not run again: on ranks that captured it, it would find no partner for its collective."""
    cuda, calls = fakes.FakeGraphs(), []
    error = RuntimeError("CUDA error: operation not permitted when stream is capturing\nCompile with …")
    step = failing_in_capture(cuda, error, calls)
    call = step.call
    first, second = (rank.capture(Case(step=step, labels={"timing": name}), ON_GPU, cuda) for name in "ab")
    assert first == second
    assert len(calls) == 2  # before the capture and in it
    assert (cuda.current.name, step.call) == ("main", call)
    reasons = [first]
    for config, other in [
        (ON_GPU, failing_in_capture(cuda, ZeroDivisionError("division by zero"), calls)),
        (configs.config(measure=fakes.plan(mode="graph")), CapturableStep(print)),
        (ON_GPU, print),
        (OVER_GLOO, CapturableStep(print, over="default")),
        (ON_GPU, CapturableStep(print, over="ucc/tl/cuda")),
    ]:
        reasons.append(rank.capture(Case(step=other), config, cuda))
    golden("\n".join(reasons))


def test_error_outside_capture_is_raised():
    with pytest.raises(RuntimeError, match="illegal"):
        rank.capture(Case(step=CapturableStep(broken)), ON_GPU, fakes.FakeGraphs())


@pytest.mark.parametrize(("config", "over"), [(OVER_GLOO, ""), (OVER_GLOO, "nccl"), (ON_GPU, "default")])
def test_steps_over_nccl_or_none_are_captured(config, over):
    doubling = Doubling(fakes.FakeGraphs())
    doubling.step.over = over
    assert rank.capture(doubling.case, config, doubling.cuda) == ""


@pytest.fixture
def in_graph_mode(monkeypatch):
    """Runs cases whose steps are captured on a fake GPU."""

    def run(cases, cuda):
        monkeypatch.setattr(rank.run_cases, "capture", lambda case, config: rank.capture(case, ON_GPU, cuda))
        return reports_of(cases, mode="graph", max_iterations=2, min_blocks=1)

    return run


def test_replays_are_verified_and_timed(in_graph_mode):
    cuda = fakes.FakeGraphs()
    good, stale, plain = Doubling(cuda), Doubling(cuda, wrong_replay=True), Case()
    reports = in_graph_mode([good.case, stale.case, plain], cuda)
    assert [report.status for report in reports] == ["ok", "invalid", "unavailable"]
    assert reports[0].regions_s == {}
    assert good.python_calls == 3  # the first check, the call before the capture, and the capture
    assert (reports[1].reason, reports[1].samples_s) == ("4, expected 6", [])


def test_lack_of_memory_in_capture_is_oom(in_graph_mode):
    cuda = fakes.FakeGraphs()
    greedy = failing_in_capture(cuda, RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), [])
    reports = in_graph_mode([Case(step=greedy), Doubling(cuda).case], cuda)
    assert [report.status for report in reports] == ["oom", "ok"]


def test_clock_that_stands_still_makes_no_result(monkeypatch):
    monkeypatch.setattr(HostClock, "time", lambda self, call, repeat, delay_s=0.0: (0.0, 0.0 * bool(call())))
    [report] = reports_of([Case()])
    assert (report.status, "clock" in report.reason) == ("invalid", True)


def test_ranks_that_time_a_case_in_different_ways_are_refused():
    """A rank that takes no part, and one that cannot run a case, are no exception and an exception."""
    own, absent, other = Case(ranks=1, includes_launches=True), Case(ranks=1), Case(skip="full")

    def two(first, second):
        rows = [[rank.job.digest_of(first)], [rank.job.digest_of(second)]]
        rank.job.require_alike([first], group(all_gather=lambda values: rows))

    two(own, replace(own, step=lambda: None))
    two(own, other)
    with pytest.raises(ValueError, match="includes_launches"):
        two(own, absent)

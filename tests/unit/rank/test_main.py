"""What a suite may return."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from benchkit.api.case import Case, Components, Work
from benchkit.measure.clocks import HostClock
from benchkit.measure.measurement import Measurement
from benchkit.rank import main
from benchkit.rank.control_group import Finding, first_finding
from benchkit.rank.devices import Devices
from benchkit.rank.gpu_watch import GpuWatch
from benchkit.rank.run_cases import case_record, run_cases
from benchkit.rank.soundness import require_sound
from benchkit.rank.stopwatch import Stopwatch
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.record.case import CaseRecord, ComponentPositions
from benchkit.suites.ring_attention import suite
from benchkit.suites.transformer import suite as transformer
from launch.slowdown.throttle import NoThrottle
from launch.topology import Limits

from tests.support import configs, fakes

EVEN = Case(labels={"strategy": "even"})
ODD = Case(labels={"strategy": "odd"})


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ([], "returned no case"),
        ([Case(labels={"seed": 1})], "a label cannot be named seed"),
        ([EVEN, EVEN], "case {'strategy': 'even'} is returned twice; allowed is once"),
        ([Case(labels={"a": 1}, baseline=ODD)], "case {'a': 1}: its baseline {'strategy': 'odd'} is not returned"),
        ([EVEN, Case(baseline=Case(labels=EVEN.labels))], "case {}: its baseline {'strategy': 'even'} is not returned"),
        ([EVEN, Case(components=Components(ODD, EVEN))], "case {}: its computation {'strategy': 'odd'} is not"),
        ([EVEN, Case(components=Components(EVEN, ODD))], "case {}: its communication {'strategy': 'odd'} is not"),
    ],
)
def test_require_sound_refuses_bad_cases(cases, said):
    with pytest.raises(ValueError, match=r"^suite collective") as error:
        require_sound(cases, configs.config())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_require_sound_accepts_label_that_stands_for_list():
    """A key that holds a list is no column, so its cases may have one of its name."""
    cases = [Case(labels={"model": size}) for size in (1, 2)]
    require_sound(cases, configs.config(model=[1, 2]))
    with pytest.raises(ValueError, match="a label cannot be named model"):
        require_sound(cases, configs.config(model=1))


def test_require_sound_accepts_references():
    require_sound([Case(), Case()], configs.config())
    require_sound([Case(labels={"ranks": 2})], configs.config())
    require_sound([Case(baseline=EVEN, components=Components(ODD, EVEN)), EVEN, ODD], configs.config())


def test_reports_refer_to_case_positions():
    group = SimpleNamespace(world_size=1, barrier=None, exchange=fakes.alone)
    group.first_reason = lambda reasons: [first_finding((reason,)) for reason in reasons]
    even, sends = Case(skip="not here"), Case(skip="not here", is_component=True)
    ours = Case(skip="not here", baseline=even, components=Components(communication=sends))
    controller = ThrottleController(NoThrottle(), 1.0, 1.0)
    config = configs.config(measure=fakes.plan())
    reports = run_cases([ours, even, sends], config, HostClock(), group, Stopwatch(), controller, GpuWatch(Devices([])))
    assert [report.baseline for report in reports] == [1, None, None]
    assert reports[0].components == ComponentPositions(computation=None, communication=2)
    assert [report.is_component for report in reports] == [False, False, True]


def test_timed_case_is_rounded_to_nanoseconds():
    odd_s, rounded_s = [[0.0012345678912, 1e-9]], [[0.001234568, 1e-9]]
    measurement = Measurement(
        calls_per_sample=3, blocks=[2], warmup_s=odd_s, steady=True, samples_s=odd_s, start_offsets_s=odd_s,
        regions_s={"wait": odd_s}, disturbance={"steal_s": [0.5]}, elapsed_s=0.1, stopped_by="max_iterations",
        converged=False,
    )  # fmt: skip
    case = Case(labels={"a": 1}, work=Work(payload_bytes=8), details=lambda: {"tokens": [4]}, ranks=1, estimator="any")
    record = case_record(case, [case], "ok", Finding(), measurement, HostClock())
    assert record == CaseRecord(
        labels={"a": 1}, status="ok", payload_bytes=8, details={"tokens": [4]}, ranks=1, estimator="any",
        calls_per_sample=3, blocks=[2], warmup_s=rounded_s, steady=True, samples_s=rounded_s,
        start_offsets_s=rounded_s, regions_s={"wait": rounded_s}, disturbance={"steal_s": [0.5]}, elapsed_s=0.1,
        stopped_by="max_iterations", converged=False,
    )  # fmt: skip
    other = case_record(case, [case], "ok", Finding(), measurement, fakes.FakeClock(lambda: 0.0))
    assert other == replace(record, start_offsets_s=None)


@pytest.mark.parametrize("shortage", ["", "needs more"])
def test_strategies_use_even_as_baseline(shortage, monkeypatch):
    """Skipped or not: here every strategy says why it cannot run."""
    shared = SimpleNamespace(lacking=lambda strategy: "", obstacle=lambda strategy: shortage, doubts=())
    running = SimpleNamespace(step=None, verify=None, observe=None, details=None)
    monkeypatch.setattr("benchkit.suites.ring_attention.cases.RingCase", lambda shared, strategy: running)
    for strategies in (["reference", "even", "zigzag"], ["reference", "uneven", "zigzag"]):
        cases = suite.cases_of(shared, strategies)
        require_sound(cases, configs.config())
        assert [case.labels["strategy"] for case in cases] == strategies
        baseline = cases[1] if "even" in strategies and not shortage else None
        assert [case.baseline for case in cases] == [baseline, None, baseline]


def test_only_lut_strategy_has_warning(monkeypatch):
    running = SimpleNamespace(step=None, verify=None, observe=None, details=None)
    monkeypatch.setattr("benchkit.suites.ring_attention.cases.RingCase", lambda shared, strategy: running)
    shared = SimpleNamespace(lacking=lambda strategy: "", obstacle=lambda strategy: "", doubts=("too short",))
    assert [case.warnings for case in suite.cases_of(shared, ["even", "lut"])] == [(), ("too short",)]


def test_pass_lists_baseline_and_communication():
    def case(name, ranks, baseline=None, communication=None):
        return Case(labels={"ranks": ranks}, baseline=baseline, components=Components(communication=communication))

    job = SimpleNamespace(shared=True, rank=SimpleNamespace(world_size=2), case=case, communication=lambda name: EVEN)
    together, alone, communication = transformer.cases_of(job, "forward")
    assert [together.labels["ranks"], alone.labels["ranks"]] == [2, 1]
    assert (together.baseline, together.components) == (alone, Components(communication=EVEN))
    assert (alone.baseline, communication) == (None, EVEN)


def labels_of(cases):
    return [tuple(case.labels.values()) for case in cases]


def test_oversized_pass_is_skipped_case():
    from benchkit.suites.transformer.cases import TransformerJob

    training = TransformerJob.__new__(TransformerJob)
    model = SimpleNamespace(num_heads=2, d_ff=4)
    training.config = SimpleNamespace(parallel="ddp", passes=["forward"])
    training.rank, training.model, training.shared = SimpleNamespace(world_size=2, index=0), model, True
    training.lacking, training.shortage = "", lambda name, alone: "needs more"
    cases = transformer.cases_of(training, "forward")
    assert labels_of(cases) == [("forward", 2, "whole"), ("forward", 1, "whole")]
    assert [case.skip for case in cases] == ["needs more"] * 2
    training.lacking = "no such kernel"
    assert labels_of(transformer.cases_of(training, "forward")) == labels_of(cases)


def test_memory_of_scarcest_host_and_gpu_counts(monkeypatch):
    monkeypatch.setattr(main, "available_bytes", lambda device: 8e9)
    monkeypatch.setattr(main, "host_available_bytes", lambda: 50e9)
    monkeypatch.setattr(main, "PeakMemory", lambda device: None)
    place = SimpleNamespace(rank=0, local_world_size=4)
    config = configs.config(device="cuda", ranks_per_device=2)
    hosts, folder = ("n0", "n1") * 4, Path("outputs")
    assignment = SimpleNamespace(
        config=config, place=place, world_size=8, slowdown=(1.0,) * 8, hosts=hosts, folder=folder
    )
    group = SimpleNamespace(exchange=lambda own: [own, [6e9, 70e9, 2.0, 4.0]])
    kept = SimpleNamespace(group=group, device=torch.device("cuda"))
    rank = main.describe_rank(assignment, kept, SimpleNamespace(seconds_of=None))
    assert (rank.sharers, rank.available_bytes) == (2, 6e9)
    assert (rank.host_sharers, rank.host_available_bytes) == (4, 50e9)
    assert (rank.hosts, rank.folder) == (hosts, folder)
    assert not rank.by_mps
    assignment.slowdown = (1.0,) * 7 + (2.0,)
    assert main.describe_rank(assignment, kept, SimpleNamespace(seconds_of=None)).by_mps


def test_rank_that_differs_from_plan_is_named(monkeypatch):
    planned = Limits(cores=[0, 1, 2, 3], cpuset=[0, 1, 2, 3], cpu_quota=2.0)
    texts = []

    def of_three_ranks(own, handle):
        texts.extend(own)
        return [own, [], own]

    monkeypatch.setattr(main, "gather_json", of_three_ranks)
    assignment = SimpleNamespace(limits=planned, threads=torch.get_num_threads())
    group = SimpleNamespace(handle=None)
    monkeypatch.setattr(main, "limits", lambda: replace(planned, cpuset=[]))
    assert main.unplanned(assignment, group) == []
    got = {"cores": [0], "cpu_quota": None, "memory_bytes": 5}
    for field, value in got.items():
        monkeypatch.setattr(main, "limits", lambda changed={field: value}: replace(planned, **changed))
        [warning] = main.unplanned(assignment, group)
        assert warning.startswith("ranks 0, 2: ")
    monkeypatch.setattr(main, "limits", lambda: replace(planned, **got))
    assignment.threads += 1
    assert len(main.unplanned(assignment, group)) == 4

"""measure.mode=cold: nothing runs before the first calls of a case."""

from types import SimpleNamespace

import pytest
from benchkit.api.case import Case
from benchkit.errors import ConfigError, InvalidResult
from benchkit.measure.clocks import HostClock
from benchkit.point.kept_ranks import is_reused
from benchkit.rank.control_group import first_finding
from benchkit.rank.devices import Devices
from benchkit.rank.first_calls import of_several_cases
from benchkit.rank.gpu_watch import GpuWatch
from benchkit.rank.run_cases import run_cases
from benchkit.rank.stopwatch import Stopwatch
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.suites.transformer.config import TransformerConfig
from launch.slowdown.throttle import NoThrottle

from tests.support import configs, fakes

COLD = {"mode": "cold", "warmup_iterations": 0, "max_iterations": 3}


def timed(case, **measure):
    group = SimpleNamespace(
        world_size=1, barrier=lambda: None, exchange=fakes.alone,
        first_reason=lambda reasons: [first_finding([reason]) for reason in reasons],
    )  # fmt: skip
    config = configs.config(measure=fakes.plan(**measure))
    controller = ThrottleController(NoThrottle(), 1.0, 1.0)
    [report] = run_cases([case], config, HostClock(), group, Stopwatch(), controller, GpuWatch(Devices([])))
    return report


def test_nothing_runs_before_first_sample():
    done = []
    report = timed(
        Case(step=lambda: done.append("call"), verify=lambda call: done.append("verify"), fill_seconds=1.0), **COLD
    )
    assert done == ["call"] * 3 + ["verify"] + ["call"] * 2
    assert (report.status, len(report.samples_s[0]), report.calls_per_sample) == ("ok", 3, 1)


def test_wrong_result_is_found_afterwards():
    def verify(call):
        raise InvalidResult("wrong")

    report = timed(Case(verify=verify), **COLD)
    assert (report.status, report.reason) == ("invalid", "wrong")


@pytest.mark.parametrize(
    ("measure", "changes", "line"),
    [
        ({"warmup_iterations": 2}, {}, "measure.warmup_iterations=2: allowed is 0 with measure.mode=cold"),
        ({"calls_per_sample": 3}, {}, "measure.calls_per_sample=3: allowed is 1 with measure.mode=cold"),
        ({}, {"ranks": "reuse"}, "ranks=reuse: allowed are auto and fresh with measure.mode=cold"),
    ],
)
def test_what_warms_up_is_refused(measure, changes, line):
    with pytest.raises(ConfigError, match=line):
        configs.config(measure=fakes.plan(**COLD | measure), **changes).check()


def test_several_cases_in_a_process_are_warned_of_with_what_to_type():
    first = timed(Case(), **COLD)
    config = configs.made(TransformerConfig, passes=["forward", "train_step"], measure=fakes.plan(**COLD))
    [warning] = of_several_cases(config, [first, first])
    assert warning.startswith("2 cases took turns in the same processes")
    assert warning.endswith("for one case per point: passes=[forward],[train_step]")
    assert of_several_cases(config, [first]) == []
    config.measure = fakes.plan(**COLD | {"mode": "per_iteration"})
    assert of_several_cases(config, [first, first]) == []


def test_ranks_are_fresh_on_gpus():
    assert is_reused(configs.config("nccl", "cuda"))
    assert not is_reused(configs.config("nccl", "cuda", measure=fakes.plan(**COLD)))

"""How ranks are slowed as asked: the search for a setting, by readings that all ranks make together."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from types import SimpleNamespace

import pytest
import torch
from benchkit.api.case import Case
from benchkit.api.regions import QUEUEING
from benchkit.record.record import SlowdownReport

from tests.support.configs import config
from tests.support.entries import rank as ranks
from tests.support.entries.slowdown import NoThrottle
from tests.support.fakes import FakeClock
from tests.support.one_rank import UNSLOWED, group

CPU = torch.device("cpu")
NOTHING = [lambda: None] * 2


class Weak:
    """A brake that gives `strength` of what it is asked beyond 1."""

    mechanism, switchable = "cgroup", True

    def __init__(self, strength):
        self.strength, self.effect, self.presses = strength, 1.0, 0

    def apply(self, factor):
        self.presses += 1
        self.effect = 1 + (factor - 1) * self.strength

    def release(self):
        self.effect = 1.0


class Alone:
    """A world of this rank and another one: without a brake, which it says first, and as it should be."""

    def __init__(self, *told):
        self.told = list(told)

    def barrier(self):
        pass

    def all_gather(self, values):
        """Of a time (here 10 ms and more of those that the clock gives) the other's is as long."""
        if len(values) > 1 or values[0] == pytest.approx(0.01):
            return [values, values]
        return [[self.told.pop(0) if len(self.told) > 1 else self.told[0]], values]


def prober(throttle, factor, *others):
    clock = FakeClock(lambda: 0.01 * throttle.effect)
    controller = ranks.ThrottleController(throttle, factor, factor)
    return ranks.Prober(1, controller, factor, clock, Alone(*others), budget_s=0.1)


@pytest.mark.parametrize(
    ("call_ms", "host_ms", "count", "delay_s"),
    [(1.0, 0.1, 20, 0.0042), (0.01, 0.01, 490, 0.01), (0.001, 0.1, 49, 0.01), (20.0, 20.0, 1, 0.0)],
)
def test_probe_hides_launches(call_ms, host_ms, count, delay_s):
    """Calls of a GPU are queued behind a delay, as many as one can hide, or none where a call is too long for it."""
    taken = []

    class Clock:
        forget_regions = staticmethod(lambda: None)

        def time(self, call, repeat, delay_s=0.0):
            taken.append((repeat, delay_s))
            return 0.0, repeat * max(call_ms, 0.0 if delay_s else host_ms) * 1e-3

        def take_regions(self):
            return {QUEUEING: taken[-1][0] * host_ms * 1e-3}

    controller = ranks.ThrottleController(NoThrottle(), 1.0, 1.0)
    probe = ranks.Prober(0, controller, 1.0, Clock(), group(), budget_s=1.0)
    [[seconds]] = probe.seconds_of(lambda: None)
    assert taken[-1] == pytest.approx((count, delay_s), rel=0.03)
    assert seconds == pytest.approx(1e-3 * call_ms)


def test_calibrate_strengthens_weak_throttle():
    probe = prober(Weak(0.5), 3.0, 0.0, 1.0)
    slowdown = ranks.calibration.calibrate(probe, (1.0, 3.0), CPU)
    assert slowdown.measured == [1.0, pytest.approx(3.0)]
    assert slowdown.mechanism == "cgroup"
    assert ranks.calibration.slowdown_warnings(slowdown) == []
    assert probe.controller.setting == pytest.approx(5.0)
    assert probe.controller.throttle.effect == 1.0  # released


@pytest.mark.parametrize(
    ("measured", "setting"),
    [(1.01, 1.5), (3.0, 1.125), (1.2, 1.25), (1.4, 1.15625)],
)
def test_correct_limits_setting_change(measured, setting):
    controller = ranks.ThrottleController(NoThrottle(), 1.25, 1.25)
    controller.correct(measured)
    assert controller.setting == pytest.approx(setting)


class Erratic(Weak):
    """A brake that has these effects, one in each try, whatever it is asked."""

    def __init__(self, *effects):
        super().__init__(1.0)
        self.effects = effects

    def apply(self, factor):
        self.presses += 1
        self.effect = self.effects[(self.presses - 1) // ranks.TURNS]


@pytest.mark.parametrize(
    ("brake", "told", "measured"),
    [(Erratic(1.8, 2.9, 1.5), (0.0, 1.0), 1.8), (Weak(1.08), (0.0, 1.3, 1.0), 2.08)],  # the second is near enough
)
def test_calibrate_keeps_nearest_setting(brake, told, measured):
    probe = prober(brake, 2.0, *told)
    assert ranks.calibration.calibrate(probe, (1.0, 2.0), CPU).measured == [1.0, pytest.approx(measured)]
    assert probe.controller.setting == 2.0


class Pair:
    """Two ranks as threads, who wait for each other at every call; a call too many breaks it."""

    def __init__(self):
        self.all, self.told = Barrier(2, timeout=30), [[], []]

    def of(self, rank):
        def exchange(peers, values):
            self.told[rank] = values
            self.all.wait()
            told = list(self.told)
            self.all.wait()
            return told

        return type("Peer", (), {"barrier": lambda peers: self.all.wait(), "all_gather": exchange})()


def test_calibrate_agrees_on_all_ranks():
    pair, asked = Pair(), (2.0, 3.0)

    def calibrated(rank):
        throttle = Weak(1.0) if rank == 0 else Erratic(1.5, 2.4, 4.5)
        clock = FakeClock(lambda: 0.01 * throttle.effect)
        controller = ranks.ThrottleController(throttle, asked[rank], asked[rank])
        probe = ranks.Prober(rank, controller, max(asked), clock, pair.of(rank), 0.1)
        return ranks.calibration.calibrate(probe, asked, CPU).measured, probe.controller.setting

    with ThreadPoolExecutor(2) as threads:
        (first, setting), (second, _) = threads.map(calibrated, (0, 1))
    assert first == second == [pytest.approx(2.0), pytest.approx(2.4)]
    assert setting == 2.0


def controller_on_gpu(*slowdown, slow_by):
    asked = config(device="cuda", ranks_per_device=2, slowdown=list(slowdown))
    asked.hardware.slow_by = slow_by
    place = ranks.RankPlace(0, 0, 2, 0)
    return ranks.session.make_controller(ranks.Assignment(asked, place, 2, 1, slowdown, None, None, None))


def test_unslowed_case_needs_switchable_throttle():
    unslowed = Case(unslowed=True)
    assert ranks.full_speed_refusal(unslowed, ranks.ThrottleController(Weak(1.0), 2.0, 2.0)) == ""
    for slow_by, mechanism in (("auto", "none"), ("mps", "mps")):
        equal = controller_on_gpu(1.0, 1.0, slow_by=slow_by)
        assert (ranks.full_speed_refusal(unslowed, equal), equal.throttle.mechanism) == ("", mechanism)
    assert ranks.full_speed_refusal(Case(), controller_on_gpu(1.0, 2.0, slow_by="mps")) == ""
    for slow_by in ("auto", "mps"):
        assert "hardware.slowdown=1" in ranks.full_speed_refusal(unslowed, controller_on_gpu(1.0, 2.0, slow_by=slow_by))


def test_warning_names_miscalibrated_rank(golden):
    stuck = Weak(0.0)
    slowdown = ranks.calibration.calibrate(prober(stuck, 2.0, 0.0, 1.0), (1.0, 2.0), CPU)
    golden("\n".join(ranks.calibration.slowdown_warnings(slowdown)))
    assert stuck.presses > 3  # it was tried more than once
    for measured, lines in (([1.0, 2.29], 0), ([1.2, 2.4], 2)):
        assert len(ranks.calibration.slowdown_warnings(replace(slowdown, measured=measured))) == lines
    free = Weak(1.0)
    controller = ranks.ThrottleController(free, 1.0, 1.0)
    controller.apply()
    controller.correct(1.3)
    assert (free.presses, controller.setting) == (0, 1.0)


class Shares(Alone):
    """Two ranks under MPS with these times and multiprocessors."""

    def __init__(self, times_s, multiprocessors):
        once, median = ([[time, 0.0] for time in times_s], [[time] for time in times_s])
        self.exchanged = [[[1.0], [1.0]], once, once, median, [[float(n)] for n in multiprocessors]]

    def all_gather(self, values):
        return self.exchanged.pop(0)


@pytest.mark.parametrize(
    ("asked", "times_s", "measured", "warned"),
    [
        ((1.0, 2.0), (0.004, 0.011), [1.0, pytest.approx(2.75)], True),
        ((1.0, 1.0), (0.004, 0.0041), [1.0, pytest.approx(1.025)], False),
    ],
)
def test_gpu_shares_compare_with_largest(monkeypatch, asked, times_s, measured, warned):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=66))
    throttle = ranks.ThrottleController(NoThrottle("mps", switchable=False), 2.0, 2.0)
    probe = ranks.Prober(1, throttle, 2.0, FakeClock(lambda: 0.011), Shares(times_s, (66, 32)), 1.0)
    slowdown = ranks.calibration.calibrate(probe, asked, CPU)
    assert slowdown == SlowdownReport(asked=list(asked), mechanism="mps", measured=measured, multiprocessors=[66, 32])
    assert bool(ranks.calibration.slowdown_warnings(slowdown)) is warned


def test_probe_survives_calls_of_no_time():
    """Events of a GPU may say 0 for a call that enqueues nothing."""
    probe = ranks.Prober(0, UNSLOWED, 1.0, FakeClock(lambda: 0.0), group(), 1e-3)
    assert probe.slowdown_of(lambda: None) == [1.0]
    assert probe.seconds_of(lambda: None) == [[pytest.approx(1e-7)]]


def test_probe_alternates_throttled_calls():
    throttle = Weak(1.0)
    probe = prober(throttle, 4.0, 0.25)
    made = []
    calls = [lambda: made.append("a"), lambda: made.append("b")]
    assert [times[1] for times in probe.seconds_of(*calls)] == [pytest.approx(0.04)] * 2
    turns = "".join(call for call, _ in itertools.groupby(made))
    assert turns == "ab" * 8  # counted, and then seven turns each
    assert throttle.effect == 1.0


@pytest.mark.parametrize("worst", [1.0, 4.0])
def test_probe_time_scales_with_budget(worst):
    def spent_s(budget_s):
        clock = FakeClock(lambda: 1e-5)
        ranks.Prober(0, UNSLOWED, worst, clock, group(), budget_s).seconds_of(*NOTHING)
        return clock.seconds

    assert spent_s(1.0) == pytest.approx(2 * 7 * (0.02 if worst == 1 else 0.1), rel=0.01)
    assert spent_s(0.1) == pytest.approx(0.1 * spent_s(1.0), rel=0.01)
    slow = FakeClock(lambda: 6.0)
    ranks.Prober(0, UNSLOWED, 1.0, slow, group(), 1.0).seconds_of(*NOTHING)
    assert slow.repeats == [1] * (2 + 2 * 2)  # each once to count, then two turns of both

import itertools

import pytest
import torch

from benchkit.calibration import Pedal, Prober, Slowdown, calibrate
from launch.slowdown.brakes import NoBrake
from tests.benchkit.fakes import FakeClock


class Weak:
    """A brake that gives `strength` of what it is asked beyond 1."""

    mechanism, switchable = "cgroup", True

    def __init__(self, strength):
        self.strength, self.effect, self.presses = strength, 1.0, 0

    def press(self, factor):
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

    def exchange(self, values):
        """Of a time (here 10 ms and more of those that the clock gives) the other's is as long."""
        if len(values) > 1 or values[0] == pytest.approx(0.01):
            return [values, values]
        return [[self.told.pop(0) if len(self.told) > 1 else self.told[0]], values]


def prober(brake, factor, *others):
    clock = FakeClock(lambda: 0.01 * getattr(brake, "effect", 1.0))
    return Prober(1, Pedal(brake, factor, factor), factor, clock, Alone(*others))


def test_a_brake_that_is_too_weak_is_pressed_harder_until_it_is_right():
    probe = prober(Weak(0.5), 3.0, 0.0, 1.0)
    slowdown = calibrate(probe, (1.0, 3.0), torch.device("cpu"))
    assert slowdown.measured == [1.0, pytest.approx(3.0)]
    assert slowdown.mechanism == "cgroup"
    assert slowdown.warnings() == []
    assert probe.pedal.force == pytest.approx(5.0)
    assert probe.pedal.brake.effect == 1.0  # released


def test_what_stays_wrong_is_a_warning_that_names_the_rank():
    stuck = Weak(0.0)
    slowdown = calibrate(prober(stuck, 2.0, 0.0, 1.0), (1.0, 2.0), torch.device("cpu"))
    assert slowdown.warnings() == ["rank 1 is slowed 1 times by cgroup, asked 2"]
    assert stuck.presses > 3  # it was tried more than once


def test_fifteen_percent_off_is_let_pass():
    assert Slowdown("cgroup", [1.0, 2.0], [1.0, 2.29]).warnings() == []
    assert len(Slowdown("cgroup", [1.0, 2.0], [1.2, 2.4]).warnings()) == 2


def test_shares_of_a_gpu_are_measured_against_the_rank_with_the_largest():
    class Shares(Alone):
        def exchange(self, values):
            return [[1.0], [1.0]] if values == [1.0] else [[0.004], [0.011]]

    probe = Prober(1, Pedal(NoBrake("mps"), 2.0, 2.0), 2.0, FakeClock(lambda: 0.011), Shares())
    slowdown = calibrate(probe, (1.0, 2.0), torch.device("cpu"))
    assert slowdown.mechanism == "mps"
    assert slowdown.measured == [1.0, pytest.approx(2.75)]
    assert slowdown.as_dict() == {"mechanism": "mps", "asked": [1.0, 2.0], "measured": slowdown.measured}


def test_who_runs_at_full_speed_is_never_braked():
    brake = Weak(1.0)
    pedal = Pedal(brake, 1.0, 1.0)
    pedal.press()
    pedal.correct(1.3)
    assert (brake.presses, pedal.force) == (0, 1.0)


def test_calls_are_timed_in_turns_with_the_brake_on_and_it_is_let_go():
    brake = Weak(1.0)
    probe = prober(brake, 4.0, 0.25)
    made = []
    calls = [lambda: made.append("a"), lambda: made.append("b")]
    assert [times[1] for times in probe.seconds_of(*calls)] == [pytest.approx(0.04)] * 2
    turns = "".join(call for call, _ in itertools.groupby(made))
    assert turns == "ab" * 8  # counted, and then seven turns each
    assert brake.effect == 1.0

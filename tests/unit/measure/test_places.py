"""Checks among the samples: steps that are right before and after them are found by these alone."""

import math
import random

import pytest
from benchkit.api.case import Case
from benchkit.errors import InvalidResult

from tests.support.entries.measure import check_schedule, timer
from tests.support.one_rank import reports_of

WARM_UP, SAMPLES, SEEDS = 5, 100, 25


class Copying:
    """A step that copies a number, and does nothing in the calls that `is_skipped` names, from 0 on."""

    def __init__(self, is_skipped):
        self.is_skipped, self.num_calls, self.given, self.copied = is_skipped, 0, 0, 0

    def step(self):
        if not self.is_skipped(self.num_calls):
            self.copied = self.given
        self.num_calls += 1

    def verify(self, call):
        def prepare():
            self.given, self.copied = self.given + 1, -1

        call(prepare)
        if self.copied != self.given:
            raise InvalidResult(f"{self.copied}, expected {self.given}")


def found(monkeypatch, is_skipped):
    """In how many of SEEDS draws of the places a fault is found, by all the checks that have places."""
    monkeypatch.setattr(check_schedule, "SHARE_OF_TIME", math.inf)
    statuses = []
    for seed in range(SEEDS):
        monkeypatch.setattr(timer.Timer, "shared_random_number", lambda self, seed=seed: seed)
        copying = Copying(is_skipped)
        case = Case(step=copying.step, verify=copying.verify)
        plan = {"warmup_iterations": WARM_UP, "max_iterations": SAMPLES, "min_blocks": SAMPLES}
        [report] = reports_of([case], **plan)
        statuses.append(report.status)
    return statuses.count("invalid")


FIRST = 1 + WARM_UP  # after the call that is verified before


@pytest.mark.parametrize(
    ("is_skipped", "fewest"),
    [
        (lambda call: FIRST <= call < FIRST + 99, SEEDS),
        (lambda call: FIRST <= call < FIRST + 40, 0.7 * SEEDS),
        (lambda call: call >= FIRST and call % 10 == 0, 0.1 * SEEDS),
        (lambda call: random.random() < 0.5 and FIRST <= call < FIRST + 99, 0.6 * SEEDS),
    ],
    ids=["99 of 100", "the first 40", "each tenth", "every other by chance"],
)
def test_wrong_samples_among_right_ones_are_found(monkeypatch, is_skipped, fewest):
    random.seed(1)
    assert found(monkeypatch, is_skipped) >= fewest
    assert found(monkeypatch, lambda call: False) == 0


@pytest.mark.parametrize(("max_iterations", "checks"), [(100, 3), (60, 3), (40, 2), (20, 1), (10, 0)])
def test_checks_take_a_share_of_the_samples_and_none_of_their_time(max_iterations, checks):
    copying = Copying(lambda call: False)
    case = Case(step=copying.step, verify=copying.verify)
    [report] = reports_of([case], max_iterations=max_iterations, warmup_iterations=0, min_blocks=1)
    assert (report.status, len(report.samples_s[0])) == ("ok", max_iterations)
    assert report.checks is not None
    assert min(checks, 1) <= report.checks <= checks  # further ones are left out where they take too long
    assert copying.num_calls == 1 + max_iterations + 3 * report.checks + 2


def test_places_are_others_in_each_run():
    draws = {timer.Timer(None, None, lambda values: [values]).shared_random_number() for _ in range(3)}
    assert len(draws) == 3


def test_first_calls_are_not_checked_among_themselves():
    copying = Copying(lambda call: False)
    cold = {"mode": "cold", "warmup_iterations": 0, "max_iterations": 50}
    [report] = reports_of([Case(step=copying.step, verify=copying.verify)], **cold)
    assert (report.status, report.checks) == ("ok", None)

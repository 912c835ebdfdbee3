import itertools

import pytest
from benchkit.api.case import Case
from benchkit.selftest import runs
from perf.harness import clock, perturbation


def test_readings_give_resolution_and_cost():
    steps = itertools.cycle([0, 20, 40, 20])
    readings = itertools.accumulate(steps)
    found = clock.read_pairs(lambda: next(readings))
    assert found == clock.Clock(resolution_s=20e-9, pair_s=20e-9, pair_p99_s=40e-9)


@pytest.mark.parametrize(("offset", "agrees"), [(0.0, True), (0.05, True), (0.2, False), (-2.0, False)])
def test_offset_is_bounded_by_event_order(offset, agrees):
    """Rank 1 enters the first exchange last and leaves the second first."""
    before = [[0.0, 10.0], [0.9 + offset, 10.0 + offset]]
    after = [[1.0, 11.0], [1.1 + offset, 10.1 + offset]]
    low, high = clock.offset_bounds(before, after)
    assert (low <= 0 <= high) is agrees
    assert low <= max(0, offset)
    assert high >= min(0, offset)


def test_lost_time_exceeds_undisturbed_work():
    found = runs.noise_of(3, [1e-4] * 8 + [2e-4, 1.1e-3])
    assert found.core == 3
    assert found.longer_share == pytest.approx(0.2)
    assert found.lost_share == pytest.approx(1.1e-3 / 2.1e-3)
    assert found.longest_s == 1.1e-3


def test_every_core_is_measured(monkeypatch):
    monkeypatch.setattr(runs, "affinity_cores", lambda: [0, 2])
    seconds, bound = itertools.count(0.0, 1e-4), []
    found = runs.measure_cores(0.02, lambda: next(seconds), bound.append)
    assert bound == [{0}, {2}, {0, 2}]
    assert [(core.core, core.longer_share) for core in found.cores] == [(0, 0.0), (2, 0.0)]
    assert set(found.counted_s) == set(runs.KERNEL_COUNTERS)


class OneRank:
    """The ranks of a job of one, which count their barriers."""

    barriers = 0

    def barrier(self):
        self.barriers += 1

    def all_gather(self, values):
        return [values]


def test_both_arms_make_equal_calls():
    made, ranks = [], OneRank()
    case = Case(step=lambda: made.append("step"), reset=lambda: made.append("reset"))
    bare = perturbation.bare_loop(case, 3, 5, ranks)
    by_hand, barriers = made.copy(), ranks.barriers
    made.clear()
    ours = perturbation.by_benchkit(case, 3, 5, ranks, 0)
    assert (made, ranks.barriers) == (by_hand, 2 * barriers)
    assert len(bare) == len(ours) == 5

import pytest
from launch.agents.clock_sync import Estimate, Offset, OffsetTracker, best


def test_best_uses_shortest_round_trip():
    answers = [(10.0, 510.5, 10.9), (11.0, 511.05, 11.1), (12.0, 512.9, 13.0)]
    estimate = best(answers)
    assert estimate.offset_s == pytest.approx(500.0)
    assert estimate.here_s == pytest.approx(11.05)
    assert estimate.error_s == pytest.approx(0.05)


def test_tracker_fits_linear_drift():
    tracker = OffsetTracker([Estimate(100.0, 5.0, 1e-4), Estimate(200.0, 5.001, 1e-4)])
    offset = tracker.offset()
    assert offset.drift == pytest.approx(1e-5)
    assert offset.at(300.0) == pytest.approx(5.002)
    tracker.estimates.append(Estimate(300.0, 5.0025, 2e-4))
    assert tracker.error_s(offset) == pytest.approx(2e-4 + 5e-4)  # half a round trip, and how far the line missed


def test_tracker_needs_time_for_drift():
    tracker = OffsetTracker([Estimate(100.0, 5.0, 1e-4), Estimate(100.01, 5.0001, 1e-4)])
    assert tracker.offset().drift == 0.0
    assert tracker.offset().at(200.0) == pytest.approx(5.0001)


def test_shared_clock_has_zero_offset():
    assert OffsetTracker().offset() == Offset()
    assert Offset().at(1e6) == 0.0
    assert OffsetTracker().error_s(Offset()) == 0.0

"""Secondary figures: 95th percentiles and the share of the slow mode."""

import numpy as np
import pytest
from benchkit.statistics.intervals import slow_shares
from benchkit.statistics.multiplicity import judge_secondary_metrics
from benchkit.statistics.rank_tests import SignedRank


def two_modes(slow_share, generator, size=300):
    slow = generator.random(size) < slow_share
    return np.where(slow, 3.0, 1.0) * generator.lognormal(sigma=0.05, size=size)


def test_second_figure_halves_alpha():
    spread = np.linspace(-1, 1, 12)
    alone = judge_secondary_metrics({"p95": SignedRank(spread + 0.48)})["p95"]
    assert 0.025 < alone.p_value < 0.05
    assert alone.is_significant
    assert alone.low > 0
    both = judge_secondary_metrics({"p95": SignedRank(spread + 0.48), "slow share": SignedRank(spread)})
    assert not both["p95"].is_significant
    assert both["p95"].low < 0 < both["p95"].high
    assert both["p95"].p_value == alone.p_value


def test_clear_change_frees_alpha_for_others():
    spread = np.linspace(-1, 1, 12)
    found = judge_secondary_metrics({"p95": SignedRank(spread + 0.48), "slow share": SignedRank(spread - 9)})
    assert found["p95"].is_significant
    assert (found["slow share"].is_significant, found["slow share"].estimate) == (True, pytest.approx(-9))


def test_joint_false_alarms_are_rare():
    generator, alarms = np.random.default_rng(6), 0
    for _ in range(300):
        found = judge_secondary_metrics({name: SignedRank(generator.standard_normal(15)) for name in range(6)})
        alarms += any(change.is_significant for change in found.values())
    assert alarms / 300 < 0.08


def test_slow_mode_in_either_arm_is_found():
    generator = np.random.default_rng(8)
    none, some = [[two_modes(share, generator) for _ in range(5)] for share in (0.0, 0.3)]
    for arms in ((none, some), (some, none)):
        assert [round(float(shares.mean()), 1) for shares in slow_shares(*arms)] == [
            round(0.3 * (a is some), 1) for a in arms
        ]


def test_uniform_slowdown_has_no_slow_mode():
    generator = np.random.default_rng(9)
    runs = [two_modes(0.0, generator) for _ in range(5)]
    assert slow_shares(runs, [3 * run for run in runs]) is None


def test_empty_run_has_no_share():
    generator = np.random.default_rng(10)
    shares, _ = slow_shares([two_modes(0.3, generator), np.array([])], [two_modes(0.3, generator)] * 2)
    assert np.isnan(shares).tolist() == [False, True]
    assert slow_shares([], []) is None


def test_coarse_clock_gives_no_modes():
    generator = np.random.default_rng(11)
    runs = [np.where(generator.random(300) < 0.5, 1.0e-6, 1.05e-6) for _ in range(5)]
    assert slow_shares(runs, runs) is None

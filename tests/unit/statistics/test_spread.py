"""The spread between runs, the effects that pairs can show, and how many pairs an effect needs."""

import math

import numpy as np
import pytest
from benchkit.record.naming import percent
from benchkit.statistics.power import difference_of_runs, equivalent_sd, pairs_needed, run_deviations, smallest_effect
from benchkit.statistics.rank_tests import SignedRank


def test_spread_uses_logarithms():
    shared = np.array([1.0, 2.0, 4.0])
    spread = run_deviations(shared, shared * np.array([1.0, 1.0, math.e]))
    assert spread.baseline == pytest.approx(math.log(2))
    assert spread.ratios == pytest.approx(1 / math.sqrt(3))  # what both runs of a pair share is gone
    assert spread.candidate == pytest.approx(np.std([0, math.log(2), math.log(4) + 1], ddof=1))


def test_one_run_has_no_spread():
    spread = run_deviations(np.array([1.0, np.nan]), np.array([1.0, 2.0]))
    assert (spread.baseline, spread.ratios) == (None, None)
    assert spread.candidate == pytest.approx(math.log(2) / math.sqrt(2))


def test_effects_match_hand_calculation():
    """The paired t-test finds an effect of 0.996 standard deviations with 10 pairs at a power of 0.8 (Cohen)."""
    assert smallest_effect(1.0, 10) == pytest.approx(0.996 * math.sqrt(math.pi / 3), rel=0.02)
    assert pairs_needed(1.0, 0.996) == 11
    assert smallest_effect(0.1, 5) == math.inf  # 5 pairs have no interval at 0.05
    assert pairs_needed(0.0, 0.1) == 6


@pytest.mark.parametrize("alpha", [0.05, 0.0158, 0.001])
def test_effect_and_pairs_are_inverse(alpha):
    for pairs in (15, 40, 300):
        effect = smallest_effect(0.2, pairs, alpha)
        assert pairs_needed(0.2, effect * 1.0001, alpha) == pairs
        assert pairs_needed(0.2, effect * 0.9999, alpha) == pairs + 1


def test_equivalent_sd_matches_normal_values():
    generator = np.random.default_rng(1)
    found = [equivalent_sd(SignedRank(0.1 * generator.standard_normal(20))) for _ in range(300)]
    assert np.mean(found) == pytest.approx(0.1, rel=0.05)


def test_equivalent_sd_resists_outlier():
    values = np.linspace(-0.1, 0.1, 20)
    plain = equivalent_sd(SignedRank(values))
    assert equivalent_sd(SignedRank(np.append(values[:-1], 9.0))) < 1.3 * plain


def test_few_pairs_use_sample_sd():
    assert equivalent_sd(SignedRank(np.array([0.0, 1.0]))) == pytest.approx(math.sqrt(0.5))
    assert equivalent_sd(SignedRank(np.array([1.0]))) is None


def test_one_pair_in_twenty_differs_more():
    sigma = 0.1
    logs = np.random.default_rng(0).normal(0, sigma, (20_000, 2))
    beyond = np.abs(logs[:, 0] - logs[:, 1]) > math.log1p(difference_of_runs(sigma))
    assert beyond.mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (0.0042, "0.42 %"), (0.04, "4 %"), (6.18, "618 %")])
def test_differences_have_two_digits(share, text):
    assert percent(share) == text

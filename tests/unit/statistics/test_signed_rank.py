"""The signed-rank test, its estimate and its intervals, against tables and by enumeration."""

import itertools
import math

import numpy as np
import pytest
from benchkit.statistics.intervals import fewest_values
from benchkit.statistics.rank_tests import SignedRank, log_ratios, signed_rank_distribution
from hypothesis import given
from hypothesis import strategies as st

BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
"""Hollander and Wolfe, Nonparametric Statistical Methods, table 3.1: a score before and after therapy."""


def test_signed_rank_matches_textbook():
    test = SignedRank(np.subtract(AFTER, BEFORE))
    assert test.estimate == pytest.approx(-0.46)
    assert test.interval(0.05) == pytest.approx((-0.786, -0.010))
    assert test.p_below(0.0) == pytest.approx(10 / 512)  # 0.0195
    assert test.p_outside(0.0) == pytest.approx(20 / 512)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_distribution_matches_enumeration(n):
    sums = [sum(itertools.compress(range(1, n + 1), signs)) for signs in itertools.product((0, 1), repeat=n)]
    found = signed_rank_distribution(n)
    assert len(found) == n * (n + 1) // 2 + 1
    assert [round(each * 2**n) for each in found] == [sum(s <= t for s in sums) for t in range(len(found))]


@pytest.mark.parametrize(("n", "critical"), [(6, 0), (7, 2), (15, 25), (30, 137)])
def test_critical_values_match_tables(n, critical):
    """Two-sided 0.05, as in Wilcoxon and Wilcox (1964)."""
    found = signed_rank_distribution(n)
    assert found[critical] <= 0.025 < found[critical + 1]


values = st.lists(st.integers(-6, 6).map(lambda value: value / 4), min_size=1, max_size=14)


@given(values=values, limit=st.integers(-8, 8), alpha=st.sampled_from([0.01, 0.05, 0.125, 0.25, 0.5]))
def test_interval_excludes_rejected_limits(values, limit, alpha):
    """Also where values are tied, or equal the limit."""
    test, limit = SignedRank(np.array(values)), limit / 8
    low, high = test.interval(alpha)
    assert (low > limit) == (test.p_above(limit) <= alpha / 2)
    assert (high < limit) == (test.p_below(limit) <= alpha / 2)
    assert low <= test.estimate <= high


@given(values=values, shift=st.integers(-3, 3))
def test_estimates_shift_and_mirror_with_values(values, shift):
    values = np.array(values)
    here, there, mirrored = SignedRank(values), SignedRank(values + shift), SignedRank(-values)
    assert there.estimate == here.estimate + shift
    assert there.interval(0.25) == tuple(end + shift for end in here.interval(0.25))
    assert mirrored.estimate == -here.estimate
    assert mirrored.p_above(0.5) == here.p_below(-0.5)


def test_equivalence_needs_both_ends():
    test = SignedRank(np.linspace(-0.03, 0.05, 20))
    assert test.p_inside(0.1) < 1e-5
    assert test.p_inside(0.015) == test.p_below(0.015) > 0.1


def test_few_values_have_no_interval():
    test = SignedRank(np.arange(1.0, 6.0))
    assert test.interval(0.05) == (-math.inf, math.inf)
    assert test.p_outside(0.0) == 2 / 32
    assert SignedRank(np.arange(1.0, 7.0)).interval(0.05) == (1.0, 6.0)
    nothing = SignedRank(np.array([np.nan]))
    assert (nothing.num_values, nothing.p_outside(0.0), nothing.interval(0.5)) == (0, 1.0, (-math.inf, math.inf))


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.0158, 0.05 / 64])
def test_fewest_values_is_smallest_with_interval(alpha):
    fewest = fewest_values(alpha)
    assert math.isfinite(SignedRank(np.arange(float(fewest))).interval(alpha)[0])
    assert math.isinf(SignedRank(np.arange(float(fewest - 1))).interval(alpha)[0])


def test_log_ratios_drop_invalid_pairs():
    baseline = np.array([1.0, 2.0, np.nan, 0.0, 1.0, np.inf])
    candidate = np.array([2.0, 1.0, 1.0, 1.0, -1.0, np.inf])
    logs = log_ratios(baseline, candidate)
    assert logs[:2] == pytest.approx([math.log(2), -math.log(2)])
    assert np.isnan(logs[2:]).all()
    assert SignedRank(logs).num_values == 2

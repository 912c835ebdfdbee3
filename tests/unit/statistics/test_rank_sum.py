"""The rank-sum test, its estimate and its intervals, against tables and by enumeration."""

import itertools
import math

import numpy as np
import pytest
from benchkit.statistics import rank_tests
from benchkit.statistics.rank_tests import RankSum, rank_sum_distribution
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 5), (5, 3)])
def test_distribution_matches_enumeration(m, n):
    counts = [
        sum(rank > other for rank in first for other in set(range(m + n)) - set(first))
        for first in itertools.combinations(range(m + n), m)
    ]
    found = rank_sum_distribution(m, n)
    assert len(found) == m * n + 1
    assert [round(each * math.comb(m + n, m)) for each in found] == [
        sum(c <= u for c in counts) for u in range(m * n + 1)
    ]


@pytest.mark.parametrize(("m", "n", "critical"), [(4, 4, 0), (5, 8, 6), (10, 10, 23), (20, 20, 127)])
def test_critical_values_are_those_of_the_tables(m, n, critical):
    """Two-sided 0.05, as in Hollander and Wolfe."""
    found = rank_sum_distribution(m, n)
    assert found[critical] <= 0.025 < found[critical + 1]


def test_large_sizes_use_normal_distribution(monkeypatch):
    exact = rank_sum_distribution(30, 40)
    monkeypatch.setattr(rank_tests, "MOST_EXACT", 0)
    assert np.abs(rank_sum_distribution(30, 40) - exact).max() < 2e-3


def test_shift_is_median_difference():
    """By hand: the smallest and the largest of 16 differences, which 4 and 4 values leave out in 2 of 70 cases."""
    first, second = np.array([1.0, 2.0, 4.0, 8.0]), np.array([11.0, 13.0, 14.0, 20.0])
    test = RankSum(first, second)
    differences = sorted(b - a for a in first for b in second)
    assert test.estimate == np.median(differences)
    assert test.interval(0.05) == (differences[0], differences[-1])
    assert test.p_outside(0.0) == pytest.approx(2 / 70)


@pytest.mark.parametrize(("m", "n"), [(0, 3), (1, 1), (3, 3)])
def test_too_few_values_have_no_interval(m, n):
    test = RankSum(np.arange(m, dtype=float), np.arange(n, dtype=float))
    assert test.interval(0.05) == (-math.inf, math.inf)
    assert math.isnan(test.estimate) == (m * n == 0)


def test_values_that_are_missing_are_left_out():
    with_gap = RankSum(np.array([1.0, math.nan, 2.0]), np.array([math.inf, 3.0]))
    assert with_gap.estimate == RankSum(np.array([1.0, 2.0]), np.array([3.0])).estimate == 1.5


samples = st.lists(st.integers(-6, 6).map(lambda value: value / 4), min_size=1, max_size=8)


@given(first=samples, second=samples, limit=st.integers(-8, 8), alpha=st.sampled_from([0.01, 0.05, 0.125, 0.5]))
def test_interval_agrees_with_test(first, second, limit, alpha):
    """Also where values are tied, or differ by the limit."""
    test, limit = RankSum(np.array(first), np.array(second)), limit / 8
    low, high = test.interval(alpha)
    assert (low > limit) == (test.p_above(limit) <= alpha / 2)
    assert (high < limit) == (test.p_below(limit) <= alpha / 2)
    assert low <= test.estimate <= high


@given(first=samples, second=samples)
def test_swapping_the_samples_mirrors_all(first, second):
    here, there = RankSum(np.array(first), np.array(second)), RankSum(np.array(second), np.array(first))
    assert there.estimate == -here.estimate
    assert there.interval(0.125) == tuple(-end for end in reversed(here.interval(0.125)))
    assert there.p_above(0.5) == pytest.approx(here.p_below(-0.5))

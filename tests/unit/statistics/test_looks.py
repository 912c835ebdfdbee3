"""Looks that are declared before, and what they do to the error rate."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from analysis.compare.verdicts import SAME, SLOWER, UNCLEAR, judge_points
from benchkit.statistics.design import ALPHAS, LookPlan, auto_plan, fixed_plan
from benchkit.statistics.rank_tests import SignedRank


@pytest.mark.parametrize(
    ("max_pairs", "looks"), [(6, (6,)), (19, (19,)), (25, (12, 25)), (30, (10, 20, 30)), (200, (40, 80, 120, 160, 200))]
)
def test_looks_are_equally_spaced(max_pairs, looks):
    plan = auto_plan(max_pairs)
    assert (plan.looks, plan.alpha) == (looks, ALPHAS[len(looks) - 1])


def test_alphas_match_pocock_table():
    """The constants of Jennison and Turnbull, table 2.1."""
    for alpha, constant in zip(ALPHAS, (1.960, 2.178, 2.289, 2.361, 2.413), strict=True):
        assert 2 * NormalDist().cdf(-constant) == pytest.approx(alpha, abs=1e-4)


def test_comparison_stops_at_answered_look():
    plan = auto_plan(20)
    assert plan.goes_on(0, is_answered=False)
    assert plan.goes_on(7, is_answered=True)  # not a look
    assert plan.goes_on(10, is_answered=False)
    assert not plan.goes_on(10, is_answered=True)
    assert not plan.goes_on(20, is_answered=False)


def test_fixed_plan_has_one_look():
    plan = fixed_plan(20)
    assert plan == LookPlan((20,), 0.05)
    assert [plan.goes_on(pairs, is_answered=False) for pairs in (19, 20)] == [True, False]


def words_of(plan, logs, fail_on):
    """The word at the end of a comparison, and its pairs."""
    for look in plan.looks:
        [verdict] = judge_points([SignedRank(logs[:look])], [None], fail_on=fail_on, alpha=plan.alpha)
        if not plan.goes_on(look, is_answered=verdict.word != UNCLEAR):
            return verdict.word, look
    raise AssertionError("the last look ends it")


def test_looks_keep_error_rate():
    """Looks at 0.05 each are wrong in 14 %."""
    generator, plan, max_pairs = np.random.default_rng(11), auto_plan(50), 50
    found = [words_of(plan, generator.normal(0, 0.1, max_pairs), 0.0)[0] for _ in range(400)]
    assert 0.01 < 1 - found.count(UNCLEAR) / 400 < 0.065
    found = [words_of(plan, generator.normal(math.log(1.05), 0.05, max_pairs), 0.05)[0] for _ in range(400)]
    assert found.count(SAME) / 400 < 0.035


def test_large_change_is_found_early():
    generator, plan = np.random.default_rng(12), auto_plan(50)
    found = [words_of(plan, generator.normal(math.log(1.5), 0.1, 50), 0.05) for _ in range(50)]
    assert set(found) == {(SLOWER, 10)}

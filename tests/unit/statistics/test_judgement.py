"""The one judgement: what an interval of a speedup leaves to say."""

import math

import pytest
from benchkit.statistics.intervals import fewest_values, median_interval
from benchkit.statistics.judgement import (
    AHEAD,
    BEHIND,
    TIED,
    UNCLEAR,
    bonferroni_alpha,
    judge_interval,
    judge_speedup,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.2, 1.4, AHEAD), (0.7, 0.8, BEHIND), (0.97, 1.04, TIED), (1.01, 1.04, TIED), (0.96, 0.99, TIED),
        (1.01, 1.06, AHEAD), (0.99, 1.06, UNCLEAR), (0.5, 2.0, UNCLEAR), (1.0, 1.0, TIED), (1.0, 2.0, UNCLEAR),
    ],
)  # fmt: skip
def test_word_follows_from_the_interval(low, high, word):
    assert judge_speedup(low, high) == word


@given(st.floats(0.01, 100), st.floats(1, 10))
def test_other_way_round_is_the_opposite(low, width):
    opposite = {AHEAD: BEHIND, BEHIND: AHEAD}
    word = judge_speedup(low, low * width)
    assert judge_speedup(1 / (low * width), 1 / low) == opposite.get(word, word)


def test_noise_floor_is_no_difference():
    interval = math.log(1.08), math.log(1.2)
    assert judge_interval(interval) == AHEAD
    assert judge_interval(interval, floor=math.log(1.1)) == UNCLEAR


@pytest.mark.parametrize(("variants", "rounds"), [(2, 6), (3, 7), (5, 8), (8, 9)])
def test_more_variants_need_more_rounds(variants, rounds):
    alpha = bonferroni_alpha(variants - 1)
    assert fewest_values(alpha) == rounds
    assert median_interval(list(range(rounds)), alpha) is not None
    assert median_interval(list(range(rounds - 1)), alpha) is None

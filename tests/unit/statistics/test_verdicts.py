"""Verdicts on points, alone and among many, and the exit code that follows."""

import math

import numpy as np
import pytest
from analysis.compare.verdicts import (
    FAILED,
    FASTER,
    FIXED,
    NEW,
    NOT_COMPARED,
    SAME,
    SLOWER,
    UNCLEAR,
    exit_code,
    judge_points,
    word_by_outcomes,
)
from analysis.compare.verdicts import OutcomeCounts as Counts
from benchkit.statistics.multiplicity import benjamini_hochberg, holm
from benchkit.statistics.rank_tests import SignedRank, geometric_mean, noise_floor

PUBLISHED = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759, 1.0
]  # fmt: skip
"""Benjamini and Hochberg (1995), section 3.2."""


def pairs(ratio, sd=0.05, num_pairs=20):
    """Log ratios that are symmetric about that of a ratio."""
    return math.log(ratio) + sd * np.linspace(-1.6, 1.6, num_pairs)


def verdict(logs, fail_on=0.05, floor=None, alpha=0.05):
    [found] = judge_points([SignedRank(logs)], [floor], fail_on=fail_on, alpha=alpha)
    return found


@pytest.mark.parametrize(
    ("ratio", "sd", "word"),
    [
        (1.10, 0.05, SLOWER), (0.90, 0.05, FASTER), (1.00, 0.05, SAME),
        (1.03, 0.01, SAME), (0.97, 0.01, SAME),  # another, but by less than matters
        (1.04, 0.05, UNCLEAR), (0.96, 0.05, UNCLEAR),  # another; whether by as much as matters is open
        (1.00, 0.50, UNCLEAR), (1.05001, 0.001, SLOWER), (1 / 1.05001, 0.001, FASTER),
    ],
)  # fmt: skip
def test_verdict_follows_ratio_and_spread(ratio, sd, word):
    found = verdict(pairs(ratio, sd))
    assert found.word == word
    assert found.ratio == pytest.approx(ratio)
    assert found.low < found.ratio < found.high
    assert (found.confidence, found.num_pairs) == (0.95, 20)
    assert (found.pairs_needed is None) == (word != UNCLEAR)


def test_noise_floor_hides_small_change():
    assert verdict(pairs(1.10), floor=0.05).word == SLOWER
    hidden = verdict(pairs(1.10), floor=0.08)
    assert (hidden.word, hidden.p_value > 0.05) == (UNCLEAR, True)
    assert hidden.pairs_needed > 20
    assert verdict(pairs(1.10), floor=0.12).pairs_needed is None  # no number of pairs shows it
    assert verdict(pairs(0.90), floor=0.12).word == UNCLEAR
    assert verdict(pairs(1.00), floor=0.12).word == SAME


def test_zero_margin_counts_any_difference():
    assert verdict(pairs(1.01, 0.01), fail_on=0.0).word == SLOWER
    assert verdict(pairs(1.00, 0.01), fail_on=0.0).word == UNCLEAR
    assert verdict(pairs(1.00, 0.01), fail_on=0.0).pairs_needed is None


def test_pairs_needed_is_bounded():
    limit = 1.05
    assert verdict(pairs(limit * (1 - 1e-4), 0.05)).pairs_needed is None
    assert 100 < verdict(pairs(limit * (1 - 1e-2), 0.05)).pairs_needed < 1000
    assert verdict(pairs(math.nextafter(limit, 0), 0.05)).pairs_needed is None


@pytest.mark.parametrize("num_pairs", [0, 1, 5])
def test_too_few_pairs_are_unclear(num_pairs):
    found = verdict(pairs(1.5, 0.001, num_pairs))
    assert (found.word, found.low, found.high, found.num_pairs) == (UNCLEAR, 0.0, math.inf, num_pairs)
    assert found.pairs_needed == (6 if num_pairs == 5 else None)
    assert found.smallest_effect == (math.inf if num_pairs == 5 else None)


def test_needed_pairs_usually_give_answer():
    generator, answered = np.random.default_rng(2), 0
    for _ in range(40):
        draw = generator.normal(math.log(1.1), 0.2, 1000)
        wanted = verdict(draw[:15]).pairs_needed
        answered += wanted is None or verdict(draw[:wanted]).word != UNCLEAR
    assert answered >= 28


def test_identical_code_is_rarely_different():
    generator = np.random.default_rng(3)
    words = [verdict(generator.normal(0, 0.1, 15), fail_on=0.0).word for _ in range(500)]
    assert 0.02 < 1 - words.count(UNCLEAR) / 500 < 0.08


def test_relevant_change_rarely_passes_as_same():
    generator = np.random.default_rng(4)
    words = [verdict(generator.normal(math.log(1.05), 0.05, 30)).word for _ in range(500)]
    assert words.count(SAME) / 500 < 0.05
    assert words.count(SAME) > 0


def test_many_points_demand_more_evidence():
    generator = np.random.default_rng(5)
    marginal = next(draw for draw in generator.normal(0.1, 0.2, (1000, 20)) if 0.01 < verdict(draw).p_value < 0.05)
    unchanged = [generator.normal(0, 0.2, 20) for _ in range(19)]
    assert verdict(marginal).word == SLOWER
    first, *_ = judge_points(list(map(SignedRank, [marginal, *unchanged])), [None] * 20, fail_on=0.05)
    assert first.word == UNCLEAR
    assert first.low < 1 < first.high
    assert first.confidence == pytest.approx(1 - 0.05 / 20)
    among_changed = judge_points([SignedRank(marginal)] * 20, [None] * 20, fail_on=0.05)
    assert {found.word for found in among_changed} == {SLOWER}


def test_unchanged_points_keep_single_interval():
    assert set(judge_points([SignedRank(pairs(1.0))] * 20, [None] * 20, fail_on=0.05)) == {verdict(pairs(1.0))}


def test_benjamini_hochberg_matches_publication():
    alpha = benjamini_hochberg(PUBLISHED, 0.05)
    assert alpha == pytest.approx(4 * 0.05 / 15)
    assert sum(p <= alpha for p in PUBLISHED) == 4
    assert benjamini_hochberg([0.5, 0.6], 0.05) == 0.025
    assert benjamini_hochberg([0.04, 0.05], 0.05) == 0.05
    assert benjamini_hochberg([], 0.05) == 0.05


def test_holm_matches_publication():
    alpha = holm(PUBLISHED, 0.05)
    assert alpha == pytest.approx(0.05 / 12)
    assert sum(p <= alpha for p in PUBLISHED) == 3
    assert holm([0.03, 0.04], 0.05) == 0.025
    assert holm([0.02, 0.04], 0.05) == 0.05
    assert holm([], 0.05) == 0.05


def test_geometric_mean_interval_uses_pairs():
    shared = 0.2 * np.linspace(-1, 1, 10)
    mean, (low, high) = geometric_mean([math.log(1.2) + shared, math.log(1.0) - shared])
    assert mean == low == high == pytest.approx(math.sqrt(1.2))
    assert geometric_mean([shared, shared]) == geometric_mean([shared])  # a repeated point tells nothing new
    missing = np.where(np.arange(10) < 3, np.nan, shared)
    assert geometric_mean([shared, missing]) == geometric_mean([missing, missing])


def test_noise_floor_is_far_interval_end():
    assert noise_floor(np.log([1.01, 1.02, 1.03, 1.01, 1.02, 1.04])) == pytest.approx(0.04)
    assert noise_floor(-np.log([1.01, 1.02, 1.03, 1.01, 1.02, 1.04])) == pytest.approx(0.04)
    assert noise_floor(np.log([1.01, 1.02, 1.03, 1.01, 1.02])) is None


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([SAME, FASTER], 0), ([SAME, UNCLEAR], 3), ([UNCLEAR, SLOWER, FASTER], 1), ([], 0), ([SAME, FAILED], 1),
        ([UNCLEAR, FAILED], 1), ([FIXED, NEW, NOT_COMPARED], 0), ([SAME, NOT_COMPARED], 0), ([NEW, NOT_COMPARED], 3),
    ],
)  # fmt: skip
def test_exit_code_follows_worst_verdict(words, code):
    assert exit_code(words) == code


@pytest.mark.parametrize(
    ("baseline", "candidate", "word"),
    [
        (Counts(4), Counts(4), ""), (Counts(4), Counts(4, 1), FAILED), (Counts(4), Counts(4, 1, 1), FAILED),
        (Counts(4, 1, 1), Counts(8, 2, 2), ""), (Counts(4, 1, 1), Counts(8, 3, 2), FAILED),
        (Counts(4, 2, 2), Counts(4, 1, 1), ""),
        (Counts(4, 4, 4), Counts(4, 4, 4), NOT_COMPARED), (Counts(4, 4, 0), Counts(4, 4, 1), FAILED),
        (Counts(4, 4, 4), Counts(4, 4, 0), NOT_COMPARED), (Counts(4, 4, 4), Counts(4, 1, 1), FIXED),
        (Counts(0), Counts(4, 4, 4), NEW), (Counts(0), Counts(0), NOT_COMPARED), (Counts(4), Counts(0), NOT_COMPARED),
    ],
)  # fmt: skip
def test_word_follows_from_share_of_runs_without_result(baseline, candidate, word):
    assert word_by_outcomes(baseline, candidate) == word

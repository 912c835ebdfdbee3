"""The theory of splits: closed forms, exhaustive search, and what must hold for any speeds."""

import itertools
import math
import random

import pytest

from benchkit import splits
from benchkit.splits import CostModel, Split, balanced, even, ideal_s, looked_up, predict, uneven, zigzag

N = 65536
SKIPS, FULL = CostModel(), CostModel(skips=False)


def slowest(split: Split, speeds, cost=SKIPS) -> float:
    return max(predict(split, speeds, cost))


@pytest.mark.parametrize(
    ("cost", "share", "gain"), [(SKIPS, math.sqrt(0.5), 1.5), (FULL, (math.sqrt(5) - 1) / 2, 1.309)]
)
def test_of_two_equal_ranks_the_first_takes_more(cost, share, gain):
    """x^2 = 1/2 where future tiles are skipped, x^2 + x = 1 (the golden ratio) where they are not."""
    split = balanced(N, [1, 1], cost)
    assert split.tokens[0] / N == pytest.approx(share, abs=1e-4)
    assert slowest(even(N, [1, 1]), [1, 1], cost) / slowest(split, [1, 1], cost) == pytest.approx(gain, abs=1e-3)


@pytest.mark.parametrize("slowdown", [1, 1.25, 2, 4, 10])
def test_a_slow_last_rank_follows_the_closed_form(slowdown):
    """x^2 / 2 = s (1 - x^2) / 2."""
    split = balanced(N, [1, 1 / slowdown], SKIPS)
    assert split.tokens[0] / N == pytest.approx(math.sqrt(slowdown / (1 + slowdown)), abs=1e-4)
    assert slowest(split, [1, 1 / slowdown]) == pytest.approx(ideal_s(N, [1, 1 / slowdown], SKIPS), rel=1e-4)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("cost", [SKIPS, FULL, CostModel(1.0, 40.0), CostModel(1.0, 5.0, causal=False)])
def test_balanced_is_the_best_of_all_aligned_contiguous_splits(seed, cost):
    rng = random.Random(seed)
    speeds = [rng.choice([1, 1, 0.5, 0.1, 0.013, rng.random()]) for _ in range(rng.choice([2, 3]))]
    seq_len, align = rng.randrange(100, 400), 16
    marks = range(0, seq_len + align, align)
    best = min(
        slowest(Split("", splits.contiguous([0, *inner, seq_len])), speeds, cost)
        for inner in itertools.combinations_with_replacement([min(mark, seq_len) for mark in marks], len(speeds) - 1)
    )
    found = balanced(seq_len, speeds, cost, align)
    assert slowest(found, speeds, cost) == pytest.approx(best, rel=1e-6)
    assert all(end % align == 0 for [(_, end)] in found.pieces[:-1] if end != seq_len)


@pytest.mark.parametrize("seed", range(40))
def test_every_split_covers_the_sequence_once(seed):
    rng = random.Random(seed)
    speeds = [rng.uniform(0.01, 1) for _ in range(rng.randrange(1, 9))]
    seq_len, align = rng.randrange(1, 5000), rng.choice([1, 32, 64])
    table = {10.0: 1.0, 50.0: 6.0, 100.0: 10.0}
    for split in (
        even(seq_len, speeds, align),
        uneven(seq_len, speeds, align),
        looked_up(seq_len, [100 * speed for speed in speeds], table, align),
        balanced(seq_len, speeds, SKIPS, align),
        zigzag(seq_len, speeds, align),
    ):
        owned = sorted(position for rank in split.pieces for piece in rank for position in range(*piece))
        assert owned == list(range(seq_len)), split
        assert len(split.pieces) == len(speeds)
        assert sum(split.tokens) == seq_len


def test_work_of_zigzag_is_in_proportion_to_tokens():
    speeds = [1, 0.5, 0.25, 1]
    split = zigzag(N, speeds)
    assert slowest(split, speeds) == pytest.approx(ideal_s(N, speeds, SKIPS), rel=1e-3)
    assert split.tokens[0] / split.tokens[2] == pytest.approx(4, rel=1e-2)


def test_pairs_are_those_that_a_mask_would_leave():
    for start, end in [(0, 5), (3, 9), (7, 7)]:
        mask = sum(1 for query in range(start, end) for key in range(12) if key <= query)
        assert SKIPS.pairs((start, end), 12) == mask
        assert FULL.pairs((start, end), 12) == (end - start) * end
        assert CostModel(causal=False).pairs((start, end), 12) == (end - start) * 12


def test_a_hopeless_rank_gets_nothing_and_a_useful_one_something():
    assert balanced(1024, [1, 1e-6], SKIPS, 64).tokens == [1024, 0]
    assert balanced(1024, [1e-6, 1], SKIPS, 64).tokens == [0, 1024]
    assert min(balanced(1024, [1, 0.2], SKIPS, 64).tokens) > 0


def test_tables_are_interpolated_and_clamped():
    table = {100.0: 10.0, 10.0: 1.0, 50.0: 6.0}
    assert [splits.interpolate(table, share) for share in (5, 10, 30, 75, 100, 120)] == [1.0, 1.0, 3.5, 8.0, 10.0, 10.0]


def test_speeds_are_found_from_busy_times():
    speeds = [1.0, 0.25, 0.5]
    split = even(999, speeds)
    busy = predict(split, speeds, CostModel(1e-6, 1e-5))
    assert splits.measured_speeds(split, busy, CostModel(1e-6, 1e-5), [1, 1, 1]) == pytest.approx(speeds)
    nothing = Split("", splits.contiguous([0, 999, 999]))
    assert splits.measured_speeds(nothing, [1.0, 0.0], SKIPS, [1, 0.3])[1] == 0.3


def test_the_formula_never_gives_a_negative_share():
    for seq_len in (64, 4096, 32768, 65536, 10**6):
        for share in (1, 10, 30, 100):
            assert min(splits.formula(seq_len, [100, share]).tokens) >= 0
    assert splits.formula(4096, [100, 50]).tokens[0] > splits.formula(4096, [100, 90]).tokens[0] > 2048

"""The theory of splits: closed forms, exhaustive search, and what must hold for any speeds."""

import itertools
import math
import random

import pytest
from benchkit.suites.ring_attention import splits
from benchkit.suites.ring_attention.splits import (
    CostModel,
    Split,
    balanced,
    even,
    ideal_s,
    looked_up,
    predict,
    ring_s,
    uneven,
    zigzag,
)

N = 65536
SKIPS, FULL = CostModel(), CostModel(skips=False)


def slowest(split: Split, speeds, cost=SKIPS) -> float:
    return max(predict(split, speeds, cost))


@pytest.mark.parametrize(
    ("cost", "share", "gain"), [(SKIPS, math.sqrt(0.5), 1.5), (FULL, (math.sqrt(5) - 1) / 2, 1.309)]
)
def test_first_of_two_equal_ranks_takes_more(cost, share, gain):
    """x^2 = 1/2 where future tiles are skipped, x^2 + x = 1 (the golden ratio) where they are not."""
    split = balanced(N, [1, 1], cost)
    assert split.tokens[0] / N == pytest.approx(share, abs=1e-4)
    assert slowest(even(N, [1, 1]), [1, 1], cost) / slowest(split, [1, 1], cost) == pytest.approx(gain, abs=1e-3)


@pytest.mark.parametrize("slowdown", [1, 1.25, 2, 4, 10])
def test_slow_last_rank_follows_closed_form(slowdown):
    """x^2 / 2 = s (1 - x^2) / 2."""
    split = balanced(N, [1, 1 / slowdown], SKIPS)
    assert split.tokens[0] / N == pytest.approx(math.sqrt(slowdown / (1 + slowdown)), abs=1e-4)
    assert slowest(split, [1, 1 / slowdown]) == pytest.approx(ideal_s(N, [1, 1 / slowdown], SKIPS), rel=1e-4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cost", [SKIPS, FULL, CostModel(1.0, 40.0), CostModel(1.0, 5.0, causal=False)])
def test_balanced_matches_exhaustive_search(seed, cost):
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


@pytest.mark.parametrize("cost", [SKIPS, CostModel(1.4e-8, 1.2e-9, causal=False), CostModel(5.4e-9, pass_s=9.6e-11)])
def test_rounding_never_shortens_balanced_split(cost):
    rng = random.Random(0)
    for _ in range(100):  # of one rank, one time in forty was a rounding short of its own
        assert balanced(331, [rng.uniform(0.1, 2)], cost, 32).tokens == [331]


@pytest.mark.parametrize("seed", range(12))
def test_splits_cover_sequence_once(seed):
    rng = random.Random(seed)
    speeds = [rng.uniform(0.01, 1) for _ in range(rng.randrange(1, 9))]
    seq_len, align = rng.randrange(1, 5000), rng.choice([1, 32, 64])
    table = {10.0: 1.0, 50.0: 6.0, 100.0: 10.0}
    for split in (
        even(seq_len, speeds),
        uneven(seq_len, speeds, align),
        looked_up(seq_len, [100 * speed for speed in speeds], table, align),
        balanced(seq_len, speeds, SKIPS, align),
        zigzag(seq_len, speeds, align),
    ):
        owned = sorted(position for rank in split.pieces for piece in rank for position in range(*piece))
        assert owned == list(range(seq_len)), split
        assert len(split.pieces) == len(speeds)
        assert sum(split.tokens) == seq_len
        if split.strategy in ("uneven", "lut") and seq_len >= align * len(speeds):
            assert min(split.tokens) > 0, split
    assert max(even(seq_len, speeds).tokens) - min(even(seq_len, speeds).tokens) <= 1


def test_zigzag_work_is_proportional_to_tokens():
    speeds = [1, 0.5, 0.25, 1]
    split = zigzag(N, speeds)
    assert slowest(split, speeds) == pytest.approx(ideal_s(N, speeds, SKIPS), rel=1e-3)
    assert split.tokens[0] / split.tokens[2] == pytest.approx(4, rel=1e-2)


def test_pairs_match_mask_count():
    for start, end in [(0, 5), (3, 9), (7, 7)]:
        mask = sum(1 for query in range(start, end) for key in range(12) if key <= query)
        assert SKIPS.pairs((start, end), 12) == mask
        assert FULL.pairs((start, end), 12) == (end - start) * end
        assert CostModel(causal=False).pairs((start, end), 12) == (end - start) * 12


def test_balanced_idles_only_hopeless_rank():
    assert balanced(1024, [1, 1e-6], SKIPS, 64).tokens == [1024, 0]
    assert balanced(1024, [1e-6, 1], SKIPS, 64).tokens == [0, 1024]
    assert min(balanced(1024, [1, 0.2], SKIPS, 64).tokens) > 0


def test_interpolation_clamps_at_ends():
    table = {100.0: 10.0, 10.0: 1.0, 50.0: 6.0}
    assert [splits.interpolate(table, share) for share in (5, 10, 30, 75, 100, 120)] == [1.0, 1.0, 3.5, 8.0, 10.0, 10.0]


def test_measured_speeds_match_busy_times():
    speeds = [1.0, 0.25, 0.5]
    split = even(999, speeds)
    busy = predict(split, speeds, CostModel(1e-6, 1e-5))
    assert splits.measured_speeds(split, busy, CostModel(1e-6, 1e-5), [1, 1, 1]) == pytest.approx(speeds)
    nothing = Split("", splits.contiguous([0, 999, 999]))
    assert splits.measured_speeds(nothing, [1.0, 0.0], SKIPS, [1, 0.3])[1] == 0.3


def test_formula_gives_no_negative_share():
    for seq_len in (64, 4096, 32768, 65536, 10**6):
        for share in (1, 10, 30, 100):
            assert min(splits.formula(seq_len, [100, share]).tokens) >= 0
    assert splits.formula(4096, [100, 50]).tokens[0] > splits.formula(4096, [100, 90]).tokens[0] > 2048


def test_uneven_leaves_one_tile_per_rank():
    assert uneven(2048, [1, 1, 1, 1e-3], 32).tokens[-1] == 32
    assert uneven(2048, [1e-3, 1e-3, 1], 32).tokens[:2] == [32, 32]
    assert uneven(70, [1, 1e-3], 32).tokens == [32, 38]
    assert sum(uneven(40, [1, 1, 1], 32).tokens) == 40


def ring_by_clock(split: Split, speeds, cost: CostModel) -> float:
    """The same ring as events: who waits for whom, written down a second time."""
    size, tokens = len(speeds), split.tokens

    def block_s(rank, owner):
        pairs = sum(
            1
            for query in (q for piece in split.pieces[rank] for q in range(*piece))
            for key in (k for piece in split.pieces[owner] for k in range(*piece))
            if not cost.causal or key <= query
        )
        return cost.pair_s * pairs / speeds[rank]

    def needed(owner, turn):
        return any(block_s((owner + far) % size, owner) for far in range(turn + 1, size))

    def began(rank, turn):
        if turn == 0:
            return cost.token_s * tokens[rank] / speeds[rank]
        owner = (rank - turn) % size
        computed = began(rank, turn - 1) + block_s(rank, (rank - turn + 1) % size)
        if not needed(owner, turn - 1):
            return computed
        return max(
            computed, max(began(rank, turn - 1), began((rank - 1) % size, turn - 1)) + cost.pass_s * tokens[owner]
        )

    return max(began(rank, size - 1) + block_s(rank, (rank + 1) % size) for rank in range(size))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("causal", [True, False])
def test_ring_time_matches_event_simulation(seed, causal):
    rng = random.Random(seed)
    speeds = [rng.uniform(0.1, 1) for _ in range(rng.randrange(1, 5))]
    cost = CostModel(1.0, rng.uniform(0, 20), causal, pass_s=rng.choice([0.0, 3.0, 60.0]))
    for split in (even(37, speeds), uneven(37, speeds), balanced(37, [1, 1e-6, *speeds[2:]][: len(speeds)], cost)):
        assert max(ring_s(split, speeds, cost)) == pytest.approx(ring_by_clock(split, speeds, cost))
    if causal:
        split = zigzag(37, speeds)
        assert max(ring_s(split, speeds, cost)) == pytest.approx(ring_by_clock(split, speeds, cost))


@pytest.mark.parametrize("speeds", [[1, 0.25], [1, 1, 0.2], [0.1, 1, 1, 1]])
def test_slow_link_shifts_balance(speeds):
    """Passing a token on takes as long as 3000 pairs: more than is computed meanwhile."""
    cost = CostModel(1.0, 10.0, pass_s=3000.0)
    blind, seeing = (balanced(4096, speeds, each, 32) for each in (CostModel(1.0, 10.0), cost))
    blind_s, seeing_s = (max(ring_s(split, speeds, cost)) for split in (blind, seeing))
    assert seeing_s < 0.97 * blind_s
    assert all(end % 32 == 0 for [(_, end)] in seeing.pieces)
    owned = sorted(position for rank in seeing.pieces for piece in rank for position in range(*piece))
    assert owned == list(range(4096))


PUBLISHED = (-662.478, 365.074, 0.195907, -49.6378, 0.337949, -0.00710625)
"""Coefficients of 1, l, p, l^2, l p and p^2, where l is log10 of the length and p the share in percent."""


@pytest.mark.parametrize("seq_len", [700, 1024, 3000, 16384, 40000])
def test_formula_matches_published_polynomial(seq_len):
    shares = (5.0, 10.0, 35.0, 80.0, 100.0, 120.0)
    length = math.log10(min(max(seq_len, 1024), 16384))
    weights = []
    for share in (10.0, 10.0, 35.0, 80.0, 100.0, 100.0):
        terms = (1, length, share, length**2, length * share, share**2)
        weights.append(max(1.0, sum(a * b for a, b in zip(PUBLISHED, terms, strict=True))))
    assert splits.formula(seq_len, shares).pieces == splits.proportional(seq_len, weights)


def test_splits_align_only_on_request():
    table = {20.0: 2.0, 100.0: 5.0}
    assert splits.uneven(7, [2.0, 5.0]).tokens == splits.looked_up(7, [20.0, 100.0], table).tokens == [2, 5]
    assert splits.zigzag(14, [2.0, 5.0]).tokens == [4, 10]
    assert splits.uneven(96, [1.0, 2.2], 32).tokens == splits.looked_up(96, [20.0, 60.0], table, 32).tokens == [32, 64]
    for split in (splits.zigzag(200, [1.0, 2.2], 32), splits.formula(200, [20.0, 90.0], 32)):
        assert split.pieces[0][0][1] % 32 == 0


@pytest.mark.parametrize(("tokens", "busy"), [(0, 0.0), (0, 1.0), (10, 0.0)])
def test_rank_without_work_or_time_keeps_speed(tokens, busy):
    split = splits.Split("x", splits.contiguous([0, tokens, 30]))
    cost = CostModel(pair_s=1e-3)
    found = splits.measured_speeds(split, [busy, 1.0], cost, [0.7, 0.9])
    assert found[0] == 0.7
    assert found[1] != 0.9

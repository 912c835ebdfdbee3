"""Finds the split whose slowest rank finishes first, by the finish times of a ring's ranks.

This module is pure arithmetic.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from benchkit.suites.ring_attention.names import BALANCED
from benchkit.suites.ring_attention.splits import CostModel, Piece, Split, contiguous, even, predict

EXPOSED = 0.01
"""Relative time by which waiting may prolong the ring beyond its busiest rank.

If it prolongs the ring by more, `balanced` searches for a better split.
"""
MOST_TRIES = 2000
PRECISION = 1e-9
"""Times are equal if their relative difference is smaller than this."""


def visible_pairs(queries: Piece, keys: Piece, cost: CostModel) -> float:
    """Returns how many query-key pairs are computed for two pieces.

    The pieces are the same or do not overlap.
    """
    height, width = queries[1] - queries[0], keys[1] - keys[0]
    if not cost.causal or keys[0] < queries[0]:
        return float(height * width)
    if keys != queries:
        return 0.0
    return width * (width + 1) / 2 if cost.skips else float(width * width)


def blocks_s(split: Split, speeds: Sequence[float], cost: CostModel) -> list[list[float]]:
    """Returns the seconds that each rank computes with each owner's keys: [rank][owner]."""
    size = len(speeds)
    block_s = [[0.0] * size for _ in range(size)]
    for rank, queries in enumerate(split.pieces):
        for owner, keys in enumerate(split.pieces):
            pairs = sum(visible_pairs(query, key, cost) for query in queries for key in keys)
            block_s[rank][owner] = cost.pair_s * pairs / speeds[rank]
    return block_s


def ring_s(split: Split, speeds: Sequence[float], cost: CostModel) -> list[float]:
    """Returns the seconds after which each rank of ring attention finishes, waiting included.

    In turn t a rank computes with the keys of the rank t places before it. Meanwhile these keys go
    on to the next rank, which they reach pass_s per token after both ranks are ready. Keys go no
    further than the last rank that sees them.
    """
    size, tokens = len(speeds), split.tokens
    block_s = blocks_s(split, speeds, cost)
    reach = []
    for owner in range(size):
        seen = [far for far in range(1, size) if block_s[(owner + far) % size][owner]]
        reach.append(max(seen, default=0))
    done = [cost.token_s * count / speed for count, speed in zip(tokens, speeds, strict=True)]
    for turn in range(size):
        began = done
        done = [began[rank] + block_s[rank][(rank - turn) % size] for rank in range(size)]
        for rank in range(size):
            owner = (rank - turn - 1) % size
            if reach[owner] > turn:
                arrives = max(began[rank], began[rank - 1]) + cost.pass_s * tokens[owner]
                done[rank] = max(done[rank], arrives)
    return done


def balanced(seq_len: int, speeds: Sequence[float], cost: CostModel, align: int = 1) -> Split:
    """Finds the contiguous split whose slowest rank finishes first.

    By busy time the search is exact. For a given time, each rank in turn takes as many tokens as
    it can process. A rank that starts later also ends later, so if any split covers the sequence
    in that time, this one does. Bisection finds the least such time. A rank too slow for a single
    tile gets nothing.

    Where ranks would still wait for keys, boundaries are moved as long as that makes the ring
    faster, which gives a local optimum.

    Args:
        seq_len: tokens of the sequence.
        speeds: of each rank.
        cost: what a rank of speed 1 takes.
        align: boundaries are multiples of this number of tokens.
    """
    slowest_even_s = max(predict(even(seq_len, speeds), speeds, cost))
    fastest_alone_s = cost.seconds([(0, seq_len)], seq_len) / max(speeds)
    low = 0.0
    high = max(slowest_even_s, fastest_alone_s)
    high *= 1 + PRECISION  # a quotient may round down, and the last tile would be left out
    best = boundaries_within(high, seq_len, speeds, cost, align)
    for _ in range(100):
        middle = (low + high) / 2
        found = boundaries_within(middle, seq_len, speeds, cost, align)
        if found[-1] >= seq_len:
            high, best = middle, found
        else:
            low = middle
        if high - low <= PRECISION * high:
            break

    def slowest_s(boundaries: Sequence[int]) -> float:
        return max(ring_s(Split(BALANCED, contiguous(boundaries)), speeds, cost))

    if cost.pass_s and slowest_s(best) > (1 + EXPOSED) * high:
        best = moved(best, slowest_s, align)
    return Split(BALANCED, contiguous(best))


def moved(
    boundaries: Sequence[int], seconds: Callable[[Sequence[int]], float], align: int
) -> list[int]:
    """Moves boundaries one at a time, by fewer and fewer tiles, while that is faster."""
    best, best_s = list(boundaries), seconds(boundaries)
    tries = 0
    stride = align * max(1, best[-1] // (4 * align * (len(best) - 1)))
    while stride >= align and tries < MOST_TRIES:
        found = False
        for index in range(1, len(best) - 1):
            for step in (-stride, stride):
                trial = best.copy()
                trial[index] = (best[index] + step) // align * align
                if any(left > right for left, right in pairwise(trial)):
                    continue
                tries += 1
                trial_s = seconds(trial)
                if trial_s < best_s * (1 - PRECISION):
                    best, best_s, found = trial, trial_s, True
        if not found:
            stride = stride // align // 2 * align
    return best


def boundaries_within(
    limit_s: float, seq_len: int, speeds: Sequence[float], cost: CostModel, align: int
) -> list[int]:
    """Returns the boundaries, 0 first, if each rank in turn takes all it can do in `limit_s`."""
    boundaries = [0]
    for speed in speeds:
        start = boundaries[-1]

        def fits(tiles: int, start: int = start, speed: float = speed) -> bool:
            end = min(seq_len, start + tiles * align)
            return cost.seconds([(start, end)], seq_len) <= limit_s * speed

        tiles_left = -(-(seq_len - start) // align)
        boundaries.append(min(seq_len, start + align * largest(tiles_left, fits)))
    return boundaries


def largest(limit: int, fits: Callable[[int], bool]) -> int:
    """Returns the largest number up to `limit` that fits, or 0; all smaller ones must fit too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low

"""The split whose slowest rank is done first, and when each rank of a ring is done. Pure arithmetic."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from benchkit.suites.ring_attention.splits import CostModel, Piece, Split, contiguous, even, predict

EXPOSED = 0.01
"""Where waiting makes the ring longer than its busiest rank by more than this, the split is sought anew."""
MOST_TRIES = 2000
PRECISION = 1e-9
"""Times that differ by a smaller share are equal."""


def visible_pairs(queries: Piece, keys: Piece, cost: CostModel) -> float:
    """Query-key pairs that are computed for a piece's queries and the keys of a piece; they are the same or apart."""
    height, width = queries[1] - queries[0], keys[1] - keys[0]
    if not cost.causal or keys[0] < queries[0]:
        return float(height * width)
    if keys != queries:
        return 0.0
    return width * (width + 1) / 2 if cost.skips else float(width * width)


def ring_s(split: Split, speeds: Sequence[float], cost: CostModel) -> list[float]:
    """Seconds after which each rank of ring attention is done, its waiting for keys included.

    In turn t a rank computes with the keys of the rank t before it while they go on to the next, which they reach
    pass_s per token after both are ready; keys go no further than somebody sees them.
    """
    size, tokens = len(speeds), split.tokens
    block_s = [[0.0] * size for _ in range(size)]  # of a rank, with an owner's keys
    for rank, queries in enumerate(split.pieces):
        for owner, keys in enumerate(split.pieces):
            pairs = sum(visible_pairs(query, key, cost) for query in queries for key in keys)
            block_s[rank][owner] = cost.pair_s * pairs / speeds[rank]
    reach = [
        max((far for far in range(1, size) if block_s[(owner + far) % size][owner]), default=0) for owner in range(size)
    ]
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
    """The contiguous split whose slowest rank is done first, among those with boundaries at multiples of `align`.

    By busy time it is found exactly: for a given time each rank in turn takes as many tokens as it can do; since who
    starts later also ends later, the sequence is covered in that time by some split only if it is by this one.
    Bisection finds the least such time. A rank too slow for a single tile gets nothing. Where ranks would wait for
    keys nevertheless, boundaries are moved as long as that makes the ring faster (a local optimum).
    """
    low, high = 0.0, max(predict(even(seq_len, speeds), speeds, cost))
    high = max(high, cost.seconds([(0, seq_len)], seq_len) / max(speeds))
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
        return max(ring_s(Split("", contiguous(boundaries)), speeds, cost))

    if cost.pass_s and slowest_s(best) > (1 + EXPOSED) * high:
        best = moved(best, slowest_s, align)
    return Split("balanced", contiguous(best))


def moved(boundaries: Sequence[int], seconds: Callable[[Sequence[int]], float], align: int) -> list[int]:
    """Boundaries moved one at a time, by ever fewer tiles, while that is faster."""
    best, best_s, tries = list(boundaries), seconds(boundaries), 0
    stride = align * max(1, best[-1] // (4 * align * (len(best) - 1)))
    while stride >= align and tries < MOST_TRIES:
        found = False
        for index in range(1, len(best) - 1):
            for step in (-stride, stride):
                trial = [*best[:index], (best[index] + step) // align * align, *best[index + 1 :]]
                if any(left > right for left, right in pairwise(trial)):
                    continue
                tries += 1
                if (trial_s := seconds(trial)) < best_s * (1 - PRECISION):
                    best, best_s, found = trial, trial_s, True
        if not found:
            stride = stride // align // 2 * align
    return best


def boundaries_within(limit_s: float, seq_len: int, speeds: Sequence[float], cost: CostModel, align: int) -> list[int]:
    """How far each rank gets in `limit_s` when all before it went as far as they could: boundaries, 0 first."""
    boundaries = [0]
    for speed in speeds:
        start = boundaries[-1]
        tiles = -(-(seq_len - start) // align)
        fits: Callable[[int], bool] = lambda count, start=start, speed=speed: (  # type: ignore[misc] # noqa: E731
            cost.seconds([(start, min(seq_len, start + count * align))], seq_len) <= limit_s * speed
        )
        boundaries.append(min(seq_len, start + align * largest(tiles, fits)))
    return boundaries


def largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, where all smaller ones do; 0 where not even 1 does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low

"""Split a sequence over ranks of unequal speed, by the predicted time of each rank.

In causal attention a rank's work is its queries times their visible keys, so equal numbers of
tokens are unequal work: of two equal ranks, the one with the later half does three times as much.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from benchkit.suites.ring_attention.suite import BALANCED, EVEN, FORMULA, LUT, UNEVEN, ZIGZAG

Piece = tuple[int, int]  # positions [start, end) of the sequence


@dataclass(frozen=True)
class Split:
    strategy: str
    pieces: tuple[tuple[Piece, ...], ...]

    @property
    def tokens(self) -> list[int]:
        return [sum(end - start for start, end in rank) for rank in self.pieces]

    @property
    def last_owner(self) -> int:
        owners = {
            end: rank
            for rank, pieces_of_rank in enumerate(self.pieces)
            for a, end in pieces_of_rank
            if a < end
        }
        return owners[max(owners)]


@dataclass(frozen=True)
class CostModel:
    """Costs of attention on a rank of speed 1.

    Attributes:
        pair_s: seconds per query-key pair.
        token_s: seconds per token, for all work that is linear in the tokens.
        causal: a query sees itself and the positions before it; otherwise it sees all.
        skips: tiles in the future are not computed; otherwise a piece's own block is a full square.
        pass_s: seconds per token to pass keys and values on to the next rank at any speed.
    """

    pair_s: float = 1.0
    token_s: float = 0.0
    causal: bool = True
    skips: bool = True
    pass_s: float = 0.0

    def pairs(self, piece: Piece, seq_len: int) -> float:
        start, end = piece
        if not self.causal:
            return float((end - start) * seq_len)
        if not self.skips:
            return float((end - start) * end)
        return (end * (end + 1) - start * (start + 1)) / 2

    def seconds(self, pieces: Sequence[Piece], seq_len: int) -> float:
        def piece_s(piece: Piece) -> float:
            num_tokens = piece[1] - piece[0]
            return self.pair_s * self.pairs(piece, seq_len) + self.token_s * num_tokens

        return sum(piece_s(piece) for piece in pieces)


def predict(split: Split, speeds: Sequence[float], cost: CostModel) -> list[float]:
    seq_len = sum(split.tokens)
    work_s = [cost.seconds(pieces, seq_len) for pieces in split.pieces]
    return [seconds / speed for seconds, speed in zip(work_s, speeds, strict=True)]


def ideal_s(seq_len: int, speeds: Sequence[float], cost: CostModel) -> float:
    """Return the necessary work over the total speed, which no split can beat."""
    needed = CostModel(cost.pair_s, cost.token_s, cost.causal)
    return needed.seconds([(0, seq_len)], seq_len) / sum(speeds)


def even(seq_len: int, speeds: Sequence[float]) -> Split:
    return Split(EVEN, proportional(seq_len, [1.0] * len(speeds)))


def uneven(seq_len: int, speeds: Sequence[float], align: int = 1) -> Split:
    return Split(UNEVEN, proportional(seq_len, speeds, align))


def looked_up(
    seq_len: int, shares: Sequence[float], table: Mapping[float, float], align: int = 1
) -> Split:
    """Give tokens in proportion to a table's performance at each rank's share in percent."""
    weights = [interpolate(table, share) for share in shares]
    return Split(LUT, proportional(seq_len, weights, align))


def interpolate(table: Mapping[float, float], share: float) -> float:
    points = sorted(table.items())
    if share <= points[0][0]:
        return points[0][1]
    for (low, at_low), (high, at_high) in pairwise(points):
        if share <= high:
            return at_low + (at_high - at_low) * (share - low) / (high - low)
    return points[-1][1]


def formula(seq_len: int, shares: Sequence[float], align: int = 1) -> Split:
    """Give tokens in proportion to a polynomial of the compute share.

    It was fitted to matmuls of an L40 (hpml_testing, Columbia, 2025; R^2 = 0.92) for sizes 1024 to
    16384 and shares of 10 to 100 percent. Beyond these it is clamped, and to at least 1 percent.
    """
    size = math.log10(min(max(seq_len, 1024), 16384))
    weights = []
    for share in shares:
        clamped = min(max(share, 10.0), 100.0)
        linear = -662.478 + 365.074 * size + 0.195907 * clamped
        guess = linear - 49.6378 * size**2 + 0.337949 * size * clamped - 0.00710625 * clamped**2
        weights.append(max(1.0, guess))
    return Split(FORMULA, proportional(seq_len, weights, align))


def proportional(
    seq_len: int, weights: Sequence[float], align: int = 1
) -> tuple[tuple[Piece, ...], ...]:
    """Make contiguous pieces in proportion to weights, with inner boundaries aligned to tiles.

    A tile is `align` tokens. If there are enough tiles, every rank gets one; only a cost model can
    decide whether a rank is better left idle.
    """
    total = sum(weights)
    marks = [align * round(seq_len * done / total / align) for done in accumulate(weights)][:-1]
    if seq_len >= align * len(weights):
        for index in range(len(marks)):
            start = marks[index - 1] if index else 0
            marks[index] = max(marks[index], start + align)
        for index in reversed(range(len(marks))):
            end = [*marks, seq_len][index + 1]
            marks[index] = min(marks[index], (end - align) // align * align)
    return contiguous([0, *(min(seq_len, mark) for mark in marks), seq_len])


def contiguous(boundaries: Sequence[int]) -> tuple[tuple[Piece, ...], ...]:
    return tuple(((start, end),) for start, end in pairwise(boundaries))


def zigzag(seq_len: int, speeds: Sequence[float], align: int = 1) -> Split:
    """Give each rank two pieces, equally far from both ends, in proportion to speed.

    A piece of l tokens at p and one at N - p - l together see l(p + l/2) + l(N - p - l/2) = l N
    keys for any p. Therefore work is in proportion to tokens.
    """
    half = seq_len // 2
    fronts = [rank[0] for rank in proportional(half, speeds, align)]
    backs = [(seq_len - end, seq_len - start) for start, end in fronts]
    backs[-1] = (fronts[-1][1], backs[-1][1])  # the middle, and an odd token with it
    return Split(ZIGZAG, tuple(zip(fronts, backs, strict=True)))


def measured_speeds(
    split: Split, busy_s: Sequence[float], cost: CostModel, before: Sequence[float]
) -> list[float]:
    """Return each rank's speed by its busy time; without tokens, that of `before`."""
    at_speed_1 = predict(split, [1.0] * len(split.pieces), cost)
    speeds = []
    for work_s, seconds, old in zip(at_speed_1, busy_s, before, strict=True):
        speeds.append(work_s / seconds if work_s > 0 and seconds > 0 else old)
    return speeds


EXPOSED = 0.01
"""Share by which waiting may prolong the ring before `balanced` moves boundaries."""
MOST_TRIES = 2000
PRECISION = 1e-9


def visible_pairs(queries: Piece, keys: Piece, cost: CostModel) -> float:
    """Count the query-key pairs of two pieces that are equal or do not overlap."""
    height, width = queries[1] - queries[0], keys[1] - keys[0]
    if not cost.causal or keys[0] < queries[0]:
        return float(height * width)
    if keys != queries:
        return 0.0
    return width * (width + 1) / 2 if cost.skips else float(width * width)


def blocks_s(split: Split, speeds: Sequence[float], cost: CostModel) -> list[list[float]]:
    """Return the seconds that each rank computes with each owner's keys: [rank][owner]."""
    size = len(speeds)
    block_s = [[0.0] * size for _ in range(size)]
    for rank, queries in enumerate(split.pieces):
        for owner, keys in enumerate(split.pieces):
            pairs = sum(visible_pairs(query, key, cost) for query in queries for key in keys)
            block_s[rank][owner] = cost.pair_s * pairs / speeds[rank]
    return block_s


def ring_s(split: Split, speeds: Sequence[float], cost: CostModel) -> list[float]:
    """Return the seconds after which each rank of ring attention finishes, waiting included.

    In turn t a rank computes with the keys of the rank t places before it. Meanwhile these keys go
    on to the next rank, which they reach pass_s per token after both ranks are ready. They go no
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
    """Find the contiguous split whose slowest rank finishes first.

    By busy time the search is exact: bisection finds the least time in which ranks, each taking in
    turn all it can do, cover the sequence. A rank that starts later also ends later, so if any
    split covers it in that time, this one does. A rank too slow for a single tile gets nothing.
    Where ranks would still wait for keys, boundaries move as long as that makes the ring faster: a
    local optimum.
    """
    slowest_even_s = max(predict(even(seq_len, speeds), speeds, cost))
    fastest_alone_s = cost.seconds([(0, seq_len)], seq_len) / max(speeds)
    low = 0.0
    high = max(slowest_even_s, fastest_alone_s)
    high *= 1 + PRECISION  # a quotient may round down, and the last tile would be left out
    best = boundaries_within(high, seq_len, speeds, cost, align)
    for _ in range(100):
        middle = (low + high) / 2
        trial = boundaries_within(middle, seq_len, speeds, cost, align)
        if trial[-1] >= seq_len:
            high, best = middle, trial
        else:
            low = middle
        if high - low <= PRECISION * high:
            break

    def slowest_s(boundaries: Sequence[int]) -> float:
        return max(ring_s(Split(BALANCED, contiguous(boundaries)), speeds, cost))

    if cost.pass_s and slowest_s(best) > (1 + EXPOSED) * high:
        best = move_boundaries(best, slowest_s, align)
    return Split(BALANCED, contiguous(best))


def move_boundaries(
    boundaries: Sequence[int], seconds: Callable[[Sequence[int]], float], align: int
) -> list[int]:
    best, best_s = list(boundaries), seconds(boundaries)
    tries = 0
    stride = align * max(1, best[-1] // (4 * align * (len(best) - 1)))
    while stride >= align and tries < MOST_TRIES:
        has_moved = False
        for index in range(1, len(best) - 1):
            for step in (-stride, stride):
                trial = best.copy()
                trial[index] = (best[index] + step) // align * align
                if any(left > right for left, right in pairwise(trial)):
                    continue
                tries += 1
                trial_s = seconds(trial)
                if trial_s < best_s * (1 - PRECISION):
                    best, best_s, has_moved = trial, trial_s, True
        if not has_moved:
            stride = stride // align // 2 * align
    return best


def boundaries_within(
    limit_s: float, seq_len: int, speeds: Sequence[float], cost: CostModel, align: int
) -> list[int]:
    """Return the boundaries, 0 first, if each rank takes all it can do in `limit_s`."""
    boundaries = [0]
    for speed in speeds:
        start = boundaries[-1]

        def fits(tiles: int, start: int = start, speed: float = speed) -> bool:
            end = min(seq_len, start + tiles * align)
            return cost.seconds([(start, end)], seq_len) <= limit_s * speed

        tiles_left = -(-(seq_len - start) // align)
        boundaries.append(min(seq_len, start + align * largest_fitting(tiles_left, fits)))
    return boundaries


def largest_fitting(limit: int, fits: Callable[[int], bool]) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low

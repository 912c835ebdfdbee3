"""How a sequence is shared out over ranks of unequal speed, and how long each should take. Pure arithmetic.

A rank's work in causal attention is not its tokens but its queries times the keys they see, so that equal tokens are
unequal work: of two equal ranks the one with the later half does three times as much. All positions count from 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

Piece = tuple[int, int]
"""Positions [start, end) of the sequence."""


@dataclass(frozen=True)
class Split:
    """Which positions each rank owns: one piece per rank where it is contiguous, two for zigzag."""

    strategy: str
    pieces: tuple[tuple[Piece, ...], ...]

    @property
    def tokens(self) -> list[int]:
        """Positions per rank."""
        return [sum(end - start for start, end in rank) for rank in self.pieces]


@dataclass(frozen=True)
class CostModel:
    """Seconds on a rank of speed 1: per query-key pair, and per token for all that is linear in it.

    pass_s: seconds to pass a token's keys and values on to the next rank, however slow that is. causal: a query sees
    itself and what is before it, else everything. skips: tiles that lie in the future are not computed; without, a
    piece's own block is computed as a full square.
    """

    pair_s: float = 1.0
    token_s: float = 0.0
    causal: bool = True
    skips: bool = True
    pass_s: float = 0.0

    def pairs(self, piece: Piece, seq_len: int) -> float:
        """Query-key pairs that are computed for a piece's queries."""
        start, end = piece
        if not self.causal:
            return float((end - start) * seq_len)
        if not self.skips:
            return float((end - start) * end)
        return (end * (end + 1) - start * (start + 1)) / 2

    def seconds(self, pieces: Sequence[Piece], seq_len: int) -> float:
        """Time of one rank's pieces at speed 1."""
        return sum(self.pair_s * self.pairs(piece, seq_len) + self.token_s * (piece[1] - piece[0]) for piece in pieces)


def predict(split: Split, speeds: Sequence[float], cost: CostModel) -> list[float]:
    """Seconds that each rank should be busy."""
    seq_len = sum(split.tokens)
    return [cost.seconds(pieces, seq_len) / speed for pieces, speed in zip(split.pieces, speeds, strict=True)]


def ideal_s(seq_len: int, speeds: Sequence[float], cost: CostModel) -> float:
    """All the work that must be done over all the speed there is: no split is faster."""
    needed = CostModel(cost.pair_s, cost.token_s, cost.causal)
    return needed.seconds([(0, seq_len)], seq_len) / sum(speeds)


def even(seq_len: int, speeds: Sequence[float]) -> Split:
    """The same number of tokens on every rank, to one token."""
    return Split("even", proportional(seq_len, [1.0] * len(speeds)))


def uneven(seq_len: int, speeds: Sequence[float], align: int = 1) -> Split:
    """Tokens in proportion to speed: right where work is proportional to tokens."""
    return Split("uneven", proportional(seq_len, speeds, align))


def looked_up(seq_len: int, shares: Sequence[float], table: Mapping[float, float], align: int = 1) -> Split:
    """Tokens in proportion to what a table says of each rank's compute share (percent -> performance, any unit)."""
    return Split("lut", proportional(seq_len, [interpolate(table, share) for share in shares], align))


def interpolate(table: Mapping[float, float], share: float) -> float:
    """A table's value at a share, on the line between its neighbours; beyond its ends, the value at the end."""
    points = sorted(table.items())
    if share <= points[0][0]:
        return points[0][1]
    for (low, at_low), (high, at_high) in pairwise(points):
        if share <= high:
            return at_low + (at_high - at_low) * (share - low) / (high - low)
    return points[-1][1]


def formula(seq_len: int, shares: Sequence[float], align: int = 1) -> Split:
    """Tokens in proportion to a polynomial's guess at the performance of each rank's compute share (percent).

    The polynomial was fitted to matmuls of an L40 (hpml_testing, Columbia, 2025; R^2 = 0.92) for sizes 1024 to 16384
    and shares 10 to 100; beyond those it is taken at the end, and never below 1 percent, where it would go negative.
    """
    size = math.log10(min(max(seq_len, 1024), 16384))
    weights = []
    for share in (min(max(share, 10.0), 100.0) for share in shares):
        linear = -662.478 + 365.074 * size + 0.195907 * share
        weights.append(max(1.0, linear - 49.6378 * size**2 + 0.337949 * size * share - 0.00710625 * share**2))
    return Split("formula", proportional(seq_len, weights, align))


def proportional(seq_len: int, weights: Sequence[float], align: int = 1) -> tuple[tuple[Piece, ...], ...]:
    """Contiguous pieces in proportion to weights, inner boundaries at multiples of `align` tokens.

    Nobody goes without a tile where there are enough: whether that is better, only a cost model can tell.
    """
    total = sum(weights)
    marks = [align * round(seq_len * done / total / align) for done in accumulate(weights)][:-1]
    if seq_len >= align * len(weights):
        for index in range(len(marks)):
            marks[index] = max(marks[index], align + (marks[index - 1] if index else 0))
        for index in reversed(range(len(marks))):
            ends = [*marks, seq_len][index + 1]
            marks[index] = min(marks[index], (ends - align) // align * align)
    return contiguous([0, *(min(seq_len, mark) for mark in marks), seq_len])


def contiguous(boundaries: Sequence[int]) -> tuple[tuple[Piece, ...], ...]:
    """One piece per rank, in order, between neighbouring boundaries."""
    return tuple(((start, end),) for start, end in pairwise(boundaries))


def zigzag(seq_len: int, speeds: Sequence[float], align: int = 1) -> Split:
    """Two pieces per rank, equally far from both ends, in proportion to speed.

    A piece of l tokens at p and one at N - p - l see l(p + l/2) + l(N - p - l/2) = l N keys together, wherever p is:
    work is in proportion to tokens, so that proportion to speed balances it (the idea of zigzag ring attention).
    """
    half = seq_len // 2
    fronts = [rank[0] for rank in proportional(half, speeds, align)]
    backs = [(seq_len - end, seq_len - start) for start, end in fronts]
    backs[-1] = (fronts[-1][1], backs[-1][1])  # the middle, and an odd token with it
    return Split("zigzag", tuple((front, back) for front, back in zip(fronts, backs, strict=True)))


def measured_speeds(split: Split, busy_s: Sequence[float], cost: CostModel, before: Sequence[float]) -> list[float]:
    """Each rank's speed by its busy time in one step; a rank that had no tokens keeps the speed `before`."""
    at_one = predict(split, [1.0] * len(split.pieces), cost)
    return [
        work / busy if work > 0 and busy > 0 else old for work, busy, old in zip(at_one, busy_s, before, strict=True)
    ]

"""Ring attention (Liu et al., 2310.01889) over any split of the sequence.

Keys and values go round the ring while blocks are computed.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from benchkit.api import p2p
from benchkit.api.p2p import Transfer
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.ring_attention.attention import Layer, Partial, attend, by_head, merge
from benchkit.suites.ring_attention.splits import Piece, Split

PROJECT = "projections"
REGIONS = (PROJECT, COMPUTE, WAIT)


@dataclass(frozen=True)
class Block:
    """Some of a rank's queries with the keys that they see.

    Attributes:
        queries: range of rows in the rank's tokens.
        keys: range of rows in the tokens of the rank that owns the keys.
        causal: whether a query sees only the keys before it, as among a rank's own tokens.
    """

    queries: Piece
    keys: Piece
    causal: bool


def blocks(queries: tuple[Piece, ...], keys: tuple[Piece, ...], causal: bool) -> list[Block]:
    """Returns the blocks to compute for queries and keys at these positions, without the future.

    Neighbouring blocks are joined to need few calls.
    """
    if causal and keys == queries:
        own = (0, offsets(queries)[-1][1])  # tokens are in order, even with gaps between pieces
        return [Block(own, own, True)] if own[1] else []
    found: list[Block] = []
    for query, rows in zip(queries, offsets(queries), strict=True):
        for key, columns in zip(keys, offsets(keys), strict=True):
            is_empty = rows[0] == rows[1] or columns[0] == columns[1]
            if is_empty or (causal and key[0] > query[0]):
                continue
            before = found[-1] if found else None
            if before and (before.queries, before.keys[1]) == (rows, columns[0]):
                found[-1] = Block(rows, (before.keys[0], columns[1]), False)
            elif before and (before.queries[1], before.keys) == (rows[0], columns):
                found[-1] = Block((before.queries[0], rows[1]), columns, False)
            else:
                found.append(Block(rows, columns, False))
    return found


def offsets(pieces: tuple[Piece, ...]) -> list[Piece]:
    """Returns the range of each piece in a rank's tokens, which are its pieces in order."""
    ends = [0]
    for start, end in pieces:
        ends.append(ends[-1] + end - start)
    return list(pairwise(ends))


class RingAttention:
    """Attention of one rank's tokens over the keys of all ranks, which go round the ring."""

    def __init__(self, split: Split, rank: int, causal: bool, device: torch.device) -> None:
        """Selects the tokens and the blocks of one rank.

        Args:
            split: positions of every rank.
            rank: this rank.
            causal: whether a query sees only the positions before it.
            device: where the tokens are.
        """
        mine = split.pieces[rank]
        self.rank = rank
        self.world_size = len(split.pieces)
        self.lengths = split.tokens
        self.last_owner = split.last_owner
        self.positions = torch.cat([torch.arange(*piece, device=device) for piece in mine])
        owners = [(rank - turn) % self.world_size for turn in range(self.world_size)]
        self.blocks = [blocks(mine, split.pieces[owner], causal) for owner in owners]
        self.reach = [self._reach(split, owner, causal) for owner in range(self.world_size)]

    def _reach(self, split: Split, owner: int, causal: bool) -> int:
        """Returns the distance from an owner to the last rank that sees its keys, or 0."""
        for distance in range(self.world_size - 1, 0, -1):
            peer = (owner + distance) % self.world_size
            if blocks(split.pieces[peer], split.pieces[owner], causal):
                return distance
        return 0

    def attend(self, query: Tensor, own: Tensor) -> Tensor:
        """Computes attention over all keys that the queries see.

        Args:
            query: of this rank's tokens [1, H, L, D].
            own: keys and values of the same tokens [L, 2, H, D], contiguous.

        Returns:
            The output [1, H, L, D], in float32 or wider.
        """
        held: Tensor | None = own
        sent: list[Transfer] = []
        result: Partial | None = None
        for turn in range(self.world_size):
            incoming, sending, receiving = self._pass_on(held, own, turn)
            with region(COMPUTE):
                for block in self.blocks[turn] if held is not None else ():
                    result = self._add(result, query, held, block)
            with region(WAIT):
                for work in (*receiving, *sent):  # a send may take one turn longer
                    work.wait()
            held, sent = incoming, sending
        with region(WAIT):
            for work in sent:
                work.wait()
        return query if result is None else result[0]

    def _pass_on(
        self, held: Tensor | None, own: Tensor, turn: int
    ) -> tuple[Tensor | None, list[Transfer], list[Transfer]]:
        """Starts to send the keys held and to receive the next ones, if any rank still needs them.

        Returns:
            The block that is being received, the sends and the receives.
        """
        size = self.world_size
        owner, next_owner = (self.rank - turn) % size, (self.rank - turn - 1) % size
        sends: list[tuple[Tensor, int]] = []
        receives: list[tuple[Tensor, int]] = []
        if held is not None and self.reach[owner] > turn:
            sends.append((held, (self.rank + 1) % size))
        incoming = None
        if self.reach[next_owner] > turn:
            incoming = own.new_empty(self.lengths[next_owner], *own.shape[1:])
            receives.append((incoming, (self.rank - 1) % size))
        return incoming, *p2p.start(sends, receives)

    def _add(self, result: Partial | None, query: Tensor, held: Tensor, block: Block) -> Partial:
        """Computes a block and merges it into its rows of the result."""
        (top, bottom), (left, right) = block.queries, block.keys
        key, value = by_head(held[left:right, 0]), by_head(held[left:right, 1])
        partial = attend(query[:, :, top:bottom], key, value, block.causal)
        if result is None:
            if bottom - top == query.shape[2]:
                return partial
            out = torch.zeros_like(query, dtype=partial[0].dtype)
            lse = partial[1].new_full(query.shape[:3], float("-inf"))
            result = out, lse
        merge((result[0][:, :, top:bottom], result[1][:, :, top:bottom]), partial)
        return result


class Ring(RingAttention):
    """One rank's part of the layer under one split."""

    def __init__(self, layer: Layer, x: Tensor, split: Split, rank: int, causal: bool) -> None:
        """Selects this rank's tokens of all tokens `x` [N, E], as RingAttention does."""
        super().__init__(split, rank, causal, x.device)
        self.layer = layer
        self.x = x[self.positions]

    def step(self) -> Tensor:
        """Computes the layer's output for this rank's tokens [L, E]."""
        with region(PROJECT):
            rotated, own = self.layer.project(self.x, self.positions)
        attended = self.attend(by_head(rotated), own)
        with region(PROJECT):
            return self.layer.finish(attended)

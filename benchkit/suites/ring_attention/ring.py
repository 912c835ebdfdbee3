"""Ring attention (Liu et al., 2310.01889) over any split: keys and values go round while blocks are computed."""

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
    """What some of a rank's queries see of another rank's keys: ranges of rows; causal where it is their own piece."""

    queries: Piece
    keys: Piece
    causal: bool


def blocks(queries: tuple[Piece, ...], keys: tuple[Piece, ...], causal: bool) -> list[Block]:
    """The blocks to compute for queries and keys at these positions, in few calls; what lies in the future is none."""
    if causal and keys == queries:  # a rank's tokens are in order, whatever lies between its pieces
        own = (0, offsets(queries)[-1][1])
        return [Block(own, own, True)] if own[1] else []
    found: list[Block] = []
    for query, rows in zip(queries, offsets(queries), strict=True):
        for key, columns in zip(keys, offsets(keys), strict=True):
            if rows[0] == rows[1] or columns[0] == columns[1] or (causal and key[0] > query[0]):
                continue
            before = found[-1] if found else None
            if before and (before.queries, before.keys[1]) == (rows, columns[0]):  # neighbours in one call
                found[-1] = Block(rows, (before.keys[0], columns[1]), False)
            elif before and (before.queries[1], before.keys) == (rows[0], columns):
                found[-1] = Block((before.queries[0], rows[1]), columns, False)
            else:
                found.append(Block(rows, columns, False))
    return found


def offsets(pieces: tuple[Piece, ...]) -> list[Piece]:
    """Where each piece lies in a rank's tokens, which are its pieces one after another."""
    ends = [0]
    for start, end in pieces:
        ends.append(ends[-1] + end - start)
    return list(pairwise(ends))


class Ring:
    """One rank's part of the layer under one split."""

    def __init__(self, layer: Layer, x: Tensor, split: Split, rank: int, causal: bool) -> None:
        """x: all tokens [N, E]; this rank computes with those that the split gives it."""
        world_size, mine = len(split.pieces), split.pieces[rank]
        self.layer, self.rank, self.world_size = layer, rank, world_size
        self.lengths, self.shape = split.tokens, (x.shape[1] // layer.head_dim, layer.head_dim)
        self.positions = torch.cat([torch.arange(start, end, device=x.device) for start, end in mine])
        self.x = x[self.positions]
        self.blocks = [blocks(mine, split.pieces[(rank - i) % world_size], causal) for i in range(world_size)]
        self.reach = [self._reach(split, owner, causal) for owner in range(world_size)]

    def _reach(self, split: Split, owner: int, causal: bool) -> int:
        """How far round the ring an owner's keys must go: nobody further on sees them."""
        seen = (
            distance
            for distance in range(self.world_size - 1, 0, -1)
            if blocks(split.pieces[(owner + distance) % self.world_size], split.pieces[owner], causal)
        )
        return next(seen, 0)

    def step(self) -> Tensor:
        """The layer's output for this rank's tokens: [L, E]."""
        with region(PROJECT):
            rotated, own = self.layer.project(self.x, self.positions)
        query = by_head(rotated)
        held: Tensor | None = own
        sent: list[Transfer] = []
        result: Partial | None = None
        for turn in range(self.world_size):
            incoming, sending, receiving = self._pass_on(held, turn)
            with region(COMPUTE):
                for block in self.blocks[turn] if held is not None else ():
                    result = self._add(result, query, held, block)
            with region(WAIT):
                for work in (*receiving, *sent):  # what was sent is kept a turn longer, no more than that
                    work.wait()
            held, sent = incoming, sending
        with region(WAIT):
            for work in sent:
                work.wait()
        with region(PROJECT):
            return self.layer.finish(query if result is None else result[0])

    def _pass_on(self, held: Tensor | None, turn: int) -> tuple[Tensor | None, list[Transfer], list[Transfer]]:
        """Sends on what is held and receives what comes next, both only as far as somebody needs it."""
        owner, coming = (self.rank - turn) % self.world_size, (self.rank - turn - 1) % self.world_size
        after, before = (self.rank + 1) % self.world_size, (self.rank - 1) % self.world_size
        sends = [(held, after)] if held is not None and self.reach[owner] > turn else []
        incoming, receives = None, []
        if self.reach[coming] > turn:
            incoming = self.x.new_empty(self.lengths[coming], 2, *self.shape)
            receives = [(incoming, before)]
        return incoming, *p2p.start(sends, receives)

    def _add(self, result: Partial | None, query: Tensor, held: Tensor, block: Block) -> Partial:
        """Computes a block and merges it into the rows of the result that it belongs to."""
        (top, bottom), (left, right) = block.queries, block.keys
        key, value = by_head(held[left:right, 0]), by_head(held[left:right, 1])
        partial = attend(query[:, :, top:bottom], key, value, block.causal)
        if result is None:
            if bottom - top == query.shape[2]:
                return partial
            out = torch.zeros_like(query, dtype=partial[0].dtype)
            result = out, torch.full(query.shape[:3], float("-inf"), dtype=partial[1].dtype, device=query.device)
        merge((result[0][:, :, top:bottom], result[1][:, :, top:bottom]), partial)
        return result

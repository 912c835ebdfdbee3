"""Ring attention (Liu et al., 2310.01889) over any split of the sequence.

Keys and values go round the ring while blocks are computed. Shapes: one sequence of N tokens, L of
them on this rank; H heads of width D; model width E = H x D; no biases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from benchkit.api import p2p
from benchkit.api.drawing import uniform, whole
from benchkit.api.p2p import Transfer, first_reason
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.api.torch_internals import fused_attention, fused_attention_missing
from benchkit.errors import Unavailable
from benchkit.suites.ring_attention.splits import Piece, Split

Partial = tuple[Tensor, Tensor]
"""Attention over some keys, in float32 or wider: output [1, H, L, D], log-sum-exp [1, H, L]."""


@dataclass(frozen=True)
class AttentionLayer:
    """Weights of a layer: query [E, E], key_value [E, 2E], out [E, E].

    Rotations are complex [N, 1, D / 2]. Neighbouring components are paired as in RoFormer (Su et
    al., 2104.09864).
    """

    query: Tensor
    key_value: Tensor
    out: Tensor
    rotations: Tensor
    head_dim: int

    @staticmethod
    def random(
        seq_len: int,
        num_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        seed: int,
    ) -> "AttentionLayer":
        """Draw the same layer on every rank, with weights of variance 1 / E."""
        width = num_heads * head_dim

        def draw(number: int, columns: int) -> Tensor:
            key, part = (seed, number), whole(width, columns)
            return uniform(part, key=key, device=device, variance=1 / width).to(dtype)

        query, key_value, out = map(draw, range(3), (width, 2 * width, width))
        frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        positions = torch.arange(seq_len, dtype=torch.float64)
        angles = torch.outer(positions, frequencies).unsqueeze(1)
        rotations = torch.polar(torch.ones_like(angles), angles).to(device)
        if dtype != torch.float64:
            rotations = rotations.to(torch.complex64)
        return AttentionLayer(query, key_value, out, rotations, head_dim)

    def in_float64(self) -> "AttentionLayer":
        weights = (self.query.double(), self.key_value.double(), self.out.double())
        return AttentionLayer(*weights, self.rotations.to(torch.complex128), self.head_dim)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Project tokens [L, E] at some positions [L] to queries, keys and values.

        Return the rotated queries [L, H, D], and the block to send: rotated keys and values [L, 2,
        H, D], contiguous.
        """
        query = (x @ self.query).unflatten(-1, (-1, self.head_dim))
        key_value = (x @ self.key_value).unflatten(-1, (2, -1, self.head_dim))
        rotations = self.rotations[positions]
        rotate(query, rotations)
        rotate(key_value[:, 0], rotations)
        return query, key_value

    def finish(self, attended: Tensor) -> Tensor:
        """Apply the output projection: [1, H, L, D] -> [L, E]."""
        return attended[0].transpose(0, 1).flatten(1).to(self.out.dtype) @ self.out


def rotate(x: Tensor, rotations: Tensor) -> None:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(rotations)
    if wide is not x:
        x.copy_(wide)


def by_head(x: Tensor) -> Tensor:
    """View [L, H, D] as the kernels expect it: [1, H, L, D]."""
    return x.transpose(0, 1).unsqueeze(0)


def require_kernel(device: torch.device, dtype: torch.dtype, head_dim: int) -> None:
    """Raise Unavailable on all ranks if one lacks the fused kernel; all call this together."""
    if lacking := first_reason(fused_attention_missing(device, dtype, head_dim)):
        raise Unavailable(lacking)


def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Partial:
    out, lse, *_ = fused_attention(query, key, value, causal)
    return out.to(torch.promote_types(out.dtype, torch.float32)), lse


def merge(into: Partial, other: Partial) -> None:
    """Add attention over further keys, in place (Milakov and Gimelshein, 1805.02867)."""
    out, lse = into
    weight = torch.sigmoid(other[1] - lse).unsqueeze(-1)
    out.lerp_(other[0], weight.to(out.dtype))
    torch.logaddexp(lse, other[1], out=lse)


PROJECT = "projections"
REGIONS = (PROJECT, COMPUTE, WAIT)


@dataclass(frozen=True)
class Block:
    """Rows of queries, and the rows of keys that they see; only the earlier ones if causal."""

    queries: Piece
    keys: Piece
    causal: bool


def blocks(queries: tuple[Piece, ...], keys: tuple[Piece, ...], causal: bool) -> list[Block]:
    """Return the blocks to compute for queries and keys at these positions, without the future.

    Neighbouring blocks are joined to need few calls.
    """
    if causal and keys == queries:
        # Tokens are in order, even with gaps between pieces.
        all_rows = (0, offsets(queries)[-1][1])
        return [Block(all_rows, all_rows, True)] if all_rows[1] else []
    result: list[Block] = []
    for query, rows in zip(queries, offsets(queries), strict=True):
        for key, columns in zip(keys, offsets(keys), strict=True):
            is_empty = rows[0] == rows[1] or columns[0] == columns[1]
            if is_empty or (causal and key[0] > query[0]):
                continue
            previous = result[-1] if result else None
            if previous and (previous.queries, previous.keys[1]) == (rows, columns[0]):
                result[-1] = Block(rows, (previous.keys[0], columns[1]), False)
            elif previous and (previous.queries[1], previous.keys) == (rows[0], columns):
                result[-1] = Block((previous.queries[0], rows[1]), columns, False)
            else:
                result.append(Block(rows, columns, False))
    return result


def offsets(pieces: tuple[Piece, ...]) -> list[Piece]:
    """Return the range of each piece in a rank's tokens."""
    ends = [0]
    for start, end in pieces:
        ends.append(ends[-1] + end - start)
    return list(pairwise(ends))


class RingAttention:
    def __init__(self, split: Split, rank: int, causal: bool, device: torch.device) -> None:
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
        """Return the distance from an owner to the last rank that sees its keys, or 0."""
        for distance in range(self.world_size - 1, 0, -1):
            peer = (owner + distance) % self.world_size
            if blocks(split.pieces[peer], split.pieces[owner], causal):
                return distance
        return 0

    def attend(self, query: Tensor, own_block: Tensor) -> Tensor:
        """Compute attention [1, H, L, D] over all keys that the queries see, in float32 or wider.

        `own_block` has the keys and values of the same tokens [L, 2, H, D], contiguous.
        """
        current: Tensor | None = own_block
        sent: Sequence[Transfer] = ()
        result: Partial | None = None
        for turn in range(self.world_size):
            incoming, sending, receiving = self._pass_on(current, own_block, turn)
            with region(COMPUTE):
                for block in self.blocks[turn] if current is not None else ():
                    result = self._add(result, query, current, block)
            with region(WAIT):
                for work in (*receiving, *sent):  # a send may take one turn longer
                    work.wait()
            current, sent = incoming, sending
        with region(WAIT):
            for work in sent:
                work.wait()
        return query if result is None else result[0]

    def _pass_on(
        self, current: Tensor | None, own_block: Tensor, turn: int
    ) -> tuple[Tensor | None, Sequence[Transfer], Sequence[Transfer]]:
        size = self.world_size
        owner, next_owner = (self.rank - turn) % size, (self.rank - turn - 1) % size
        sends: list[tuple[Tensor, int]] = []
        receives: list[tuple[Tensor, int]] = []
        if current is not None and self.reach[owner] > turn:
            sends.append((current, (self.rank + 1) % size))
        incoming = None
        if self.reach[next_owner] > turn:
            incoming = own_block.new_empty(self.lengths[next_owner], *own_block.shape[1:])
            receives.append((incoming, (self.rank - 1) % size))
        return incoming, *p2p.start_transfers(sends, receives)

    def _add(
        self, result: Partial | None, query: Tensor, key_value: Tensor, block: Block
    ) -> Partial:
        (top, bottom), (left, right) = block.queries, block.keys
        key, value = by_head(key_value[left:right, 0]), by_head(key_value[left:right, 1])
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
    def __init__(
        self, layer: AttentionLayer, x: Tensor, split: Split, rank: int, causal: bool
    ) -> None:
        super().__init__(split, rank, causal, x.device)
        self.layer = layer
        self.x = x[self.positions]

    def step(self) -> Tensor:
        with region(PROJECT):
            rotated, key_value = self.layer.project(self.x, self.positions)
        attended = self.attend(by_head(rotated), key_value)
        with region(PROJECT):
            return self.layer.finish(attended)

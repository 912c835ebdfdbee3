"""torch's own ring attention as a reference: even splits, in zigzag order if it is causal.

By torch's default, keys and values are gathered from all ranks at once and not passed round.
"""

import torch
from torch import Tensor

from benchkit.api import torch_internals
from benchkit.api.regions import COMPUTE, region
from benchkit.suites.ring_attention.attention import Layer, by_head
from benchkit.suites.ring_attention.ring import PROJECT
from benchkit.suites.ring_attention.splits import Split


def missing(seq_len: int, world_size: int, dtype: torch.dtype) -> str:
    """Returns why torch's ring attention cannot run here; "" if it can."""
    if why := torch_internals.ring_attention_missing():
        return why
    if dtype == torch.float64:
        return "torch's ring attention merges blocks in float32"
    if seq_len % (2 * world_size):
        return f"torch's ring attention needs a multiple of {2 * world_size} tokens, not {seq_len}"
    return ""


class TorchRing:
    """One rank's part of the layer, with the attention that torch's `context_parallel` calls."""

    def __init__(self, layer: Layer, x: Tensor, split: Split, rank: int, causal: bool) -> None:
        """Selects the tokens of a rank; torch requires an even split, or a causal one in zigzag."""
        pieces = split.pieces[rank]
        self.positions = torch.cat([torch.arange(*piece, device=x.device) for piece in pieces])
        self.layer = layer
        self.x = x[self.positions]
        self.causal = causal

    def step(self) -> Tensor:
        """Computes the layer's output for this rank's tokens [L, E]."""
        with region(PROJECT):
            rotated, key_value = self.layer.project(self.x, self.positions)
            query = by_head(rotated)
            key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        with region(COMPUTE):  # includes the waiting, which torch does not separate
            out = torch_internals.attend_in_ring(query, key, value, self.causal)
        with region(PROJECT):
            return self.layer.finish(out)

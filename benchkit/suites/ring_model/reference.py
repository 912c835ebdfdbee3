"""The dense decoder by definition, in float64."""

from dataclasses import replace

import torch
from torch import Tensor

from benchkit.suites.ring_attention.reference import attend_rows
from benchkit.suites.ring_attention.ring import by_head
from benchkit.suites.ring_model.decoder import Decoder

ROWS_AT_ONCE = 256  # queries whose scores over all keys are in memory at a time


def hidden_states(decoder: Decoder, ids: Tensor) -> Tensor:
    """Compute the last layer's output [N, E] of tokens [N], one float64 layer at a time."""
    x = decoder.embedding[ids].double()
    positions = torch.arange(len(ids), device=ids.device)
    for stored in decoder.layers:
        layer = stored.in_float64()
        query, key_value = layer.to_attention(x, positions)
        key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        rows = positions.split(ROWS_AT_ONCE)
        attended = [attend_rows(by_head(query[chunk]), key, value, chunk) for chunk in rows]
        x = layer.feed_forward(x + layer.attention.finish(torch.cat(attended, dim=2)))
    return x


def logits(decoder: Decoder, x: Tensor) -> Tensor:
    """Apply the last norm and the head in float64: [R, E] -> [R, V]."""
    head, norm = decoder.head.double(), decoder.norm.double()
    return replace(decoder, head=head, norm=norm).logits(x)

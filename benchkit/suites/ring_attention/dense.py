"""The decoder by its definition in float64 on one rank, to check what several ranks compute."""

from dataclasses import replace

import torch
from torch import Tensor

from benchkit.suites.ring_attention.attention import Layer, by_head
from benchkit.suites.ring_attention.decoder import Decoder, DecoderLayer

ROWS_AT_ONCE = 256
"""Queries whose scores over all keys are in memory at the same time."""


def hidden_states(decoder: Decoder, ids: Tensor) -> Tensor:
    """Computes the output of the last layer for all tokens.

    The weights of one layer at a time are in float64.

    Args:
        decoder: the model, in any dtype.
        ids: the tokens [N].

    Returns:
        The output [N, E] in float64.
    """
    x = decoder.embedding[ids].double()
    positions = torch.arange(len(ids), device=ids.device)
    for each in decoder.layers:
        layer = in_float64(each)
        query, key_value = layer.to_attention(x, positions)
        key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        rows = positions.split(ROWS_AT_ONCE)
        attended = [attend_rows(by_head(query), key, value, some) for some in rows]
        x = layer.feed_forward(x + layer.attention.finish(torch.cat(attended, dim=2)))
    return x


def attend_rows(query: Tensor, key: Tensor, value: Tensor, rows: Tensor) -> Tensor:
    """Computes causal attention [1, H, R, D] of some rows, with all their scores in memory."""
    scores = query[:, :, rows] @ key.transpose(-1, -2) / key.shape[-1] ** 0.5
    later = torch.arange(key.shape[2], device=key.device) > rows.unsqueeze(-1)
    return scores.masked_fill_(later, float("-inf")).softmax(-1) @ value


def logits(decoder: Decoder, x: Tensor) -> Tensor:
    """Applies the last norm and the head in float64: [R, E] -> [R, V]."""
    head, norm = decoder.head.double(), decoder.norm.double()
    return replace(decoder, head=head, norm=norm).logits(x)


def in_float64(layer: DecoderLayer) -> DecoderLayer:
    """Returns a layer with its weights in float64."""
    old = layer.attention
    weights = (old.query.double(), old.key_value.double(), old.out.double())
    attention = Layer(*weights, old.rotations.to(torch.complex128), old.head_dim)
    rest = (layer.norms.double(), layer.gate_up.double(), layer.down.double())
    return DecoderLayer(attention, *rest)

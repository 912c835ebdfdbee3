"""The model by its definition, in float64 and written apart from the network: what results are held against.

A causal model's first tokens depend on nothing after them. So a result is checked on the first tokens of one sequence,
and a gradient by a loss of these tokens alone, however large the batch that was really computed.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from benchkit.models.transformer.network import NORM_EPS, ROTARY_BASE, Attention, FeedForward, Layer, Network

Weights = Callable[[nn.Parameter], Tensor]


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that ranks may share, in float64; where they do, all of them call this together."""
    there = tensor.detach()
    return (there.full_tensor() if isinstance(there, DTensor) else there).double()


def logits(network: Network, tokens: Tensor, weights: Weights = whole) -> Tensor:
    """Of one sequence of tokens [n]: [n, V]. `weights` gives the value to take for a parameter."""
    x = weights(network.embedding.weight)[tokens]
    for layer in network.layers:
        assert isinstance(layer, Layer)
        x = x + attention(layer.attention, norm(x, weights(layer.attention_norm.weight)), weights)
        x = x + feed_forward(layer.feed_forward, norm(x, weights(layer.feed_forward_norm.weight)), weights)
    return norm(x, weights(network.norm.weight)) @ weights(network.head.weight).T


def loss(network: Network, tokens: Tensor, targets: Tensor, weights: Weights = whole) -> Tensor:
    """Mean cross-entropy of one sequence: tokens and targets [n]; a scalar."""
    found = logits(network, tokens, weights)
    picked = found.gather(1, targets.unsqueeze(1)).squeeze(1)
    return (found.logsumexp(1) - picked).mean()


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """x over the root of its mean square (1910.07467)."""
    return weight * x / (x.square().mean(-1, keepdim=True) + NORM_EPS).sqrt()


def attention(module: Attention, x: Tensor, weights: Weights) -> Tensor:
    """Softmax over what is not later, of [n, d]; positions by complex rotation."""
    by_head = [
        (x @ weights(part.weight).T).unflatten(-1, (-1, module.head_dim)).transpose(0, 1)
        for part in (module.query, module.key, module.value)
    ]
    query, key = map(rotated, by_head[:2])
    scores = torch.einsum("hid,hjd->hij", query, key) / module.head_dim**0.5
    position = torch.arange(len(x), device=x.device)
    scores[:, position.unsqueeze(1) < position] = float("-inf")
    return (scores.softmax(-1) @ by_head[2]).transpose(0, 1).flatten(1) @ weights(module.out.weight).T


def rotated(x: Tensor) -> Tensor:
    """[H, n, D] with component i as the real and i + D / 2 as the imaginary part, turned by position x frequency."""
    half = x.shape[-1] // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angle = torch.arange(x.shape[1], dtype=torch.float64, device=x.device).unsqueeze(1) * frequency
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), -1)


def feed_forward(module: FeedForward, x: Tensor, weights: Weights) -> Tensor:
    gate = x @ weights(module.gate.weight).T
    return (gate * gate.sigmoid() * (x @ weights(module.up.weight).T)) @ weights(module.down.weight).T

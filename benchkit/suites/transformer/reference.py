"""The model by its definition, in float64 and written apart from the network: what results are held against.

A causal model's first tokens depend on nothing after them. So logits are checked on the first tokens of one sequence,
and gradients by a loss of these tokens alone, however large the batch that was really computed. One layer's weights at
a time are there in float64.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from benchkit.suites.transformer.model import NORM_EPS, ROTARY_BASE, Layer, Network

Function = Callable[..., Tensor]
Stage = tuple[Function, list[nn.Parameter]]
"""A part of the model: a function of its input and its weights."""


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that ranks may share, in float64; where they do, all of them call this together."""
    there = tensor.detach()
    return (there.full_tensor() if isinstance(there, DTensor) else there).double()


def stages(network: Network) -> list[Stage]:
    """Embedding, layers, and head with the last norm; the first takes tokens [n], the last gives logits [n, V]."""
    found: list[Stage] = [(lambda tokens, table: table[tokens], [network.embedding.weight])]
    for layer in network.layers:
        assert isinstance(layer, Layer)
        own, inner = layer.attention, layer.feed_forward
        parts = (layer.attention_norm, own.query, own.key, own.value, own.out)
        found.append((attention(own.head_dim), [part.weight for part in parts]))
        wide = (layer.feed_forward_norm, inner.gate, inner.up, inner.down)
        found.append((feed_forward, [part.weight for part in wide]))
    return [*found, (lambda x, scale, head: norm(x, scale) @ head.T, [network.norm.weight, network.head.weight])]


def inputs_of(network: Network, tokens: Tensor) -> list[Tensor]:
    """What goes into each stage, and last what comes out of them all: the logits [n, V] of tokens [n]."""
    found = [tokens]
    with torch.no_grad():
        for function, weights in stages(network):
            found.append(function(found[-1], *map(whole, weights)))
    return found


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of logits [n, V] and targets [n]; a scalar."""
    return (logits.logsumexp(1) - logits.gather(1, targets.unsqueeze(1)).squeeze(1)).mean()


def gradients(network: Network, inputs: Sequence[Tensor], targets: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Of the loss of one sequence, by each weight in turn, last stage first. inputs: what inputs_of() gave."""
    logits = inputs[-1].requires_grad_()
    [ahead] = torch.autograd.grad(loss(logits, targets), [logits])
    for (function, weights), entered in zip(reversed(stages(network)), reversed(inputs[:-1]), strict=True):
        copies = [whole(weight).requires_grad_() for weight in weights]
        x = entered.requires_grad_() if entered.is_floating_point() else entered
        wanted = [*copies, x] if x.requires_grad else copies
        found = torch.autograd.grad(function(x, *copies), wanted, ahead)
        yield from zip(weights, found, strict=False)
        ahead = found[-1]


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """x over the root of its mean square (1910.07467)."""
    return weight * x / (x.square().mean(-1, keepdim=True) + NORM_EPS).sqrt()


def attention(head_dim: int) -> Function:
    """The first half of a layer: softmax over what is not later, of [n, d]; positions by complex rotation."""

    def function(x: Tensor, scale: Tensor, *projections: Tensor) -> Tensor:
        entered = norm(x, scale)
        query, key, value = (
            (entered @ each.T).unflatten(-1, (-1, head_dim)).transpose(0, 1) for each in projections[:3]
        )
        scores = torch.einsum("hid,hjd->hij", rotated(query), rotated(key)) / head_dim**0.5
        position = torch.arange(len(x), device=x.device)
        scores = scores.masked_fill(position.unsqueeze(1) < position, float("-inf"))
        return x + (scores.softmax(-1) @ value).transpose(0, 1).flatten(1) @ projections[3].T

    return function


def rotated(x: Tensor) -> Tensor:
    """[H, n, D] with component i as the real and i + D / 2 as the imaginary part, turned by position x frequency."""
    half = x.shape[-1] // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angle = torch.arange(x.shape[1], dtype=torch.float64, device=x.device).unsqueeze(1) * frequency
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), -1)


def feed_forward(x: Tensor, scale: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The second half of a layer."""
    entered = norm(x, scale)
    opened = entered @ gate.T
    return x + (opened * opened.sigmoid() * (entered @ up.T)) @ down.T

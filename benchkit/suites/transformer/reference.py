"""The reference: the model by its definition, in float64, written independently of the network.

In a causal model the first tokens depend on nothing after them. So logits are checked on the first
tokens of one sequence, and gradients by a loss of these tokens alone, regardless of the size of the
batch. Only one layer's weights at a time are in memory in float64.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from benchkit.suites.transformer.model import NORM_EPS, ROTARY_BASE, Layer, Network

Function = Callable[..., Tensor]
Stage = tuple[Function, list[nn.Parameter]]
"""A part of the model: a function of its input and its weights, and these weights."""


def full_float64(tensor: Tensor) -> Tensor:
    """Return a whole tensor in float64; where it is sharded, all ranks call this together."""
    values = tensor.detach()
    if isinstance(values, DTensor):
        values = values.full_tensor()
    return values.double()


def stages(network: Network) -> list[Stage]:
    """Return embedding, layers, and head with the last norm.

    The first stage takes tokens [n], the last gives logits [n, V].
    """
    found: list[Stage] = [(embed, [network.embedding.weight])]
    for layer in network.layers:
        assert isinstance(layer, Layer)
        first, second = layer.attention, layer.feed_forward
        projections = (layer.attention_norm, first.query, first.key, first.value, first.out)
        found.append((attention(first.head_dim), [part.weight for part in projections]))
        matrices = (layer.feed_forward_norm, second.gate, second.up, second.down)
        found.append((feed_forward, [part.weight for part in matrices]))
    found.append((predict, [network.norm.weight, network.head.weight]))
    return found


def inputs_of(network: Network, tokens: Tensor) -> list[Tensor]:
    """Return the input of each stage for tokens [n], and last the logits [n, V]."""
    found = [tokens]
    with torch.no_grad():
        for function, weights in stages(network):
            found.append(function(found[-1], *map(full_float64, weights)))
    return found


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [n, V] and targets [n], a scalar."""
    right = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
    return (logits.logsumexp(1) - right).mean()


def gradients(
    network: Network, inputs: Sequence[Tensor], targets: Tensor
) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Yield each weight with the gradient of the loss of one sequence, last stage first.

    Args:
        inputs: the result of inputs_of() for the sequence.
        targets: the targets [n] of the sequence.
    """
    logits = inputs[-1].requires_grad_()
    [upstream] = torch.autograd.grad(loss(logits, targets), [logits])
    for stage, entered in zip(reversed(stages(network)), reversed(inputs[:-1]), strict=True):
        function, weights = stage
        copies = [full_float64(weight).requires_grad_() for weight in weights]
        x = entered.requires_grad_() if entered.is_floating_point() else entered
        variables = [*copies, x] if x.requires_grad else copies
        found = torch.autograd.grad(function(x, *copies), variables, upstream)
        yield from zip(weights, found, strict=False)
        upstream = found[-1]


def embed(tokens: Tensor, table: Tensor) -> Tensor:
    return table[tokens]


def predict(x: Tensor, scale: Tensor, head: Tensor) -> Tensor:
    """Compute the logits [n, V] of [n, d]: the last norm and the head."""
    return norm(x, scale) @ head.T


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """Divide x by the root of its mean square (1910.07467)."""
    return weight * x / (x.square().mean(-1, keepdim=True) + NORM_EPS).sqrt()


def attention(head_dim: int) -> Function:
    """Return the first half of a layer, a function of [n, d].

    The softmax is over tokens that are not later. Positions are complex rotations.
    """

    def function(x: Tensor, scale: Tensor, *projections: Tensor) -> Tensor:
        entered = norm(x, scale)
        heads = [(entered @ matrix.T).unflatten(-1, (-1, head_dim)) for matrix in projections[:3]]
        query, key, value = (head.transpose(0, 1) for head in heads)
        scores = torch.einsum("hid,hjd->hij", rotated(query), rotated(key)) / head_dim**0.5
        position = torch.arange(len(x), device=x.device)
        scores = scores.masked_fill(position.unsqueeze(1) < position, float("-inf"))
        attended = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)
        return x + attended @ projections[3].T

    return function


def rotated(x: Tensor) -> Tensor:
    """Rotate [H, n, D] by position x frequency.

    Component i is the real part, component i + D / 2 the imaginary part of a complex number.
    """
    half = x.shape[-1] // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    position = torch.arange(x.shape[1], dtype=torch.float64, device=x.device)
    angle = position.unsqueeze(1) * frequency
    rotation = torch.polar(torch.ones_like(angle), angle)
    turned = torch.complex(x[..., :half], x[..., half:]) * rotation
    return torch.cat((turned.real, turned.imag), -1)


def feed_forward(x: Tensor, scale: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Compute the second half of a layer, of [n, d]."""
    entered = norm(x, scale)
    gated = entered @ gate.T
    return x + (gated * gated.sigmoid() * (entered @ up.T)) @ down.T

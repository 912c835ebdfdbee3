"""Check what a pass computed: logits, loss and gradients by the definition, updates by AdamW.

The definition is in float64 and written independently of the network. In a causal model the first
tokens depend on nothing after them. Therefore logits are checked on the first tokens of one
sequence, and gradients by a loss of only these tokens, regardless of the size of the batch. Only
one layer's weights at a time are in memory in float64.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult
from benchkit.suites.transformer.model import NORM_EPS, ROTARY_BASE, Network, TransformerLayer
from benchkit.suites.transformer.passes import IGNORED, Steps, local

Function = Callable[..., Tensor]
Stage = tuple[Function, list[nn.Parameter]]
"""A part of the model: a function of its input and its weights, and these weights."""


def full_float64(tensor: Tensor) -> Tensor:
    """Return a whole tensor in float64; where it is sharded, all ranks call this together."""
    values = tensor.detach()
    if isinstance(values, DTensor):
        values = values.full_tensor()
    return values.double()


def stages_of(network: Network) -> list[Stage]:
    """Return embedding, layers, and head: from tokens [n] to logits [n, V]."""
    stages: list[Stage] = [(embed, [network.embedding.weight])]
    for layer in network.layers:
        assert isinstance(layer, TransformerLayer)
        first, second = layer.attention, layer.feed_forward
        projections = (layer.attention_norm, first.query, first.key, first.value, first.out)
        stages.append((attention(first.head_dim), [part.weight for part in projections]))
        matrices = (layer.feed_forward_norm, second.gate, second.up, second.down)
        stages.append((feed_forward, [part.weight for part in matrices]))
    stages.append((predict, [network.norm.weight, network.head.weight]))
    return stages


def inputs_of(network: Network, tokens: Tensor) -> list[Tensor]:
    """Return the input of each stage for tokens [n], and last the logits [n, V]."""
    inputs = [tokens]
    with torch.no_grad():
        for function, weights in stages_of(network):
            inputs.append(function(inputs[-1], *map(full_float64, weights)))
    return inputs


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    right = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
    return (logits.logsumexp(1) - right).mean()


def gradients_of(
    network: Network, inputs: Sequence[Tensor], targets: Tensor
) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Yield each weight with the gradient of the loss of one sequence, last stage first."""
    logits = inputs[-1].requires_grad_()
    [upstream] = torch.autograd.grad(loss_of(logits, targets), [logits])
    for stage, stage_input in zip(reversed(stages_of(network)), reversed(inputs[:-1]), strict=True):
        function, weights = stage
        copies = [full_float64(weight).requires_grad_() for weight in weights]
        x = stage_input.requires_grad_() if stage_input.is_floating_point() else stage_input
        variables = [*copies, x] if x.requires_grad else copies
        gradients = torch.autograd.grad(function(x, *copies), variables, upstream)
        yield from zip(weights, gradients, strict=False)
        upstream = gradients[-1]


def embed(tokens: Tensor, table: Tensor) -> Tensor:
    return table[tokens]


def predict(x: Tensor, scale: Tensor, head: Tensor) -> Tensor:
    return norm(x, scale) @ head.T


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """Divide x by the root of its mean square (1910.07467)."""
    return weight * x / (x.square().mean(-1, keepdim=True) + NORM_EPS).sqrt()


def attention(head_dim: int) -> Function:
    """Return the first half of a layer, a function of [n, d]; positions are complex rotations."""

    def function(x: Tensor, scale: Tensor, *projections: Tensor) -> Tensor:
        normed = norm(x, scale)
        heads = [(normed @ matrix.T).unflatten(-1, (-1, head_dim)) for matrix in projections[:3]]
        query, key, value = (head.transpose(0, 1) for head in heads)
        scores = (
            torch.einsum("hid,hjd->hij", rotate_pairs(query), rotate_pairs(key)) / head_dim**0.5
        )
        position = torch.arange(len(x), device=x.device)
        scores = scores.masked_fill(position.unsqueeze(1) < position, float("-inf"))
        attended = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)
        return x + attended @ projections[3].T

    return function


def rotate_pairs(x: Tensor) -> Tensor:
    """Rotate [H, n, D] by position x frequency; i + D / 2 is the imaginary part of i."""
    half = x.shape[-1] // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    position = torch.arange(x.shape[1], dtype=torch.float64, device=x.device)
    angle = position.unsqueeze(1) * frequency
    rotation = torch.polar(torch.ones_like(angle), angle)
    turned = torch.complex(x[..., :half], x[..., half:]) * rotation
    return torch.cat((turned.real, turned.imag), -1)


def feed_forward(x: Tensor, scale: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    normed = norm(x, scale)
    gated = normed @ gate.T
    return x + (gated * gated.sigmoid() * (normed @ up.T)) @ down.T


TOKENS = 64  # first tokens of a sequence, which are checked
TOLERANCE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 6e-2, "autocast": 6e-2}
"""Relative error allowed of a row of logits, and of the loss, by dtype."""
GRADIENT_TOLERANCE = {"float32": 1e-3, "tf32": 5e-2, "bfloat16": 0.2, "autocast": 0.2}
"""The same of a weight's gradient: those of queries and keys are small differences."""
SUMMING = 2**-12
"""Further error of a bfloat16 gradient for each rank whose part is added, as a ring adds them one
after another: 0.22 in all at 2048 ranks, 0.49 at 4096, by simulation. A missing part shows in
PART_TOLERANCE."""
PART_TOLERANCE = 0.5
"""Error allowed of a rank's own part of a mean gradient, as a share of the part."""
LIKE = 0.01
"""Parts that differ from the mean by less, as a share of their squared norm, count as equal."""
VERIFYING_RATE = 1e-4
WATCHED = 64  # elements of a weight whose update is computed again


@dataclass(frozen=True)
class Checks:
    """Check passes on one batch.

    Every rank completes a check before it raises InvalidResult: others may wait for its part.
    `mean` averages a gradient over the `copies` of the model that have other batches.
    """

    steps: Steps
    dtype: str
    mean: Callable[[Tensor], Tensor] = lambda value: value
    copies: int = 1

    def forward(self, logits: Tensor, inputs: Tensor) -> None:
        computed = logits[0, :TOKENS].double()
        expected = inputs_of(self.steps.network, inputs[0, :TOKENS])[-1]
        errors = ((computed - expected).norm(dim=1) / expected.norm(dim=1)).nan_to_num(torch.inf)
        wait_for_device(errors)
        worst = int(errors.argmax())
        what = f"logits of token {worst} of the first sequence"
        require(float(errors[worst]), TOLERANCE[self.dtype], what)

    def gradients(self, loss: Tensor, inputs: Tensor, targets: Tensor) -> None:
        network = self.steps.network
        checked_targets = targets[0, :TOKENS]
        computed = loss.double()
        stages = inputs_of(network, inputs[0, :TOKENS])
        expected = loss_of(stages[-1], checked_targets)
        names = {weight: name for name, weight in network.named_parameters()}
        errors, shares = {}, {}
        for weight, part in gradients_of(network, stages, checked_targets):
            name, exact = names[weight], self.mean(part)
            missed = exact if weight.grad is None else full_float64(weight.grad) - exact
            wait_for_device(missed)
            errors[name] = float((missed.norm() / exact.norm()).nan_to_num(torch.inf))
            if self.copies > 1 and weight.dim() > 1:
                shares[name] = share_missed(missed, part, exact, self.copies)
        require(float(abs(computed - expected) / expected), TOLERANCE[self.dtype], "the loss")
        worst = max(errors, key=lambda name: errors[name])
        summing = SUMMING * self.copies if self.dtype == "bfloat16" else 0.0
        tolerance = GRADIENT_TOLERANCE[self.dtype] + summing
        require(errors[worst], tolerance, f"the gradient by {worst}")
        for name, share in shares.items():
            require(abs(share), PART_TOLERANCE, f"this rank's part of the mean gradient by {name}")

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        with self.steps.learning_rate(VERIFYING_RATE):
            update = Update(self.steps.network.named_parameters(), self.steps.optimizer)
            self.steps.train_step(inputs, targets)
            update.check()


def share_missed(missed: Tensor, part: Tensor, mean: Tensor, copies: int) -> float:
    """Return how much of a rank's part an error of the mean has: -1 if it is missing, 1 if doubled.

    On many ranks a part is less than the tolerance of the mean. But its direction is its own, and
    in many dimensions rounding errors cancel: the projection on its difference from the mean shows
    the part. Equal parts, from similar batches, have no such difference: 0.
    """
    missed, part, mean = missed.flatten(), part.flatten(), mean.flatten()
    size = part @ part
    own_size = size - part @ mean
    if own_size <= LIKE * size:
        return 0.0
    return float(copies * (missed @ part - missed @ mean) / own_size)


def average_over_ranks(value: Tensor) -> Tensor:
    """Return the mean of all ranks' tensors; NaN on a rank whose part may not be in it.

    A second collective carries a projection of each part, so one that leaves out a rank is found.
    """
    size = dist.get_world_size()
    total = value.clone()
    dist.all_reduce(total)
    mine = projection(value).reshape(1)
    parts = mine.new_empty(size)
    dist.all_gather_into_tensor(parts, mine.clone())
    off = (projection(total) - parts.sum()).abs()
    right = off <= PROJECTED * total.norm() * total.numel() ** 0.5
    right &= parts[dist.get_rank()] == mine[0]
    return torch.where(right, total / size, torch.nan)


PROJECTED = 1e-9  # float64 has 1e-16; one of 4096 parts with 1e8 elements is about 1e-6


def projection(value: Tensor) -> Tensor:
    """Sum all elements with weights of 1 to 2 for each index, since plain sums may be 0."""
    while value.dim():
        value = value @ torch.linspace(
            1, 2, value.shape[-1], dtype=value.dtype, device=value.device
        )
    return value


def require(error: float, tolerance: float, what: str) -> None:
    if not error <= tolerance:
        raise InvalidResult(f"{what}: off by {error:.3g} of its size, allowed is {tolerance:g}")


class Update:
    """A few elements of each weight and of AdamW's state before a step, to repeat the step."""

    def __init__(
        self, weights: Iterator[tuple[str, nn.Parameter]], optimizer: torch.optim.AdamW
    ) -> None:
        self._optimizer = optimizer
        self._before = [(name, weight, *self._now(weight)) for name, weight in weights]

    def _now(self, weight: nn.Parameter) -> tuple[Tensor, Tensor, Tensor, float]:
        state = self._optimizer.state.get(weight, {})
        value = sample_elements(weight)
        zeros = torch.zeros_like(value)
        mean = sample_elements(state["exp_avg"]) if "exp_avg" in state else zeros
        square = sample_elements(state["exp_avg_sq"]) if "exp_avg_sq" in state else zeros
        return value, mean, square, float(state.get("step", 0.0))

    def check(self) -> None:
        """Repeat the step by AdamW's rule (1711.05101, algorithm 2)."""
        options = self._optimizer.param_groups[0]
        rate, decay, eps = options["lr"], options["weight_decay"], options["eps"]
        first, second = options["betas"]
        for name, weight, value, mean, square, steps in self._before:
            gradient = sample_elements(shard_like(weight.grad, weight))
            mean = first * mean + (1 - first) * gradient
            mean = mean / (1 - first ** (steps + 1))
            square = second * square + (1 - second) * gradient.square()
            square = square / (1 - second ** (steps + 1))
            expected = value * (1 - rate * decay) - rate * mean / (square.sqrt() + eps)
            rounding = 4 * torch.finfo(weight.dtype).eps
            tolerance = rounding * value.abs() + max(0.01, 4 * rounding) * rate
            wrong = (sample_elements(weight) - expected).abs() > tolerance
            wait_for_device(wrong)
            if wrong.any():
                element = int(wrong.nonzero()[0])
                got, want = float(sample_elements(weight)[element]), float(expected[element])
                raise InvalidResult(
                    f"{name}, element {element}: {got:.9g} after a step, expected {want:.9g}"
                )


def shard_like(gradient: Tensor | None, weight: Tensor) -> Tensor:
    """Shard a gradient as its weight is; tensor parallelism has a whole one by the embedding."""
    assert gradient is not None
    if isinstance(gradient, DTensor) and isinstance(weight, DTensor):
        return gradient.redistribute(placements=weight.placements)
    return gradient


def sample_elements(tensor: Tensor) -> Tensor:
    return local(tensor.detach()).flatten()[:WATCHED].double()


def mask_targets(targets: Tensor) -> None:
    """Mask targets [B, s]: only the first tokens of the first sequence count in the loss."""
    targets[0, TOKENS:] = IGNORED
    targets[1:] = IGNORED

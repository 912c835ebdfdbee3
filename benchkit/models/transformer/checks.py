"""Whether a pass computed what it should: logits, loss and gradient by the definition, the update by AdamW's rule."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchkit.errors import InvalidResult
from benchkit.models.transformer import definition
from benchkit.models.transformer.definition import whole
from benchkit.models.transformer.steps import IGNORED, Steps, local

TOKENS = 64
"""How many are checked, the first of a sequence."""
TOLERANCE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 6e-2, "autocast": 6e-2}
"""Relative error allowed, by dtype; of logits as a whole row, of loss, and of the loss's change along the gradient."""
CHANGE = 1e-4
"""By how much of itself the loss is changed to try a gradient: far above float64's rounding, and hardly curved."""
WATCHED = 64
"""Elements of a weight whose update is computed again."""


@dataclass(frozen=True)
class Checks:
    """Checks passes on one batch. mean: over the ranks that have other batches and average their gradients."""

    steps: Steps
    tolerance: float
    mean: Callable[[Tensor], Tensor]

    def forward(self, inputs: Tensor) -> None:
        """Raises InvalidResult where a row of logits is not the definition's."""
        found = self.steps.forward(inputs)[0, :TOKENS].double()
        expected = definition.logits(self.steps.network, inputs[0, :TOKENS])
        errors = ((found - expected).norm(dim=1) / expected.norm(dim=1)).nan_to_num(torch.inf)
        worst = int(errors.argmax())
        self.require(float(errors[worst]), f"logits of token {worst} of the first sequence")

    def gradients(self, inputs: Tensor, targets: Tensor) -> None:
        """Raises InvalidResult where loss or gradients are not those of the definition."""
        network, tokens, wanted = self.steps.network, inputs[0, :TOKENS], targets[0, :TOKENS]
        expected = definition.loss(network, tokens, wanted)
        found = self.steps.forward_backward(inputs, of_few(targets))
        self.require(float(abs(found.double() - expected) / expected), "the loss")
        for name, weight in network.named_parameters():
            if weight.grad is None or not whole(weight.grad).any():
                raise InvalidResult(f"no gradient of {name}")
        for moved, what in ((None, "all weights"), (network.embedding.weight, "the embedding")):
            self.require(abs(self.slope(tokens, wanted, moved) - 1), f"the loss's change along the gradient of {what}")

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        """Raises InvalidResult where a training step does not move the weights by their gradients as AdamW does."""
        update = Update(self.steps.network.named_parameters(), self.steps.optimizer)
        self.steps.train_step(inputs, of_few(targets))
        update.check()

    def slope(self, tokens: Tensor, targets: Tensor, moved: nn.Parameter | None) -> float:
        """The loss's change along the gradient over the one that the gradient says: 1 where that is right.

        By a central difference, of all weights or of one.
        """
        network = self.steps.network
        weights = [moved] if moved is not None else list(network.parameters())
        square = sum(float(whole(weight.grad).square().sum()) for weight in weights if weight.grad is not None)
        loss = self.mean(definition.loss(network, tokens, targets))
        size = CHANGE * float(loss) / square

        def shifted(sign: float) -> definition.Weights:
            def value(weight: nn.Parameter) -> Tensor:
                still = weight.grad is None or (moved is not None and weight is not moved)
                return whole(weight) if still else whole(weight).add(whole(weight.grad), alpha=sign * size)

            return value

        ahead, behind = (self.mean(definition.loss(network, tokens, targets, shifted(sign))) for sign in (1.0, -1.0))
        return float(ahead - behind) / (2 * size * square)

    def require(self, error: float, what: str) -> None:
        if not error <= self.tolerance:
            raise InvalidResult(f"{what}: off by {error:.3g} of its size, allowed is {self.tolerance:g}")


class Update:
    """A few elements of each weight and of AdamW's state before a step, to compute the step again."""

    def __init__(self, weights: Iterator[tuple[str, nn.Parameter]], optimizer: torch.optim.AdamW) -> None:
        self._optimizer = optimizer
        self._before = [(name, weight, *self._now(weight)) for name, weight in weights]

    def _now(self, weight: nn.Parameter) -> tuple[Tensor, Tensor, Tensor, float]:
        """Weight, first and second moment, and the number of steps taken."""
        state = self._optimizer.state.get(weight, {})
        nothing = torch.zeros_like(few(weight))
        moments = [few(state[name]) if name in state else nothing for name in ("exp_avg", "exp_avg_sq")]
        return few(weight), moments[0], moments[1], float(state.get("step", 0.0))

    def check(self) -> None:
        """Raises InvalidResult where a weight is not where AdamW (1711.05101, algorithm 2) moves it."""
        options = self._optimizer.param_groups[0]
        rate, decay, eps, (first, second) = (options[name] for name in ("lr", "weight_decay", "eps", "betas"))
        for name, weight, value, mean, square, steps in self._before:
            assert weight.grad is not None
            gradient = few(weight.grad)
            mean = (first * mean + (1 - first) * gradient) / (1 - first ** (steps + 1))
            square = (second * square + (1 - second) * gradient.square()) / (1 - second ** (steps + 1))
            expected = value * (1 - rate * decay) - rate * mean / (square.sqrt() + eps)
            rounding = 4 * torch.finfo(weight.dtype).eps
            wrong = (few(weight) - expected).abs() > rounding * value.abs() + max(0.01, 4 * rounding) * rate
            if wrong.any():
                element = int(wrong.nonzero()[0])
                got, want = float(few(weight)[element]), float(expected[element])
                raise InvalidResult(f"{name}, element {element}: {got:.9g} after a step, expected {want:.9g}")


def few(tensor: Tensor) -> Tensor:
    """The first elements of what this rank has of a tensor, in float64."""
    return local(tensor.detach()).flatten()[:WATCHED].double()


def of_few(targets: Tensor) -> Tensor:
    """Targets [B, s] of which all but the first tokens of the first sequence are passed over."""
    masked = torch.full_like(targets, IGNORED)
    masked[0, :TOKENS] = targets[0, :TOKENS]
    return masked

"""Checks what a pass computed: logits, loss and gradients by the definition, updates by AdamW."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult
from benchkit.suites.transformer import reference
from benchkit.suites.transformer.passes import IGNORED, Steps, local
from benchkit.suites.transformer.reference import full_float64

TOKENS = 64
"""How many tokens are checked, the first of a sequence."""
TOLERANCE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 6e-2, "autocast": 6e-2}
"""Relative error allowed of a row of logits, and of the loss, by dtype."""
GRADIENT_TOLERANCE = {"float32": 1e-3, "tf32": 5e-2, "bfloat16": 0.2, "autocast": 0.2}
"""Relative error allowed of the gradient by a whole weight, by dtype.

The gradients of queries and keys are small differences of large numbers.
"""
VERIFYING_RATE = 1e-4
WATCHED = 64
"""Elements of a weight whose update is computed again."""


@dataclass(frozen=True)
class Checks:
    """Checks passes on one batch.

    Every rank completes a check before it reports an error, since others may wait for its part.
    A failed check raises InvalidResult.

    Attributes:
        mean: averages a gradient over the ranks that have other batches and average their
            gradients.
    """

    steps: Steps
    dtype: str
    mean: Callable[[Tensor], Tensor]

    def forward(self, logits: Tensor, inputs: Tensor) -> None:
        """Compare rows of the logits [B, s, V] of inputs [B, s] with the definition."""
        found = logits[0, :TOKENS].double()
        expected = reference.inputs_of(self.steps.network, inputs[0, :TOKENS])[-1]
        errors = ((found - expected).norm(dim=1) / expected.norm(dim=1)).nan_to_num(torch.inf)
        wait_for_device(errors)
        worst = int(errors.argmax())
        what = f"logits of token {worst} of the first sequence"
        require(float(errors[worst]), TOLERANCE[self.dtype], what)

    def gradients(self, loss: Tensor, inputs: Tensor, targets: Tensor) -> None:
        """Compare a loss, and the gradient by each weight, with the definition.

        Targets are masked as `mask_targets` does.
        """
        network = self.steps.network
        checked_targets = targets[0, :TOKENS]
        found = loss.double()
        stages = reference.inputs_of(network, inputs[0, :TOKENS])
        expected = reference.loss(stages[-1], checked_targets)
        names = {weight: name for name, weight in network.named_parameters()}
        errors = {}
        for weight, exact in reference.gradients(network, stages, checked_targets):
            exact = self.mean(exact)
            missed = exact if weight.grad is None else full_float64(weight.grad) - exact
            wait_for_device(missed)
            errors[names[weight]] = float((missed.norm() / exact.norm()).nan_to_num(torch.inf))
        require(float(abs(found - expected) / expected), TOLERANCE[self.dtype], "the loss")
        worst = max(errors, key=lambda name: errors[name])
        require(errors[worst], GRADIENT_TOLERANCE[self.dtype], f"the gradient by {worst}")

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        """Compare how a training step moves the weights with AdamW's rule."""
        with self.steps.learning(VERIFYING_RATE):
            update = Update(self.steps.network.named_parameters(), self.steps.optimizer)
            self.steps.train_step(inputs, targets)
            update.check()


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
        """Return the weight, its first and second moment, and the number of steps taken."""
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
            gradient = sample_elements(as_shared(weight.grad, weight))
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


def as_shared(gradient: Tensor | None, weight: Tensor) -> Tensor:
    """Shard a gradient as its weight is.

    In tensor parallelism every rank has the whole gradient by the embedding.
    """
    assert gradient is not None
    if isinstance(gradient, DTensor) and isinstance(weight, DTensor):
        return gradient.redistribute(placements=weight.placements)
    return gradient


def sample_elements(tensor: Tensor) -> Tensor:
    """Return the first elements of this rank's part of a tensor, in float64."""
    return local(tensor.detach()).flatten()[:WATCHED].double()


def mask_targets(targets: Tensor) -> None:
    """Mask targets [B, s]: only the first tokens of the first sequence count in the loss."""
    targets[0, TOKENS:] = IGNORED
    targets[1:] = IGNORED

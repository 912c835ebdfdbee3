"""One pass of one model, as a case calls it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchkit.suites.transformer import parallel
from benchkit.suites.transformer.checks import Checks
from benchkit.suites.transformer.passes import Steps

if TYPE_CHECKING:
    from benchkit.suites.transformer.cases import Training


class Running:
    """The callables of a case, and what it tells of itself (`told`)."""

    def __init__(self, training: "Training", name: str, steps: Steps, alone: bool, told: dict[str, Any]) -> None:
        self._name, self._steps, self._memory = name, steps, training.rank.memory
        self._models, self._sent_bytes = training.models, training.sent_bytes
        self._batches, self.told = training.batches(), told
        self._trusts_gradients = "forward_backward" in training.config.passes
        self._rows = training.config.batch_size if training.config.compile != "none" else 1
        averaged = training.shared and not alone and training.config.parallel != "tp"
        mean = parallel.averaged_over_ranks if averaged else lambda value: value
        self._checks = Checks(steps, training.config.dtype, mean)

    def step(self) -> object:
        if self._name == "forward":
            return self._steps.forward(self._batches.inputs)
        pass_ = self._steps.forward_backward if self._name == "forward_backward" else self._steps.train_step
        return pass_(self._batches.inputs, self._batches.targets)

    def reset(self) -> None:
        self._batches.draw()
        for steps in self._models():
            steps.forget_gradients()
        if "peak_bytes" not in self.told:  # once, in the warm-up: it disturbs
            self._memory.reset()

    def observe(self, regions_s: Mapping[str, float]) -> None:
        """Memory at its peak, less what is only there for the other cases of this job."""
        if "peak_bytes" in self.told:
            return
        others = sum(steps.held_bytes() for steps in self._models() if steps is not self._steps) + self._sent_bytes()
        unused = 0 if self._name == "train_step" else self._steps.state_bytes()
        self.told["peak_bytes"] = self._memory.peak_bytes() - others - unused

    def verify(self) -> None:
        """On a fresh batch: one sequence, since a pass treats all alike; compiled code is made for the whole batch."""
        self._batches.draw()
        inputs, targets = self._batches.inputs[: self._rows], self._batches.targets[: self._rows]
        if self._name == "forward":
            self._checks.forward(inputs)
        elif self._name == "forward_backward":
            self._checks.gradients(inputs, targets)
        else:
            if not self._trusts_gradients:
                self._checks.gradients(inputs, targets)
            self._checks.update(inputs, targets)

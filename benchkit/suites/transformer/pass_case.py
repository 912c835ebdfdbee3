"""One pass of one model, as a case calls it."""

from collections.abc import Mapping
from typing import Any, Protocol

from benchkit.api.case import Rank
from benchkit.suites.transformer import parallel
from benchkit.suites.transformer.checks import Checks
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.passes import Steps


class Job(Protocol):
    """What a pass needs to know of its job."""

    config: TransformerConfig
    rank: Rank
    shared: bool

    def models(self) -> list[Steps]: ...
    def batches(self) -> Batches: ...
    def sent_bytes(self) -> int: ...


class PassCase:
    """The callables of a case, and what it tells of itself (`told`)."""

    def __init__(self, job: Job, name: str, steps: Steps, alone: bool, told: dict[str, Any]) -> None:
        self._name, self._steps, self._memory = name, steps, job.rank.memory
        self._models, self._sent_bytes = job.models, job.sent_bytes
        self._batches, self.told = job.batches(), told
        self._trusts_gradients = "forward_backward" in job.config.passes
        self._rows = job.config.batch_size if job.config.compile != "none" else 1
        averaged = job.shared and not alone and job.config.parallel != "tp"
        mean = parallel.averaged_over_ranks if averaged else lambda value: value
        self._checks = Checks(steps, job.config.dtype, mean)

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

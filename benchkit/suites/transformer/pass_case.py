"""One pass over one model, as a case calls it."""

from collections.abc import Mapping
from typing import Any, Protocol

from benchkit.api import verification
from benchkit.api.case import Call, Rank
from benchkit.suites.transformer import parallel
from benchkit.suites.transformer.checks import Checks, mask_targets
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.names import FORWARD, FORWARD_BACKWARD, PEAK_BYTES, TRAIN_STEP
from benchkit.suites.transformer.passes import Steps


class Job(Protocol):
    """What a pass needs of its job."""

    config: TransformerConfig
    rank: Rank
    shared: bool

    def models(self) -> list[Steps]: ...
    def batches(self) -> Batches: ...
    def sent_bytes(self) -> int: ...


class PassCase:
    """The callables of one case.

    Attributes:
        details: what the case reports.
    """

    def __init__(
        self, job: Job, name: str, steps: Steps, alone: bool, details: dict[str, Any]
    ) -> None:
        self._name = name
        self._steps = steps
        self._memory = job.rank.memory
        self._models = job.models
        self._sent_bytes = job.sent_bytes
        self._batches = job.batches()
        self.details = details
        self._rows = job.config.batch_size if job.config.compile != "none" else 1
        averaged = job.shared and not alone and job.config.parallel != "tp"
        mean = parallel.averaged_over_ranks if averaged else lambda value: value
        self._checks = Checks(steps, job.config.dtype, mean)

    def step(self) -> object:
        inputs, targets = self._batches.inputs, self._batches.targets
        if self._name == FORWARD:
            return self._steps.forward(inputs)
        if self._name == FORWARD_BACKWARD:
            return self._steps.forward_backward(inputs, targets)
        return self._steps.train_step(inputs, targets)

    def reset(self) -> None:
        self._batches.draw()
        for steps in self._models():
            steps.forget_gradients()
        if PEAK_BYTES not in self.details:  # only once, in the warm-up, since it disturbs timing
            self._memory.reset()

    def observe(self, regions_s: Mapping[str, float]) -> None:
        """Reports the peak memory, without what only other cases of this job need."""
        if PEAK_BYTES in self.details:
            return
        others = [steps for steps in self._models() if steps is not self._steps]
        unused = sum(steps.held_bytes() for steps in others) + self._sent_bytes()
        if self._name != TRAIN_STEP:
            unused += self._steps.state_bytes()
        self.details[PEAK_BYTES] = self._memory.peak_bytes() - unused
        self.details |= self._memory.beside_peak()

    def verify(self, call: Call) -> None:
        """Checks what the pass computes of the first sequence of a fresh batch.

        One is enough, since a pass treats all sequences alike. The weights do not move in a timed
        training step: its update is checked by a step of its own.
        """
        self._batches.draw()
        inputs, targets = self._batches.inputs.clone(), self._batches.targets.clone()
        mask_targets(targets)

        def prepare() -> None:
            self._batches.inputs.copy_(inputs)
            self._batches.targets.copy_(targets)
            self._steps.forget_gradients()

        found = verification.returned(call(prepare))
        if self._name == FORWARD:
            self._checks.forward(found, inputs)
            return
        self._checks.gradients(found, inputs, targets)
        if self._name == TRAIN_STEP:
            rows = self._rows
            self._checks.update(inputs[:rows], targets[:rows])

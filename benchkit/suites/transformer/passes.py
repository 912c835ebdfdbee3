"""The passes over one model: forward, forward and backward, a whole training step."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from benchkit.api.regions import region
from benchkit.suites.transformer.model import Network
from benchkit.suites.transformer.names import (
    BACKWARD,
    FORWARD,
    FORWARD_BACKWARD,
    LOSS,
    OPTIMIZER,
    PHASES,
    TRAIN_STEP,
)

REGIONS = {FORWARD: PHASES[:1], FORWARD_BACKWARD: PHASES[:3], TRAIN_STEP: PHASES}
WEIGHT_DECAY = 0.1
IGNORED = -100
"""The target that cross-entropy ignores, torch's default."""
Context = Callable[[], AbstractContextManager[object]]


class Steps:
    """The passes over one model.

    Args:
        network: holds the weights.
        model: the module that is called, the network or its wrapper.
        kernel: makes the context of every pass; backward is in it, too, since it may compute
            forward again.
        precision: makes the context of the forward computation, e.g. autocast.
        no_graph: makes the context of the pass `forward`, which needs no graph.
    """

    def __init__(
        self,
        network: Network,
        model: nn.Module,
        kernel: Context = nullcontext,
        precision: Context = nullcontext,
        no_graph: Context = torch.inference_mode,
    ) -> None:
        self.network = network
        self._model = model
        self._kernel = kernel
        self._precision = precision
        self._no_graph = no_graph
        self._optimizer: torch.optim.AdamW | None = None

    @property
    def optimizer(self) -> torch.optim.AdamW:
        """Fused AdamW, made at its first use.

        One kernel cannot update both sharded and unsharded weights, so they are separate groups.
        While steps are timed, the learning rate is 0: the work is the same, and all passes use the
        same weights.
        """
        if self._optimizer is None:
            weights = list(self.network.parameters())
            unsharded = [weight for weight in weights if not isinstance(weight, DTensor)]
            sharded = [weight for weight in weights if isinstance(weight, DTensor)]
            groups = [{"params": group} for group in (unsharded, sharded) if group]
            self._optimizer = torch.optim.AdamW(
                groups, lr=0.0, weight_decay=WEIGHT_DECAY, fused=True
            )
        return self._optimizer

    @contextmanager
    def learning(self, rate: float) -> Iterator[None]:
        """Returns a context in which training steps move the weights."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        try:
            yield
        finally:
            for group in self.optimizer.param_groups:
                group["lr"] = 0.0

    def state_bytes(self) -> int:
        """Returns the bytes of AdamW's state on this rank."""
        states = self._optimizer.state.values() if self._optimizer else ()
        values = [value for state in states for value in state.values()]
        return sum(local(value).nbytes for value in values if isinstance(value, Tensor))

    def held_bytes(self) -> int:
        """Returns the bytes that this rank keeps between passes: AdamW's state, weights, gradients.

        DDP keeps memory for gradients at all times.
        """
        reserved = isinstance(self._model, DistributedDataParallel)
        total = self.state_bytes()
        for weight in self.network.parameters():
            nbytes = local(weight.detach()).nbytes
            has_gradient = reserved or weight.grad is not None
            total += 2 * nbytes if has_gradient else nbytes
        return total

    def forget_gradients(self) -> None:
        self.network.zero_grad(set_to_none=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns logits [B, s, V], without a graph."""
        with self._no_graph(), self._kernel(), self._precision(), region(FORWARD):
            logits: Tensor = self._model(inputs)
            if isinstance(self._model, FSDPModule):
                # Backward would reshard. Until then zero_grad() misses the gradients of weights
                # that are gathered.
                self._model.reshard()
        return logits

    def forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Computes the gradients of the mean cross-entropy and returns the latter."""
        self.forget_gradients()
        with self._kernel():
            with self._precision(), region(FORWARD):
                logits = self._model(inputs)
            with region(LOSS):
                loss = F.cross_entropy(
                    logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED
                )
            del logits  # backward needs only their log-softmax
            with region(BACKWARD):
                loss.backward()
        return loss.detach()

    def train_step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Computes gradients, moves the weights and returns the loss."""
        loss = self.forward_backward(inputs, targets)
        with region(OPTIMIZER):
            self.optimizer.step()
        return loss


def local(tensor: Tensor) -> Tensor:
    """Returns this rank's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor

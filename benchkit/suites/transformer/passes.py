"""The passes over one model: forward, forward and backward, and a whole training step."""

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

FORWARD, LOSS, BACKWARD, OPTIMIZER = "forward", "loss", "backward", "optimizer"
REGIONS = {
    "forward": (FORWARD,),
    "forward_backward": (FORWARD, LOSS, BACKWARD),
    "train_step": (FORWARD, LOSS, BACKWARD, OPTIMIZER),
}
WEIGHT_DECAY = 0.1
IGNORED = -100
"""The target that cross-entropy passes over, as torch has it."""
Context = Callable[[], AbstractContextManager[object]]


class Steps:
    """network: holds the weights. model: what is called, the network or what wraps it.

    kernel: what all runs in, backward too, since it may compute forward again. precision: what forward runs in, e.g.
    autocast. no_graph: what forward alone runs in.
    """

    def __init__(
        self,
        network: Network,
        model: nn.Module,
        kernel: Context = nullcontext,
        precision: Context = nullcontext,
        no_graph: Context = torch.inference_mode,
    ) -> None:
        self.network, self._model = network, model
        self._kernel, self._precision, self._no_graph = kernel, precision, no_graph
        self._optimizer: torch.optim.AdamW | None = None

    @property
    def optimizer(self) -> torch.optim.AdamW:
        """AdamW, fused; weights that ranks share and weights that they do not cannot go through one kernel.

        While steps are timed it learns at rate 0: the same work, and all passes stay those of the same weights.
        """
        if self._optimizer is None:
            weights = list(self.network.parameters())
            groups = [[each for each in weights if isinstance(each, DTensor) is shared] for shared in (False, True)]
            self._optimizer = torch.optim.AdamW(
                [{"params": group} for group in groups if group],
                lr=0.0, weight_decay=WEIGHT_DECAY, fused=True,
            )  # fmt: skip
        return self._optimizer

    @contextmanager
    def learning(self, rate: float) -> Iterator[None]:
        """Within, training steps move the weights."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        try:
            yield
        finally:
            for group in self.optimizer.param_groups:
                group["lr"] = 0.0

    def state_bytes(self) -> int:
        """What this rank keeps of AdamW's state."""
        states = self._optimizer.state.values() if self._optimizer else ()
        return sum(local(each).nbytes for state in states for each in state.values() if isinstance(each, Tensor))

    def held_bytes(self) -> int:
        """What this rank keeps between passes: that, weights, and gradients, for which DDP has room at all times."""
        reserved = isinstance(self._model, DistributedDataParallel)
        total = self.state_bytes()
        for weight in self.network.parameters():
            there = local(weight.detach()).nbytes
            total += there + (there if reserved or weight.grad is not None else 0)
        return total

    def forget_gradients(self) -> None:
        self.network.zero_grad(set_to_none=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, s, V], without a graph."""
        with self._no_graph(), self._kernel(), self._precision(), region(FORWARD):
            logits: Tensor = self._model(inputs)
            if isinstance(self._model, FSDPModule):
                self._model.reshard()  # backward would; till then zero_grad() misses the gradients of what is gathered
        return logits

    def forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Gradients of the mean cross-entropy, which it returns."""
        self.forget_gradients()
        with self._kernel():
            with self._precision(), region(FORWARD):
                logits = self._model(inputs)
            with region(LOSS):
                loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED)
            del logits  # backward needs their log-softmax alone
            with region(BACKWARD):
                loss.backward()
        return loss.detach()

    def train_step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The same, and the weights moved."""
        loss = self.forward_backward(inputs, targets)
        with region(OPTIMIZER):
            self.optimizer.step()
        return loss


def local(tensor: Tensor) -> Tensor:
    """What this rank has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor

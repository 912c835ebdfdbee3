"""The passes over one model: forward, forward and backward, a whole step, or only its messages."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from benchkit.api.case import Work
from benchkit.api.keys import ModelConfig, count_parameters
from benchkit.api.regions import region
from benchkit.suites.transformer.model import Network
from benchkit.suites.transformer.suite import (
    BACKWARD,
    FORWARD,
    FORWARD_BACKWARD,
    LOSS,
    OPTIMIZER,
    PHASES,
    TRAIN_STEP,
    TransformerConfig,
    forward_flops,
    fsdp_groups,
    pass_flops,
    recomputed_flops,
)

REGIONS = {FORWARD: PHASES[:1], FORWARD_BACKWARD: PHASES[:3], TRAIN_STEP: PHASES}
WEIGHT_DECAY = 0.1
IGNORED = -100  # the target that cross-entropy ignores, torch's default
Context = Callable[[], AbstractContextManager[object]]


class Steps:
    """The passes over one model.

    `model` is the network or its wrapper. The others make contexts: `kernel` of every pass, of
    backward, too, which may compute forward again; `precision` of the forward computation;
    `no_graph` of the pass `forward`.
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
    def learning_rate(self, rate: float) -> Iterator[None]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        try:
            yield
        finally:
            for group in self.optimizer.param_groups:
                group["lr"] = 0.0

    def state_bytes(self) -> int:
        states = self._optimizer.state.values() if self._optimizer else ()
        values = [value for state in states for value in state.values()]
        return sum(local(value).nbytes for value in values if isinstance(value, Tensor))

    def held_bytes(self) -> int:
        # DDP keeps gradients at all times
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
        with self._no_graph(), self._kernel(), self._precision(), region(FORWARD):
            logits: Tensor = self._model(inputs)
            if isinstance(self._model, FSDPModule):
                # Backward would reshard. Until then zero_grad() misses the gradients of weights
                # that are gathered.
                self._model.reshard()
        return logits

    def forward_backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
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
        loss = self.forward_backward(inputs, targets)
        with region(OPTIMIZER):
            self.optimizer.step()
        return loss


def local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


FIRST_BUCKET_BYTES = 2**20  # DDP's first is smaller, to begin early


@dataclass
class Communication:
    """Sends the messages of a pass one after another, from buffers that all passes share."""

    kind: str
    model: ModelConfig
    tokens: int
    world_size: int
    bucket_mib: float
    weight: torch.dtype
    activation: torch.dtype
    device: torch.device
    checkpointing: bool
    buffers: dict[str, Tensor] = field(default_factory=dict)

    def of(self, name: str) -> Callable[[], object] | None:
        forward = name == FORWARD
        if self.kind == "ddp":
            return None if forward else self.gradients()
        return self.weights(forward) if self.kind == "fsdp" else self.activations(forward)

    def allocated_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in self.buffers.values())

    def buffer(self, name: str, size: int, dtype: torch.dtype) -> Tensor:
        if name not in self.buffers:
            # zeros: their sums stay finite
            self.buffers[name] = torch.zeros(size, dtype=dtype, device=self.device)
        return self.buffers[name]

    def gradients(self) -> Callable[[], object]:
        """DDP: all-reduce every bucket of gradients, all buckets at once."""
        buffer = self.buffer("gradients", count_parameters(self.model), self.weight)
        size = int(self.bucket_mib * 2**20) // self.weight.itemsize
        first = min(FIRST_BUCKET_BYTES // self.weight.itemsize, size)
        buckets = [buffer[:first], *buffer[first:].split(max(1, size))]

        def step() -> None:
            works = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
            for work in works:
                work.wait()

        return step

    def weights(self, forward: bool) -> Callable[[], object]:
        """FSDP: gather each group of weights and reduce-scatter their gradients.

        Backward gathers all groups but the root once more.
        """
        most = -(-max(fsdp_groups(self.model)) // self.world_size)
        shard = self.buffer("shard", most, self.weight)
        gathered = self.buffer("gathered", most * self.world_size, self.weight)

        def views(group: int) -> tuple[Tensor, Tensor]:
            size = -(-group // self.world_size)
            return gathered[: size * self.world_size], shard[:size]

        def step() -> None:
            groups = fsdp_groups(self.model)
            for group in groups if forward else [*groups, *groups[:-1]]:
                dist.all_gather_into_tensor(*views(group))
            for group in () if forward else groups:
                whole, part = views(group)
                dist.reduce_scatter_tensor(part, whole)

        return step

    def all_reduces(self, forward: bool) -> int:
        """Tensor parallel: count the all-reduces of a pass.

        Forward has one at the embedding and one after each half layer. Backward has one before each
        half layer and one at the head; with checkpointing it repeats the first half of each layer.
        """
        layers = self.model.num_layers
        once = 2 * layers + 1
        return once if forward else 2 * once + (layers if self.checkpointing else 0)

    def activations(self, forward: bool) -> Callable[[], object]:
        """Tensor parallel: all-reduce activations [T, d] and gather the logits."""
        stream = self.buffer("stream", self.tokens * self.model.d_model, self.activation)
        share = -(-self.model.vocab_size // self.world_size)
        part = self.buffer("part", self.tokens * share, self.activation)
        logits = self.buffer("logits", self.tokens * share * self.world_size, self.activation)

        def step() -> None:
            for _ in range(self.all_reduces(forward)):
                dist.all_reduce(stream)
            dist.all_gather_into_tensor(logits, part)

        return step


@dataclass(frozen=True)
class PassWorkload:
    config: TransformerConfig
    model: ModelConfig
    world_size: int

    @property
    def weight(self) -> torch.dtype:
        return torch.bfloat16 if self.config.dtype == "bfloat16" else torch.float32

    @property
    def activation(self) -> torch.dtype:
        return torch.float32 if self.config.dtype in ("float32", "tf32") else torch.bfloat16

    @property
    def tokens(self) -> int:
        return self.config.batch_size * self.config.context_length

    def copies(self, ranks: int) -> int:
        """Count the copies of the model that compute on these ranks, each with its own batch."""
        return ranks if self.config.parallel != "tp" else 1

    def flops(self, name: str, ranks: int, causal: bool = False, executed: bool = False) -> float:
        """Count the floating-point operations of a pass on these ranks together.

        `causal` counts only the pairs of tokens that see each other. `executed` counts also what
        activation checkpointing computes again.
        """
        sizes = (self.model, self.config.batch_size, self.config.context_length, causal)
        recomputed = 0.0
        if executed and self.config.activation_checkpointing:
            recomputed = recomputed_flops(*sizes)
        return self.copies(ranks) * pass_flops(name, forward_flops(*sizes), recomputed)

    def work(self, name: str, ranks: int) -> Work:
        executed_flops = self.flops(name, ranks, executed=True)
        return Work(useful_flops=self.flops(name, ranks), executed_flops=executed_flops)

"""The messages of the passes of a model that ranks share, without the computation."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.groups import ModelConfig
from benchkit.api.parameters import parameters
from benchkit.suites.transformer.flops import fsdp_groups
from benchkit.suites.transformer.names import FORWARD

FIRST_BUCKET_BYTES = 2**20
"""DDP's first bucket is smaller, so that communication begins early."""


@dataclass
class Communication:
    """Sends the messages of a pass one after another, from buffers that all passes share.

    Attributes:
        kind: the kind of parallelism: ddp, fsdp or tp.
        model: the sizes of the model.
        tokens: tokens of one batch.
        world_size: the number of ranks.
        bucket_mib: size of ddp's buckets of gradients, in MiB.
        weight: dtype of the weights, and so of the gradients.
        activation: dtype of the activations.
        device: where the buffers are.
        checkpointing: whether backward computes each layer's forward again.
        buffers: the buffers allocated so far, by name.
    """

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
        """Returns a call that does the communication of a pass; None where it has none."""
        forward = name == FORWARD
        if self.kind == "ddp":
            return None if forward else self.gradients()
        return self.weights(forward) if self.kind == "fsdp" else self.activations(forward)

    def allocated(self) -> int:
        """Returns the bytes of the buffers allocated so far."""
        return sum(buffer.nbytes for buffer in self.buffers.values())

    def buffer(self, name: str, size: int, dtype: torch.dtype) -> Tensor:
        """Returns the buffer of a name, allocated once; it holds zeros, whose sums stay finite."""
        if name not in self.buffers:
            self.buffers[name] = torch.zeros(size, dtype=dtype, device=self.device)
        return self.buffers[name]

    def gradients(self) -> Callable[[], object]:
        """DDP: all-reduces every bucket of gradients, all buckets at once."""
        buffer = self.buffer("gradients", parameters(self.model), self.weight)
        size = int(self.bucket_mib * 2**20) // self.weight.itemsize
        first = min(FIRST_BUCKET_BYTES // self.weight.itemsize, size)
        buckets = [buffer[:first], *buffer[first:].split(max(1, size))]

        def step() -> None:
            works = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
            for work in works:
                work.wait()

        return step

    def weights(self, forward: bool) -> Callable[[], object]:
        """FSDP: gathers each group of weights and reduce-scatters their gradients.

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
        """Tensor parallel: counts the all-reduces of a pass.

        Forward has one at the embedding and one after each half layer. Backward has one before
        each half layer and one at the head. With checkpointing, backward computes the first half
        of each layer again, with its all-reduce.
        """
        layers = self.model.num_layers
        once = 2 * layers + 1
        return once if forward else 2 * once + (layers if self.checkpointing else 0)

    def activations(self, forward: bool) -> Callable[[], object]:
        """Tensor parallel: all-reduces activations [T, d] and gathers the logits."""
        stream = self.buffer("stream", self.tokens * self.model.d_model, self.activation)
        share = -(-self.model.vocab_size // self.world_size)
        part = self.buffer("part", self.tokens * share, self.activation)
        logits = self.buffer("logits", self.tokens * share * self.world_size, self.activation)

        def step() -> None:
            for _ in range(self.all_reduces(forward)):
                dist.all_reduce(stream)
            dist.all_gather_into_tensor(logits, part)

        return step

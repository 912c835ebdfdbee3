"""What the passes of a model that ranks share send to each other, without what they compute."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.schema import ModelConfig
from benchkit.suites.transformer.flops import layer_parameters, parameters

FIRST_BUCKET_BYTES = 2**20
"""DDP's first bucket is smaller, so that communication begins early."""


def communicates(kind: str, name: str) -> bool:
    """Whether the ranks of a kind of parallelism communicate in a pass: replicas (ddp) average gradients alone."""
    return not (kind == "ddp" and name == "forward")


@dataclass
class Communication:
    """The same messages, one after another, in one pair of buffers for all passes.

    weight: the dtype of weights, and so of gradients; activation: of what flows through the network.
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
        """A pass's communication; None where it has none."""
        if not communicates(self.kind, name):
            return None
        if self.kind == "ddp":
            return self.gradients()
        forward = name == "forward"
        return self.weights(forward) if self.kind == "fsdp" else self.activations(forward)

    def nbytes(self) -> int:
        """The memory that its buffers take."""
        sizes = {
            "ddp": parameters(self.model) * self.weight.itemsize,
            "fsdp": 2 * max(self.groups()) * self.weight.itemsize,
            "tp": 2 * self.tokens * max(self.model.d_model, self.model.vocab_size) * self.activation.itemsize,
        }
        return int(sizes[self.kind])

    def allocated(self) -> int:
        """The memory that they take so far."""
        return sum(buffer.nbytes for buffer in self.buffers.values())

    def buffer(self, name: str, size: int, dtype: torch.dtype) -> Tensor:
        """A buffer of that name, the same each time; zeros, which no sum makes infinite."""
        if name not in self.buffers:
            self.buffers[name] = torch.zeros(size, dtype=dtype, device=self.device)
        return self.buffers[name]

    def gradients(self) -> Callable[[], object]:
        """DDP: every bucket of gradients all-reduced, all of them under way at once."""
        buffer = self.buffer("gradients", parameters(self.model), self.weight)
        first, size = (int(nbytes) // self.weight.itemsize for nbytes in (FIRST_BUCKET_BYTES, self.bucket_mib * 2**20))
        buckets = [buffer[: min(first, size)], *buffer[min(first, size) :].split(max(1, size))]

        def step() -> None:
            for under_way in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
                under_way.wait()

        return step

    def groups(self) -> list[int]:
        """Elements of each group of weights that FSDP gathers as one; those of the root last."""
        table = self.model.vocab_size * self.model.d_model
        return [table, *[layer_parameters(self.model)] * self.model.num_layers, table + self.model.d_model]

    def weights(self, forward: bool) -> Callable[[], object]:
        """FSDP: each group gathered, for backward all but the root once more, and their gradients reduce-scattered."""
        most = -(-max(self.groups()) // self.world_size)
        shard = self.buffer("shard", most, self.weight)
        gathered = self.buffer("gathered", most * self.world_size, self.weight)

        def views(group: int) -> tuple[Tensor, Tensor]:
            size = -(-group // self.world_size)
            return gathered[: size * self.world_size], shard[:size]

        def step() -> None:
            groups = self.groups()
            for group in groups if forward else [*groups, *groups[:-1]]:
                dist.all_gather_into_tensor(*views(group))
            for group in () if forward else groups:
                into, part = views(group)
                dist.reduce_scatter_tensor(part, into)

        return step

    def all_reduces(self, forward: bool) -> int:
        """Tensor parallel: one at the embedding, one after each half layer; backward one before each, one at the head.

        With checkpointing backward computes the first half again, and what that sends.
        """
        layers = self.model.num_layers
        once = 2 * layers + 1
        return once if forward else 2 * once + (layers if self.checkpointing else 0)

    def activations(self, forward: bool) -> Callable[[], object]:
        """Tensor parallel: all-reduces of [T, d], and a gather of the logits."""
        stream = self.buffer("stream", self.tokens * self.model.d_model, self.activation)
        share = -(-self.model.vocab_size // self.world_size)
        part = self.buffer("part", self.tokens * share, self.activation)
        logits = self.buffer("logits", self.tokens * share * self.world_size, self.activation)

        def step() -> None:
            for _ in range(self.all_reduces(forward)):
                dist.all_reduce(stream)
            dist.all_gather_into_tensor(logits, part)

        return step

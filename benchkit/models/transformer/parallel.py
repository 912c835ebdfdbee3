"""Several ranks to one model, by torch's own means: data parallel, sharded data parallel (FSDP2), tensor parallel."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from benchkit.config import ModelConfig
from benchkit.models.transformer.counts import parameters
from benchkit.models.transformer.network import Layer, Network

FIRST_BUCKET_BYTES = 2**20
"""DDP's first bucket is smaller, so that communication begins early."""


def plan() -> dict[str, ParallelStyle]:
    """Of a layer: heads and inner features are shared out, one all-reduce after each half (Megatron, 1909.08053)."""
    inward = ("attention.query", "attention.key", "attention.value", "feed_forward.gate", "feed_forward.up")
    outward = ("attention.out", "feed_forward.down")
    return {name: ColwiseParallel() for name in inward} | {name: RowwiseParallel() for name in outward}


def sharding(kind: str, mesh: DeviceMesh) -> Callable[[nn.Module], object]:
    """What to do to each part of a network as soon as it has weights."""

    def by_fsdp(part: nn.Module) -> object:
        return fully_shard(part, mesh=mesh) if isinstance(part, Layer | nn.Embedding) else None

    def by_tp(part: nn.Module) -> object:
        if isinstance(part, Layer):
            return parallelize_module(part, mesh, plan())
        if isinstance(part, nn.Embedding):
            return parallelize_module(part, mesh, RowwiseParallel(input_layouts=Replicate()))
        if isinstance(part, nn.Linear):
            return parallelize_module(part, mesh, ColwiseParallel(output_layouts=Replicate()))
        return None

    return {"fsdp": by_fsdp, "tp": by_tp}.get(kind, lambda part: None)


def mesh_of(device: torch.device, world_size: int) -> DeviceMesh:
    return init_device_mesh(device.type, (world_size,))


def wrapped(kind: str, network: Network, mesh: DeviceMesh, bucket_mib: float) -> nn.Module:
    """What is called in place of the network."""
    if kind == "ddp":
        return DistributedDataParallel(
            network, bucket_cap_mb=bucket_mib, gradient_as_bucket_view=True, broadcast_buffers=False
        )
    return fully_shard(network, mesh=mesh) if kind == "fsdp" else network


@dataclass(frozen=True)
class Communication:
    """What a pass sends, without what it computes: the same messages, one after another.

    weight: of the weights, and so of gradients. activation: the dtype of what flows through the network.
    """

    kind: str
    model: ModelConfig
    tokens: int
    world_size: int
    bucket_mib: float
    weight: torch.dtype
    activation: torch.dtype
    device: torch.device

    def of(self, name: str) -> Callable[[], object] | None:
        """A pass's communication; None where it has none."""
        forward = name == "forward"
        if self.kind == "ddp":
            return None if forward else self.gradients()
        return self.weights(forward) if self.kind == "fsdp" else self.activations(forward)

    def nbytes(self) -> int:
        """The memory that its buffers take."""
        sizes = {
            "ddp": parameters(self.model) * self.weight.itemsize,
            "fsdp": 2 * max(self.groups()) * self.weight.itemsize,
            "tp": 2 * self.tokens * max(self.model.d_model, self.model.vocab_size) * self.activation.itemsize,
        }
        return int(sizes[self.kind])

    def gradients(self) -> Callable[[], object]:
        """DDP: every bucket of gradients all-reduced, all of them under way at once."""
        buffer = torch.zeros(parameters(self.model), dtype=self.weight, device=self.device)
        first, size = (int(nbytes) // self.weight.itemsize for nbytes in (FIRST_BUCKET_BYTES, self.bucket_mib * 2**20))
        buckets = [buffer[: min(first, size)], *buffer[min(first, size) :].split(max(1, size))]

        def step() -> None:
            for under_way in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
                under_way.wait()

        return step

    def groups(self) -> list[int]:
        """Elements of each group of weights that FSDP gathers as one; those of the root last."""
        d_model = self.model.d_model
        layer = 4 * d_model**2 + 3 * d_model * self.model.d_ff + 2 * d_model
        table = self.model.vocab_size * d_model
        return [table, *[layer] * self.model.num_layers, table + d_model]

    def weights(self, forward: bool) -> Callable[[], object]:
        """FSDP: each group gathered, for backward all but the root once more, and their gradients reduce-scattered."""
        most = -(-max(self.groups()) // self.world_size)
        shard = torch.zeros(most, dtype=self.weight, device=self.device)
        gathered = torch.zeros(most * self.world_size, dtype=self.weight, device=self.device)

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

    def activations(self, forward: bool) -> Callable[[], object]:
        """Tensor parallel: all-reduces of [T, d] at the embedding and at each half layer, a gather of the logits.

        Backward has one all-reduce per half layer and one at the head.
        """
        stream = torch.zeros(self.tokens * self.model.d_model, dtype=self.activation, device=self.device)
        part = torch.zeros(
            self.tokens * -(-self.model.vocab_size // self.world_size), dtype=self.activation, device=self.device
        )
        logits = torch.zeros(len(part) * self.world_size, dtype=self.activation, device=self.device)
        halves = 2 * self.model.num_layers

        def step() -> None:
            for _ in range((1 if forward else 2) * (halves + 1)):
                dist.all_reduce(stream)
            dist.all_gather_into_tensor(logits, part)

        return step


def averaged_over_ranks(value: Tensor) -> Tensor:
    """The mean of a scalar over all ranks, which call this together."""
    result = value.clone()
    dist.all_reduce(result)
    return result / dist.get_world_size()

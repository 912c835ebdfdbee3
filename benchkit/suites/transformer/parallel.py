"""Several ranks to one model, by torch's own means: data parallel, sharded data parallel (FSDP2), tensor parallel."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from benchkit.suites.transformer.model import Layer, Network


def plan() -> dict[str, ParallelStyle]:
    """Of a layer: heads and inner features are shared out, one all-reduce after each half (Megatron, 1909.08053)."""
    inward = ("attention.query", "attention.key", "attention.value", "feed_forward.gate", "feed_forward.up")
    outward = ("attention.out", "feed_forward.down")
    entered = {  # once for all that they enter, so that backward adds up their gradients before it sends them
        "attention": PrepareModuleInput(
            input_layouts=(Replicate(), None, None), desired_input_layouts=(Replicate(), None, None)
        ),
        "feed_forward": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate()),
    }
    return entered | {name: ColwiseParallel() for name in inward} | {name: RowwiseParallel() for name in outward}


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


def averaged_over_ranks(value: Tensor) -> Tensor:
    """The mean over all ranks, which call this together."""
    result = value.clone()
    dist.all_reduce(result)
    return result / dist.get_world_size()

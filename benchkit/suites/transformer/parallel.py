"""Shares a model over ranks with torch: data parallel, sharded (FSDP2) or tensor parallel."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
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

from benchkit.api import device_mesh
from benchkit.suites.transformer.model import Layer, Network


def plan() -> dict[str, ParallelStyle]:
    """Returns the tensor-parallel styles of the modules of a layer (Megatron, 1909.08053).

    Heads and inner features are sharded. One all-reduce follows each half of the layer.
    """
    # The input of each half is prepared once for all projections that it enters, so that backward
    # adds up their gradients before it sends them.
    whole = Replicate()
    attention_layouts = (whole, None, None)
    styles: dict[str, ParallelStyle] = {
        "attention": PrepareModuleInput(
            input_layouts=attention_layouts, desired_input_layouts=attention_layouts
        ),
        "feed_forward": PrepareModuleInput(input_layouts=whole, desired_input_layouts=whole),
    }
    for name in ("attention.query", "attention.key", "attention.value"):
        styles[name] = ColwiseParallel()
    for name in ("feed_forward.gate", "feed_forward.up"):
        styles[name] = ColwiseParallel()
    for name in ("attention.out", "feed_forward.down"):
        styles[name] = RowwiseParallel()
    return styles


def sharding(kind: str, mesh: DeviceMesh | None) -> Callable[[nn.Module], object]:
    """Returns a function that shards a part of a network, called as soon as it has weights.

    Args:
        kind: the kind of parallelism; all but fsdp and tp leave the parts as they are.
        mesh: the mesh of all ranks; None where the ranks share nothing.
    """

    def by_fsdp(part: nn.Module) -> object:
        if isinstance(part, Layer | nn.Embedding):
            return fully_shard(part, mesh=mesh)
        return None

    def by_tp(part: nn.Module) -> object:
        if isinstance(part, Layer):
            return parallelize_module(part, mesh, plan())
        if isinstance(part, nn.Embedding):
            return parallelize_module(part, mesh, RowwiseParallel(input_layouts=Replicate()))
        if isinstance(part, nn.Linear):
            return parallelize_module(part, mesh, ColwiseParallel(output_layouts=Replicate()))
        return None

    return {"fsdp": by_fsdp, "tp": by_tp}.get(kind, lambda part: None)


def missing(kind: str, device: torch.device) -> str:
    """Returns why ranks cannot share a model by a kind of parallelism here; "" if they can.

    Tensor parallelism changes the layout of DTensors, and the check of FSDP2 gathers its gradients.
    """
    return device_mesh.dtensor_missing(device) if kind in ("fsdp", "tp") else ""


def wrapped(kind: str, network: Network, mesh: DeviceMesh | None, bucket_mib: float) -> nn.Module:
    """Returns the module to call in place of the network.

    Args:
        kind: the kind of parallelism; all but ddp and fsdp return the network itself.
        network: the network, its parts sharded.
        mesh: the mesh of all ranks; None where the ranks share nothing.
        bucket_mib: size of ddp's buckets of gradients, in MiB.
    """
    if kind == "ddp":
        return DistributedDataParallel(
            network, bucket_cap_mb=bucket_mib, gradient_as_bucket_view=True, broadcast_buffers=False
        )
    return fully_shard(network, mesh=mesh) if kind == "fsdp" else network


def averaged_over_ranks(value: Tensor) -> Tensor:
    """Returns the mean over all ranks, which call this together."""
    result = value.clone()
    dist.all_reduce(result)
    return result / dist.get_world_size()

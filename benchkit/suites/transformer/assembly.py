"""Assembles a model as one rank runs it: network, sharding, compilation, wrapper and contexts."""

from functools import partial
from typing import TYPE_CHECKING

import torch

from benchkit.api.case import Rank
from benchkit.suites.transformer import kernels, parallel
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.model import Network, build
from benchkit.suites.transformer.passes import Steps

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def assemble(
    kind: str,
    config: TransformerConfig,
    weight: torch.dtype,
    rank: Rank,
    mesh: "DeviceMesh | None",
) -> Steps:
    """Builds a model and returns the passes over it.

    Args:
        kind: how the ranks share the work, as the key `parallel`; "none": a whole model here.
        config: the configuration of the suite; its model is set.
        weight: the dtype of the weights.
        rank: the rank that builds, for its device and its seed.
        mesh: the mesh of all ranks; None where `kind` is "none".
    """
    assert config.model is not None
    device = rank.device
    naive = config.attention == "naive"
    blank = partial(Network, config.model, naive, config.activation_checkpointing)
    network = build(blank, weight, device, rank.seed, parallel.sharding(kind, mesh))
    if config.compile != "none":
        network.compile(mode=None if config.compile == "default" else config.compile)
    model = parallel.wrapped(kind, network, mesh, config.bucket_mib)
    # FSDP2 writes to its buffers again later, which inference mode forbids. DTensors that were
    # made in inference mode hold on to each other until the garbage collector finds them.
    no_graph = torch.no_grad if kind in ("fsdp", "tp") else torch.inference_mode
    is_autocast = config.dtype == "autocast"
    autocast = partial(torch.autocast, device.type, torch.bfloat16, enabled=is_autocast)
    return Steps(network, model, partial(kernels.chosen, config.attention), autocast, no_graph)

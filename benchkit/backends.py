"""Which backends exist here, and how a rank joins its process group."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from benchkit.config import RunConfig
from benchkit.errors import Unavailable
from benchkit.layout import Place

STORE_TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True)
class Rendezvous:
    """Where ranks meet: agent 0's store, and a prefix of its own for each point."""

    host: str
    port: int
    prefix: str


def require_available(config: RunConfig) -> None:
    """Raises Unavailable where this torch build lacks the backend, or the backend cannot use the device."""
    backend, device = config.backend, config.hardware.device
    if device not in backend.devices:
        raise Unavailable(f"{backend.name} communicates {'/'.join(backend.devices)} tensors, not {device}")
    if not dist.is_backend_available(backend.name):
        raise Unavailable(f"torch {torch.__version__} here is built without {backend.name}")


def join(config: RunConfig, place: Place, world_size: int, rendezvous: Rendezvous) -> torch.device:
    """Joins the process group of one point and returns this rank's device."""
    device = torch.device("cpu")
    if config.hardware.device == "cuda":
        device = torch.device("cuda", place.device_index)
        torch.cuda.set_device(device)
    store = dist.TCPStore(rendezvous.host, rendezvous.port, is_master=False, timeout=STORE_TIMEOUT)
    dist.init_process_group(
        config.backend.name,
        store=dist.PrefixStore(rendezvous.prefix, store),
        rank=place.rank,
        world_size=world_size,
        timeout=group_timeout(config),
    )
    return device


def group_timeout(config: RunConfig) -> timedelta:
    """Longer than the point's: the agent ends what hangs, with a better message."""
    return timedelta(seconds=config.timeout_s + STORE_TIMEOUT.total_seconds())


def side_group(name: str, device: torch.device, timeout: timedelta) -> dist.ProcessGroup | None:
    """A group of all ranks over another backend, e.g. gloo or ucc/tl/cuda; None for `default`, the job's own.

    Called by all ranks alike. Raises Unavailable where this torch or this device cannot have it.
    """
    if name == "default":
        return None
    backend, _, layer = name.partition("/tl/")
    if not dist.is_backend_available(backend):
        raise Unavailable(f"torch {torch.__version__} here is built without {backend}")
    if backend == "nccl" and device.type != "cuda":
        raise Unavailable(f"nccl communicates cuda tensors, not {device.type}")
    before = dict(os.environ)
    os.environ.update({"UCC_CL_BASIC_TLS": layer} if layer else {})
    try:
        return dist.new_group(backend=backend, timeout=timeout)
    finally:
        os.environ.clear()
        os.environ.update(before)


def control_group(timeout: timedelta) -> dist.ProcessGroup | None:
    """A group for barriers and samples on the CPU: the default group where that is gloo, else one beside it."""
    return None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo", timeout=timeout)

"""Which backends exist here, and how a rank joins its process group."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from benchkit.config import RunConfig
from benchkit.errors import Unavailable

STORE_TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True)
class Rendezvous:
    """Where ranks meet: the agent's store, and a prefix of its own for each point."""

    host: str
    port: int
    prefix: str


def require_available(config: RunConfig, world_size: int) -> None:
    """Raises Unavailable where this torch build or machine lacks the backend, the device, or enough devices."""
    backend, hardware = config.backend, config.hardware
    if hardware.device not in backend.devices:
        raise Unavailable(f"{backend.name} communicates {'/'.join(backend.devices)} tensors, not {hardware.device}")
    if not dist.is_backend_available(backend.name):
        raise Unavailable(f"torch {torch.__version__} here is built without {backend.name}")
    if hardware.device == "cuda":
        there = torch.cuda.device_count()
        needed = -(-world_size // hardware.ranks_per_device)
        if needed > there:
            raise Unavailable(f"needs {needed} GPUs for {world_size} ranks, {there} visible")


def rank_environment(config: RunConfig, index: int, world_size: int) -> Mapping[str, str]:
    """The environment of one rank: the backend's own variables, and the names that torchrun uses."""
    return {
        **config.backend.env,
        "RANK": str(index),
        "LOCAL_RANK": str(index),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
    }


def join(config: RunConfig, index: int, world_size: int, rendezvous: Rendezvous) -> torch.device:
    """Joins the process group of one point and returns this rank's device.

    The group's own time-out is longer than the point's: the agent ends what hangs, with a better message.
    """
    device = torch.device("cpu")
    if config.hardware.device == "cuda":
        device = torch.device("cuda", index // config.hardware.ranks_per_device)
        torch.cuda.set_device(device)
    store = dist.TCPStore(rendezvous.host, rendezvous.port, is_master=False, timeout=STORE_TIMEOUT)
    dist.init_process_group(
        config.backend.name,
        store=dist.PrefixStore(rendezvous.prefix, store),
        rank=index,
        world_size=world_size,
        timeout=timedelta(seconds=config.timeout_s + STORE_TIMEOUT.total_seconds()),
    )
    return device


def control_group() -> dist.ProcessGroup | None:
    """A group for barriers and samples on the CPU: the default group where that is gloo, else one beside it."""
    return None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")

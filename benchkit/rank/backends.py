"""Which backends exist here, and how a rank joins its process group."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from benchkit.api.schema import RunConfig
from benchkit.errors import Unavailable
from benchkit.rank.assignment import Place
from benchkit.rank.rendezvous import STORE_TIMEOUT, Rendezvous


def require_built(name: str) -> None:
    """Raises Unavailable where this torch build lacks the backend."""
    if not dist.is_backend_available(name):
        raise Unavailable(f"torch {torch.__version__} here is built without {name}")


def join(config: RunConfig, place: Place, world_size: int, rendezvous: Rendezvous) -> torch.device:
    """Joins the process group of one point and returns this rank's device.

    Raises:
        Unavailable: on all ranks alike, as require_built() does.
    """
    require_built(config.backend.name)
    device = torch.device("cpu")
    if config.hardware.device == "cuda":
        device = torch.device("cuda", place.device_index)
        torch.cuda.set_device(device)
    dist.init_process_group(
        config.backend.name,
        store=rendezvous.store(),
        rank=place.rank,
        world_size=world_size,
        timeout=group_timeout(config),
    )
    return device


def group_timeout(config: RunConfig) -> timedelta:
    """Longer than the point's: the agent ends what hangs, with a better message."""
    return timedelta(seconds=config.timeout_s + STORE_TIMEOUT.total_seconds())


def side_group(
    name: str, device: torch.device, timeout: timedelta, first_reason: Callable[[str], str]
) -> dist.ProcessGroup | None:
    """A group of all ranks over another backend, e.g. gloo or ucc/tl/cuda; None for `default`, the job's own.

    Called by all ranks alike. Raises Unavailable on all of them where one cannot have it: some backends say so at the
    first collective only. first_reason: of all ranks' reasons the first that is not empty.
    """
    if name == "default":
        return None
    backend, _, layer = name.partition("/tl/")
    require_built(backend)
    if {backend, layer} & {"nccl", "cuda"} and device.type != "cuda":
        raise Unavailable(f"{name} communicates cuda tensors, not {device.type}")
    reason = ""
    try:
        with only_over(layer):
            group = dist.new_group(backend=backend, timeout=timeout)
            dist.all_reduce(torch.zeros(1, device=device), group=group)
            if device.type == "cuda":
                torch.cuda.synchronize()
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
    if reason := first_reason(reason):
        raise Unavailable(f"{name}: {reason}")
    return group


@contextmanager
def only_over(layer: str) -> Iterator[None]:
    """Within, UCC makes its connections over one transport layer, and a group shares none with groups over others.

    UCC reads this when a group makes its first call (ProcessGroupUCC.cpp).
    """
    chosen = {"UCC_CL_BASIC_TLS": layer, "TORCH_UCC_SHARED_COMM": "0"} if layer else {}
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def control_group(timeout: timedelta) -> dist.ProcessGroup | None:
    """A group for barriers and samples on the CPU: the default group where that is gloo, else one beside it."""
    return None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo", timeout=timeout)

"""Backends of this torch build, process groups, and the control channel."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from benchkit.api.keys import RunConfig
from benchkit.api.p2p import all_gather_json
from benchkit.api.torch_internals import nccl_has_failed
from benchkit.errors import Reason, Unavailable, oom_reason
from benchkit.rank.assignment import STORE_TIMEOUT, RankPlace, Rendezvous
from launch.host import read_text
from launch.ranks.entry import report_and_exit

WARM_UP_ELEMENTS = 2**18
"""float32 elements that each rank sends to each other one in connect_ranks(): 1 MiB."""

NCCL_POLL_S = 1.0
NCCL_SAYS = re.compile(r"NCCL error: [^,\n]+|(?<=Last error:\n)[^\n]+")


def require_built(name: str) -> None:
    if not dist.is_backend_available(name):
        raise Unavailable(f"torch {torch.__version__} here is built without {name}")


def init_process_group(
    config: RunConfig, place: RankPlace, world_size: int, rendezvous: Rendezvous
) -> torch.device:
    """Join the process group of one point and return this rank's device.

    Raises Unavailable on all ranks if torch lacks the backend, or on a rank whose GPU another
    process has reserved.
    """
    require_built(config.backend.name)
    device = torch.device("cpu")
    if config.hardware.device == "cuda":
        device = torch.device("cuda", place.device_index)
        set_device(device)
    store = rendezvous.store()
    dist.init_process_group(
        config.backend.name,
        store=store,
        rank=place.rank,
        world_size=world_size,
        timeout=group_timeout(config),
    )
    # A communicator is made at its first collective, which ranks may reach minutes apart.
    store.set_timeout(group_timeout(config))
    if device.type == "cuda":
        threading.Thread(target=watch_nccl_errors, args=(device,), daemon=True).start()
    return device


def watch_nccl_errors(device: torch.device) -> None:
    """Wait until NCCL reports a failed link or peer, then end this rank.

    The collective itself would block until the point's timeout, since no rank aborts.
    """
    while not nccl_has_failed(device):
        time.sleep(NCCL_POLL_S)
    log = read_text("/proc/self/fd/2")  # torch has written NCCL's messages there
    report_and_exit(
        RuntimeError("; ".join(NCCL_SAYS.findall(log)[:2]) or "NCCL: asynchronous error")
    )


def set_device(device: torch.device) -> None:
    """Make a GPU the current one; raise Unavailable if another process has reserved it."""
    try:
        torch.cuda.set_device(device)
    except RuntimeError as error:
        if oom_reason(error):
            raise
        raise Unavailable(f"{device}: {str(error).splitlines()[0]}") from None


def connect_ranks(device: torch.device) -> None:
    """Connect all pairs of ranks; all ranks call this together.

    NCCL allocates its buffers at first calls, gigabytes of GPU memory on some machines. After this
    they no longer count as free.
    """
    if dist.get_backend() != "nccl":
        return
    sent = torch.zeros(dist.get_world_size() * WARM_UP_ELEMENTS, device=device)
    dist.all_reduce(sent)
    dist.all_to_all_single(torch.empty_like(sent), sent)
    torch.cuda.synchronize(device)


def group_timeout(config: RunConfig) -> timedelta:
    """Return the timeout of process groups.

    It is longer than the point's timeout: the agent ends hung ranks, with a better message.
    """
    return timedelta(seconds=config.timeout_s + STORE_TIMEOUT.total_seconds())


def new_side_group(
    name: str, device: torch.device, timeout: timedelta, first_reason: Callable[[str], str]
) -> dist.ProcessGroup | None:
    """Make a group of all ranks over another backend; all ranks call this together.

    Some backends fail only at their first collective, so this function runs one. Raises Unavailable
    on all ranks if one of them fails.

    Args:
        name: a backend, for example gloo or ucc/tl/cuda, or `default` for the job's own (None).
        first_reason: takes this rank's reason and returns the first non-empty one of all ranks.
    """
    if name == "default":
        return None
    backend, _, layer = name.partition("/tl/")
    require_built(backend)
    if {backend, layer} & {"nccl", "cuda"} and device.type != "cuda":
        raise Unavailable(f"{name} communicates cuda tensors, not {device.type}")
    reason = ""
    try:
        with restrict_ucc_layer(layer):
            group = dist.new_group(backend=backend, timeout=timeout)
            dist.all_reduce(torch.zeros(1, device=device), group=group)
            torch.get_device_module(device).synchronize()
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
    if reason := first_reason(reason):
        raise Unavailable(f"{name}: {reason}")
    return group


@contextmanager
def restrict_ucc_layer(layer: str) -> Iterator[None]:
    """Restrict UCC's connections to one transport layer in this context.

    A group made here shares no connections with groups over other layers. UCC reads these variables
    at a group's first call (ProcessGroupUCC.cpp).
    """
    variables = {"UCC_CL_BASIC_TLS": layer, "TORCH_UCC_SHARED_COMM": "0"} if layer else {}
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def new_control_group(timeout: timedelta) -> dist.ProcessGroup | None:
    """Return a group for barriers and samples on the CPU; None if the default is gloo."""
    if dist.get_backend() == "gloo":
        return None
    return dist.new_group(backend="gloo", timeout=timeout)


@dataclass(frozen=True)
class RankReason:
    """The reason why a case is not ok, and the first rank with a reason."""

    reason: Reason = ""
    rank: int | None = None


@dataclass(frozen=True)
class ControlGroup:
    """CPU tensors over gloo, whichever backend is measured."""

    handle: dist.ProcessGroup | None
    world_size: int

    def barrier(self) -> None:
        dist.barrier(group=self.handle)

    def all_gather(self, values: list[float]) -> list[list[float]]:
        """Return every rank's list of numbers: [rank]."""
        own_row = torch.tensor(values, dtype=torch.float64)
        gathered = [torch.empty_like(own_row) for _ in range(self.world_size)]
        dist.all_gather(gathered, own_row, group=self.handle)
        return [row.tolist() for row in gathered]

    def first_reason(self, reasons: list[Reason]) -> list[RankReason]:
        """Return the reason of the first rank with one, for each case; equal on all ranks."""
        by_case = zip(*all_gather_json(reasons, self.handle), strict=True)
        return [first_rank_reason(reasons_of_ranks) for reasons_of_ranks in by_case]


def first_rank_reason(reasons: tuple[str, ...]) -> RankReason:
    for rank, reason in enumerate(reasons):
        if reason:
            return RankReason(reason, rank)
    return RankReason()

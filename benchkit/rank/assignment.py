"""The assignment that an agent sends to a rank, and the rank's report.

Imports torch only to open a store.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchkit.api.keys import RunConfig
from benchkit.record import files
from benchkit.record.record import Labels, Measured
from launch.agents.address import LOOPBACK
from launch.agents.clock import Offset
from launch.host import ResourceLimits
from launch.ranks.entry import RENDEZVOUS_FILE_VARIABLE
from launch.ranks.private_network import proc_fd_path

if TYPE_CHECKING:
    import torch.distributed as dist

STORE_TIMEOUT = timedelta(seconds=60)
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
LOOPBACK_INTERFACE = Path("/sys/class/net/lo")


@dataclass(frozen=True)
class Rendezvous:
    """The rendezvous of ranks: a FileStore on one host, else a TCPStore of agent 0.

    Only our user can open the file, so no other user can join or mislead the ranks. The TCPStore
    has no password: every process that reaches its port is trusted.

    Attributes:
        file: path of the FileStore; "" for a TCPStore.
        host: agent 0's host as this agent reaches it.
        interface: interface by which gloo reaches other hosts; "" if gloo finds it.
    """

    file: str = ""
    host: str = ""
    port: int = 0
    interface: str = ""

    def store(self) -> "dist.Store":
        import torch.distributed as dist

        if self.file:
            store = dist.FileStore(os.environ[RENDEZVOUS_FILE_VARIABLE])
            store.set_timeout(STORE_TIMEOUT)
            return store
        return dist.TCPStore(self.host, self.port, is_master=False, timeout=STORE_TIMEOUT)

    def environment(self, in_private_network: bool = False) -> dict[str, str]:
        """Return the environment variables that ranks need for their rendezvous.

        On one host gloo listens on loopback, unreachable from the network. The shell's choice of
        gloo's interface is kept, except in a private network, which has only loopback.
        """
        variables = {RENDEZVOUS_FILE_VARIABLE: self.file} if self.file else {}
        has_loopback = os.path.exists(LOOPBACK_INTERFACE)  # False, too, without permission
        loopback = LOOPBACK_INTERFACE.name if has_loopback else ""
        interface = loopback if self.file else self.interface
        if interface and (in_private_network or GLOO_INTERFACE not in os.environ):
            variables[GLOO_INTERFACE] = interface
        return variables


@dataclass(frozen=True)
class MemoryFile:
    """An unnamed file of agent 0, which disappears at the latest with agent 0.

    Processes that may trace agent 0 can open it: those of the same user, and root's. The inode
    distinguishes it from another file with that path.
    """

    pid: int
    descriptor: int
    inode: int

    @property
    def path(self) -> str:
        return proc_fd_path(self.pid, self.descriptor)

    def can_be_opened(self) -> bool:
        """Return False on another host, in another PID namespace, or if it cannot be locked."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        with open(descriptor) as file, suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as torch's FileStore will
            return os.fstat(descriptor).st_ino == self.inode
        return False


@contextmanager
def memory_file() -> Iterator[MemoryFile]:
    """Provide a file of agent 0 in this context; a process that has opened it keeps it."""
    descriptor = open_unnamed_file()
    try:
        yield MemoryFile(os.getpid(), descriptor, os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)


def open_unnamed_file() -> int:
    """Open a new file in memory, or in the temporary folder without memfd_create.

    A Python built for glibc before 2.27 lacks memfd_create on any kernel.
    """
    with suppress(AttributeError, OSError):
        return os.memfd_create("benchkit-ranks-meet")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def tcp_store() -> "dist.TCPStore":
    import torch.distributed as dist

    return dist.TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)


@dataclass(frozen=True)
class RankPlace:
    """The place of one rank.

    Attributes:
        local_rank: number among the ranks on its host.
        device_index: index of its GPU among those visible to its agent.
    """

    rank: int
    local_rank: int
    local_world_size: int
    device_index: int


@dataclass(frozen=True)
class Assignment:
    """One rank's part in one point.

    Attributes:
        slowdown: target slowdown factors: [rank].
        offset: offset from this host's clock to agent 0's.
        folder: folder of the record.
        only: labels of the single case to verify and time; None for all cases.
        idle_pids: processes of this agent's idle ranks, which wait for their next point.
        hosts: names of nodes: [rank].
        limits: resource limits of the agent, on which the placement relies.
    """

    config: RunConfig
    place: RankPlace
    world_size: int
    threads: int
    slowdown: tuple[float, ...]
    rendezvous: Rendezvous
    offset: Offset
    folder: Path
    only: Labels | None = None
    idle_pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    limits: ResourceLimits = field(default_factory=ResourceLimits)

    @property
    def uses_mps(self) -> bool:
        """Whether ranks get GPU shares by MPS: if one is slowed, or if `hardware` sets shares."""
        hardware = self.config.hardware
        if hardware.device != "cuda":
            return False
        asks = hardware.slow_by == "mps" or hardware.full_share != "auto"
        return asks or max(self.slowdown) > 1

    @property
    def is_slowed(self) -> bool:
        """Whether a rank is throttled, or has a share of a GPU."""
        return max(self.slowdown) > 1 or self.uses_mps


@dataclass(frozen=True)
class RankReport:
    """Report of rank 0 to its agent; `began_s` is on the monotonic clock of its host."""

    measured: Measured
    began_s: dict[str, float]


SO_FAR = "so_far.json"
"""Report of rank 0 so far, in the folder of a point."""


def store_partial_report(report: RankReport, folder: Path) -> None:
    """Store a report for the agent, which reads it only if the ranks return none."""
    with suppress(OSError):  # a full disk, which the agent reports once
        files.write_atomically(folder / SO_FAR, msgspec.json.encode(report), durable=False)


def take_partial_report(folder: Path) -> RankReport | None:
    """Remove the report that rank 0 stored and return it; None without one."""
    path = folder / SO_FAR
    try:
        return files.read_json(path, RankReport)
    except (OSError, ValueError):
        return None
    finally:
        path.unlink(missing_ok=True)

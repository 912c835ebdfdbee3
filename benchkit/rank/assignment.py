"""What an agent sends to each rank and gets back; imports torch only to open a store."""

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
    """Where ranks meet.

    On one host they meet by a file that only our user can open, so no other user can join or
    mislead them. On several hosts they meet in a TCPStore of agent 0. It has no password: every
    process that reaches its port is trusted.

    Attributes:
        host: agent 0's host as this agent reaches it.
        interface: interface by which gloo reaches other hosts; "" where gloo finds it.
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
        """Return the environment variables that ranks need to meet.

        On one host gloo listens on loopback, out of the network's reach. The shell's choice of
        gloo's interface is kept, but a private network has loopback alone.
        """
        variables = {RENDEZVOUS_FILE_VARIABLE: self.file} if self.file else {}
        has_loopback = os.path.exists(LOOPBACK_INTERFACE)  # False, too, where none may look
        loopback = LOOPBACK_INTERFACE.name if has_loopback else ""
        interface = loopback if self.file else self.interface
        if interface and (in_private_network or GLOO_INTERFACE not in os.environ):
            variables[GLOO_INTERFACE] = interface
        return variables


@dataclass(frozen=True)
class MemoryFile:
    """A nameless file of agent 0, which disappears at the latest with agent 0.

    The kernel lets processes open it that may trace agent 0: those of the same user, and root's.
    The inode tells it from another file with that path.
    """

    pid: int
    descriptor: int
    inode: int

    @property
    def path(self) -> str:
        return proc_fd_path(self.pid, self.descriptor)

    def can_be_opened(self) -> bool:
        """Return False on another host, in another PID namespace, or where it cannot be locked."""
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
    """Provide a file of agent 0 while the context lasts; who has opened it keeps it."""
    descriptor = nameless_file()
    try:
        yield MemoryFile(os.getpid(), descriptor, os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)


def nameless_file() -> int:
    """Open a new file in memory; in the temporary folder where Python or the kernel has none.

    A Python that is built for a C library before glibc 2.27 has none, on any kernel.
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
    """Where one rank runs.

    Attributes:
        local_rank: number among the ranks on its host.
        device_index: its GPU, counted among those that its agent sees.
    """

    rank: int
    local_rank: int
    local_world_size: int
    device_index: int


@dataclass(frozen=True)
class Assignment:
    """One rank's part in one point.

    Attributes:
        slowdown: how many times slower each rank is to be: [rank].
        offset: offset of this host's clock to agent 0's.
        folder: where the record goes.
        only: labels of the one case that is verified and timed; None for all cases.
        idle_pids: processes of this agent's idle ranks, which wait for their next point.
        hosts: names of nodes: [rank].
        limits: limits of the agent, on which the plan relies.
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
        """Whether ranks get shares of GPUs by MPS.

        They do if a rank is slowed down, or if `hardware` asks for equal shares to compare.
        """
        hardware = self.config.hardware
        if hardware.device != "cuda":
            return False
        asks = hardware.slow_by == "mps" or hardware.full_share != "auto"
        return asks or max(self.slowdown) > 1

    @property
    def is_slowed(self) -> bool:
        """Whether a rank is to be slower than its device, or has a share of one."""
        return max(self.slowdown) > 1 or self.uses_mps


@dataclass(frozen=True)
class RankReport:
    """Report of rank 0 to its agent; `began_s` is on the monotonic clock of its host."""

    measured: Measured
    began_s: dict[str, float]


SO_FAR = "so_far.json"
"""In the folder of a point: what rank 0 would return if the point ended now."""


def store_partial_report(report: RankReport, folder: Path) -> None:
    """Keep a report for the agent, which reads it only if the ranks return none."""
    with suppress(OSError):  # a full disk, which the agent reports once
        files.write_atomically(folder / SO_FAR, msgspec.json.encode(report), durable=False)


def take_partial_report(folder: Path) -> RankReport | None:
    """Remove what rank 0 stored and return it; None if it stored nothing."""
    path = folder / SO_FAR
    try:
        return files.read_json(path, RankReport)
    except (OSError, ValueError):
        return None
    finally:
        path.unlink(missing_ok=True)

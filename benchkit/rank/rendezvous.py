"""Where ranks meet: a private file on one host, else agent 0's TCPStore."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from launch.agents.address import LOOPBACK
from launch.ranks.entry import MEETING_FILE
from launch.ranks.private_network import opened_by

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
        file: path of the file, on one host; else "".
        host: agent 0's host as this agent reaches it.
        port: port of agent 0's store.
        interface: of this host, by which gloo reaches other hosts; "" where gloo finds it.
    """

    file: str = ""
    host: str = ""
    port: int = 0
    interface: str = ""

    def store(self) -> "dist.Store":
        """Opens the store in a rank."""
        import torch.distributed as dist

        if self.file:
            store = dist.FileStore(os.environ[MEETING_FILE])
            store.set_timeout(STORE_TIMEOUT)
            return store
        return dist.TCPStore(self.host, self.port, is_master=False, timeout=STORE_TIMEOUT)

    def environment(self) -> dict[str, str]:
        """Returns the environment variables that ranks need to meet.

        On one host they name the file, and make gloo listen on loopback, out of the network's
        reach. A user's choice of gloo's interface is kept.
        """
        variables = {MEETING_FILE: self.file} if self.file else {}
        loopback = LOOPBACK_INTERFACE.name if LOOPBACK_INTERFACE.exists() else ""
        interface = loopback if self.file else self.interface
        if interface and GLOO_INTERFACE not in os.environ:
            variables[GLOO_INTERFACE] = interface
        return variables


@dataclass(frozen=True)
class MemoryFile:
    """A nameless file in agent 0's memory, which disappears at the latest with agent 0.

    The kernel lets a process open it that may trace agent 0: those of the same user, and root's.

    Attributes:
        pid: process of agent 0.
        descriptor: of the file in that process.
        inode: inode of the file, which tells it from another file with that path.
    """

    pid: int
    descriptor: int
    inode: int

    @property
    def path(self) -> str:
        """Path by which other processes open it."""
        return opened_by(self.pid, self.descriptor)

    def can_be_opened(self) -> bool:
        """Returns whether the path leads to the file here.

        It does not on another host or in another PID namespace.
        """
        try:
            same_file = os.stat(self.path).st_ino == self.inode
            return same_file and os.access(self.path, os.R_OK | os.W_OK)
        except OSError:
            return False


@contextmanager
def memory_file() -> Iterator[MemoryFile]:
    """Provides a file of agent 0 while the context lasts; who has opened it keeps it."""
    descriptor = os.memfd_create("benchkit-ranks-meet")
    try:
        yield MemoryFile(os.getpid(), descriptor, os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)


def tcp_store() -> "dist.TCPStore":
    """Makes a store of agent 0, on a port that the system chooses."""
    import torch.distributed as dist

    return dist.TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)

"""Where the ranks of one point find each other: a private file on one host, agent 0's TCPStore across hosts."""

import functools
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from launch.agents.address import LOOPBACK
from launch.ranks.entry import MEETING_FILE

if TYPE_CHECKING:
    import torch.distributed as dist

STORE_TIMEOUT = timedelta(seconds=60)
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
LOOPBACK_INTERFACE = Path("/sys/class/net/lo")


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks of one point meet.

    On one host that is a file that only our user can open: no other user can join or mislead the ranks. Ranks on
    several hosts meet in agent 0's TCPStore, which knows no password: whoever reaches its port is trusted.

    Attributes:
        file: a path, on one host; else "".
        host: agent 0's host as this agent reaches it.
        port: of agent 0's store.
        prefix: of this point's keys.
    """

    prefix: str
    file: str = ""
    host: str = ""
    port: int = 0

    def store(self) -> "dist.Store":
        """Opens the store, in a rank."""
        import torch.distributed as dist

        if self.file:
            store = dist.FileStore(os.environ[MEETING_FILE])
            store.set_timeout(STORE_TIMEOUT)
            return dist.PrefixStore(self.prefix, store)
        shared = dist.TCPStore(self.host, self.port, is_master=False, timeout=STORE_TIMEOUT)
        return dist.PrefixStore(self.prefix, shared)

    def environment(self) -> dict[str, str]:
        """What ranks on one host need: the file, and that gloo listens on loopback, out of the network's reach."""
        if not self.file:
            return {}
        chosen = GLOO_INTERFACE in os.environ or not LOOPBACK_INTERFACE.exists()
        return {MEETING_FILE: self.file} | ({} if chosen else {GLOO_INTERFACE: LOOPBACK_INTERFACE.name})


@dataclass(frozen=True)
class MemoryFile:
    """A file that lies in agent 0's memory and has no name: it goes with agent 0, however that ends.

    The kernel lets those open it who may trace agent 0: processes of its own user, and root's.
    """

    path: str
    inode: int

    def can_be_opened(self) -> bool:
        """Whether the path leads to the file here; it does not on another host, or among other process numbers."""
        try:
            return os.stat(self.path).st_ino == self.inode and os.access(self.path, os.R_OK | os.W_OK)
        except OSError:
            return False

    def clear(self) -> None:
        """Removes its content, once no rank of the point lives."""
        os.truncate(self.path, 0)


@functools.cache
def memory_file() -> MemoryFile:
    """Agent 0's file, for all points of its sweep."""
    descriptor = os.memfd_create("benchkit-ranks-meet")
    return MemoryFile(f"/proc/{os.getpid()}/fd/{descriptor}", os.fstat(descriptor).st_ino)


@functools.cache
def tcp_store() -> "dist.TCPStore":
    """Agent 0's store, on a port that the system chose."""
    import torch.distributed as dist

    return dist.TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)

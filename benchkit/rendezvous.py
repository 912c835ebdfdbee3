"""Where the ranks of one point find each other: a private file on one host, agent 0's TCPStore across hosts."""

import functools
import os
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

STORE_TIMEOUT = timedelta(seconds=60)
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
LOOPBACK = Path("/sys/class/net/lo")


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks of one point meet.

    On one host that is a file that only our user can read: no other user can join or mislead the ranks. Ranks on
    several hosts meet in agent 0's TCPStore, which knows no password: whoever reaches its port is trusted.

    Attributes:
        file: a path, on one host; else "".
        host: agent 0's host as this agent reaches it.
        port: of agent 0's store.
        prefix: of this point's keys in agent 0's store.
    """

    file: str
    host: str = ""
    port: int = 0
    prefix: str = ""

    def store(self) -> dist.Store:
        """Opens the store, in a rank."""
        if self.file:
            store = dist.FileStore(self.file)
            store.set_timeout(STORE_TIMEOUT)
            return store
        shared = dist.TCPStore(self.host, self.port, is_master=False, timeout=STORE_TIMEOUT)
        return dist.PrefixStore(self.prefix, shared)

    def environment(self) -> dict[str, str]:
        """What ranks on one host need so that gloo listens on loopback, where the network cannot reach it."""
        chosen = GLOO_INTERFACE in os.environ or not LOOPBACK.exists()
        return {} if chosen or not self.file else {GLOO_INTERFACE: LOOPBACK.name}


@functools.cache
def store_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files in which ranks meet, which no other user may enter; it goes with this process."""
    return tempfile.TemporaryDirectory(prefix="benchkit-")


@functools.cache
def tcp_store() -> dist.TCPStore:
    """Agent 0's store, on a port that the system chose."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

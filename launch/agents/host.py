"""An agent's host: the lock that one point at a time holds, and its interface to other hosts."""

import contextlib
import errno
import fcntl
import os
import pwd
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from multiprocessing.connection import Connection
from pathlib import Path

from launch.agents.group import Agents, alone
from launch.signals import wait_for

NAME = "benchkit-measures"
LOCK_VARIABLE = "BENCHKIT_HOST_LOCK"
"""Another name for the lock, for tests and never for measurements.

Runs under different names disturb each other.
"""

LONGEST_NAME = 107
"""Bytes of a name in the abstract namespace (unix(7))."""
LONGEST_S = 7 * 24 * 3600.0
RETRY_S = 0.5
"""Seconds between two checks of a holder that refuses connections, whose end does not wake us."""
SHOWN_COMMAND = 100


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock; None if it refuses connections."""

    pid: int | None = None
    uid: int | None = None

    @property
    def is_ours(self) -> bool:
        return self.uid == os.getuid()

    def __str__(self) -> str:
        if self.pid is None or self.uid is None:
            return "a process that does not say which it is"
        user = str(self.uid)
        with contextlib.suppress(KeyError):
            user = pwd.getpwuid(self.uid).pw_name
        command = b""
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ")
        text = command.decode(errors="replace").strip()
        shown = "".join(char for char in text if char.isprintable())[:SHOWN_COMMAND]
        return f"process {self.pid} of user {user}" + (f" ({shown})" if shown else "")


class HostTaken(Exception):
    def __init__(self, holder: Holder, waited_s: float) -> None:
        super().__init__(f"held by {holder}, waited for {waited_s:g} s")
        self.holder = holder


class NoLock(Exception):
    def __init__(self, error: OSError) -> None:
        super().__init__(f"the kernel refuses the lock of this host ({error.strerror or error})")


class HostLock:
    """A lock of this host, held from acquire() to release() or to the end of the process."""

    def __init__(self, name: str | None = None) -> None:
        chosen = name or os.environ.get(LOCK_VARIABLE) or NAME
        self._name = b"\0" + os.fsencode(chosen)[:LONGEST_NAME]
        self._held: socket.socket | None = None

    def acquire(
        self,
        say: Callable[[Holder], None],
        agents: Agents | None = None,
        limit: Callable[[Holder], float] = lambda holder: LONGEST_S,
    ) -> None:
        """Wait until no other process on this host holds the lock, and take it.

        Args:
            say: receives each new holder for which we wait.
            agents: agents whose messages are read meanwhile; what that raises is raised here.
            limit: returns the limit of the whole wait for a holder, in seconds.

        Raise HostTaken where a process holds the lock when its limit has passed, NoLock where the
        kernel or a sandbox refuses the lock.
        """
        agents = agents or alone()
        holder: Holder | None = None
        asked_s = time.monotonic()
        # Only Linux has an abstract namespace; elsewhere there is no lock.
        while sys.platform == "linux" and not self._take():
            with socket.socket(socket.AF_UNIX) as waiting:
                found, refused = self._ask(waiting)
                if found is None:
                    continue  # The holder ended meanwhile.
                if found != holder:
                    holder = found
                    say(holder)
                left_s = asked_s + limit(holder) - time.monotonic()
                if left_s <= 0:
                    raise HostTaken(holder, limit(holder))
                sources = agents.connections if refused else [waiting, *agents.connections]
                ready = wait_for(sources, min(left_s, RETRY_S) if refused else left_s)
                if not (ready or refused):
                    raise HostTaken(holder, limit(holder))
                # Nothing is sent to `waiting`: it becomes ready when the holder's socket closes.
                agents.hear(ready)

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _take(self) -> bool:
        with contextlib.ExitStack() as unless_held:
            try:
                mine = unless_held.enter_context(socket.socket(socket.AF_UNIX))
                mine.bind(self._name)
                mine.listen(512)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise NoLock(error) from None
                return False
            unless_held.pop_all()
        self._held = mine
        return True

    def _ask(self, waiting: socket.socket) -> tuple[Holder | None, bool]:
        """Connect to the holder of the name, ask the kernel for it, and tell whether it refuses.

        A holder refuses the connection if it does not listen, or if so many processes wait that
        its queue is full; a blocking connect would then wait without a limit.
        """
        waiting.setblocking(False)
        try:
            waiting.connect(self._name)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Holder(), True
            return (Holder(), True) if self._is_bound() else (None, False)
        size = struct.calcsize("3i")
        try:
            credentials = waiting.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        except OSError:  # a kernel that does not tell
            return Holder(), False
        pid, uid, _ = struct.unpack("3i", credentials)
        return Holder(pid, uid), False

    def _is_bound(self) -> bool:
        entry = b" @" + self._name[1:]
        with contextlib.suppress(OSError):
            lines = Path("/proc/net/unix").read_bytes().splitlines()
            return any(line.endswith(entry) for line in lines)
        return True


GET_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR: asks for the IPv4 address of an interface."""
IPV6_ADDRESSES = Path("/proc/net/if_inet6")


def name_leads_out() -> bool:
    """Return whether other hosts can reach the address that this host's name stands for.

    gloo listens at the first address of the name that is one of this host's. In many images that
    is 127.0.1.1, and if there is none, gloo takes loopback, too.
    """
    with suppress(OSError):
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        for family, kind, _, _, address in found:
            with suppress(OSError), socket.socket(family, kind) as probe:
                probe.bind(address)
                return not parse(str(address[0])).is_loopback
    return False


def outer_interface(connections: Sequence[Connection]) -> str:
    """Return the interface of the first of some sockets that leaves this host; "" if none does."""
    for connection in connections:
        with socket.socket(fileno=os.dup(connection.fileno())) as stream:
            address = parse(stream.getsockname()[0])
        if not address.is_loopback and (name := interface_with(address)):
            return name
    return ""


def parse(text: str) -> IPv4Address | IPv6Address:
    """Parse an IP address; one of IPv4 that IPv6 has wrapped is unwrapped."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def interface_with(address: IPv4Address | IPv6Address) -> str:
    """Return the name of the interface that has an address; "" if none is found (Linux only)."""
    if address.version == 6:
        lines = IPV6_ADDRESSES.read_text().split("\n") if IPV6_ADDRESSES.exists() else []
        rows = [line.split() for line in lines if line]
        return next((row[-1] for row in rows if bytes.fromhex(row[0]) == address.packed), "")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no IPv4 address
                answer = fcntl.ioctl(asked, GET_ADDRESS, struct.pack("256s", name.encode()))
                if answer[20:24] == address.packed:
                    return name
    return ""

"""A lock per host: one point at a time measures there."""

import contextlib
import errno
import os
import pwd
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launch.agents.group import Agents, single_agent
from launch.signals import wait_readable

NAME = "benchkit-measures"
LOCK_VARIABLE = "BENCHKIT_HOST_LOCK"
"""Environment variable: another name of the lock, for tests only.

Runs under different names disturb each other.
"""

LONGEST_NAME = 107
"""Bytes of a name in the abstract namespace (unix(7))."""
LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of a lack of resources, as opposed to a refused lock."""
LONGEST_S = 7 * 24 * 3600.0
RETRY_S = 0.5
"""Polling interval for a holder that refuses connections, whose exit wakes nobody."""
SHOWN_COMMAND = 100


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock; both are None if it refuses connections."""

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
        printable = "".join(char for char in text if char.isprintable())[:SHOWN_COMMAND]
        return f"process {self.pid} of user {user}" + (f" ({printable})" if printable else "")


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
        lock_name = name or os.environ.get(LOCK_VARIABLE) or NAME
        self._name = b"\0" + os.fsencode(lock_name)[:LONGEST_NAME]
        self._listener: socket.socket | None = None

    def acquire(
        self,
        on_wait: Callable[[Holder], None],
        agents: Agents | None = None,
        limit: Callable[[Holder], float] = lambda holder: LONGEST_S,
    ) -> None:
        """Acquire the lock once no other process on this host holds it.

        Args:
            on_wait: called with each new holder during the wait.
            agents: agents whose messages are read during the wait; exceptions of hear() pass.
            limit: returns the time limit of the whole wait for a holder, in seconds.

        Raise HostTaken if a process still holds the lock after its limit, NoLock if the kernel or a
        sandbox refuses the lock.
        """
        agents = agents or single_agent()
        holder: Holder | None = None
        began_s = time.monotonic()
        # Only Linux has an abstract namespace; elsewhere there is no lock.
        while sys.platform == "linux" and not self._take():
            with socket.socket(socket.AF_UNIX) as stream:
                current, refused = self._query_holder(stream)
                if current is None:
                    continue  # The holder has exited.
                if current != holder:
                    holder = current
                    on_wait(holder)
                left_s = began_s + limit(holder) - time.monotonic()
                if left_s <= 0:
                    raise HostTaken(holder, limit(holder))
                sources = agents.connections if refused else [stream, *agents.connections]
                ready = wait_readable(sources, min(left_s, RETRY_S) if refused else left_s)
                if not (ready or refused):
                    raise HostTaken(holder, limit(holder))
                # Nothing is sent to `stream`: it becomes ready when the holder's socket closes.
                agents.hear(ready)

    def release(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _take(self) -> bool:
        with contextlib.ExitStack() as exit_stack:
            try:
                listener = exit_stack.enter_context(socket.socket(socket.AF_UNIX))
                listener.bind(self._name)
                listener.listen(512)
            except OSError as error:
                if error.errno in LACKING:
                    raise
                if error.errno != errno.EADDRINUSE:
                    raise NoLock(error) from None
                return False
            exit_stack.pop_all()
        self._listener = listener
        return True

    def _query_holder(self, stream: socket.socket) -> tuple[Holder | None, bool]:
        """Connect to the holder; return its credentials from the kernel, and whether it refused.

        A holder refuses the connection if it does not listen, or if its backlog is full; a blocking
        connect would then wait without a limit.
        """
        stream.setblocking(False)
        try:
            stream.connect(self._name)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Holder(), True
            return (Holder(), True) if self._is_bound() else (None, False)
        size = struct.calcsize("3i")
        try:
            credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        except OSError:  # a kernel without credentials
            return Holder(), False
        pid, uid, _ = struct.unpack("3i", credentials)
        return Holder(pid, uid), False

    def _is_bound(self) -> bool:
        entry = b" @" + self._name[1:]
        with contextlib.suppress(OSError):
            lines = Path("/proc/net/unix").read_bytes().splitlines()
            return any(line.endswith(entry) for line in lines)
        return True

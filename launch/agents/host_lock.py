"""A lock lets one point run at a time on a host: what runs beside it would be measured with it.

The lock is a name in the kernel's abstract socket namespace. The processes of every user see it,
also if a cluster gives them a private /tmp, and it disappears with the process that holds it.
Processes that wait for it sleep until then. Any user can take the name and keep it, so the wait
has a limit and the message names the holder.
"""

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

from launch.agents.group import Agents, alone
from launch.signals import wait_for

NAME = "benchkit-measures"
LOCK_VARIABLE = "BENCHKIT_HOST_LOCK"
"""Environment variable with another name for the lock, for tests and never for measurements.

Runs under different names disturb each other.
"""

LONGEST_NAME = 107
"""Bytes of a name in the abstract namespace (unix(7))."""
LONGEST_S = 7 * 24 * 3600.0
RETRY_S = 0.5
"""Seconds between two checks of a holder that refuses connections, whose end does not wake us."""
SHOWN_COMMAND = 100
"""Characters of a holder's command line that are shown."""


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock.

    Attributes:
        pid: its process number; None if it refuses connections.
        uid: its user's number; None if it refuses connections.
    """

    pid: int | None = None
    uid: int | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it runs as our user."""
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
    """Another process holds the lock, and the limit of our wait has passed."""

    def __init__(self, holder: Holder, waited_s: float) -> None:
        super().__init__(f"held by {holder}, waited for {waited_s:g} s")
        self.holder = holder


class HostLock:
    """A lock of this host, held from acquire() to release() or to the end of the process."""

    def __init__(self, name: str | None = None) -> None:
        """Chooses the name that all processes on a host agree on.

        Args:
            name: by default that of BENCHKIT_HOST_LOCK, or NAME.
        """
        chosen = name or os.environ.get(LOCK_VARIABLE) or NAME
        self._name = b"\0" + os.fsencode(chosen)[:LONGEST_NAME]
        self._held: socket.socket | None = None

    def acquire(
        self,
        say: Callable[[Holder], None],
        agents: Agents | None = None,
        limit: Callable[[Holder], float] = lambda holder: LONGEST_S,
    ) -> None:
        """Waits until no other process on this host holds the lock, and takes it.

        Args:
            say: receives each new holder for which we wait.
            agents: agents whose messages are read meanwhile; what that raises is raised here.
            limit: returns the limit of the whole wait for a holder, in seconds.

        Raises:
            HostTaken: a process holds the lock when its limit has passed.
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
        """Takes the name; returns False if another process has it."""
        mine = socket.socket(socket.AF_UNIX)
        try:
            mine.bind(self._name)
            mine.listen(512)
        except OSError as error:
            mine.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        self._held = mine
        return True

    def _ask(self, waiting: socket.socket) -> tuple[Holder | None, bool]:
        """Connects to the holder of the name and asks the kernel which process that is.

        A holder refuses the connection if it does not listen, or if so many processes wait that
        its queue is full; a blocking connect would then wait without a limit.

        Returns:
            The holder, None if there is none any more; and whether it refuses the connection.
        """
        waiting.setblocking(False)
        try:
            waiting.connect(self._name)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Holder(), True
            return (Holder(), True) if self._is_bound() else (None, False)
        size = struct.calcsize("3i")
        credentials = waiting.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid, uid, _ = struct.unpack("3i", credentials)
        return Holder(pid, uid), False

    def _is_bound(self) -> bool:
        """Whether any process has bound the name, by the kernel's list."""
        entry = b" @" + self._name[1:]
        with contextlib.suppress(OSError):
            lines = Path("/proc/net/unix").read_bytes().splitlines()
            return any(line.endswith(entry) for line in lines)
        return True

"""One point at a time on a host: what runs beside a measurement is measured with it.

The lock is a name in the kernel's abstract socket namespace: every user's processes see it, whatever private /tmp a
cluster gives them, it is gone with the process that holds it, and whoever waits sleeps until then. Any user can take
the name, and keep it: hence a limit to the wait, and the holder's name for whoever waits.
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
"""Environment variable with another name for the lock: for tests, never for measuring. Runs under different names
disturb each other."""

LONGEST_NAME = 107
"""Bytes of a name in the abstract namespace (unix(7))."""
LONGEST_S = 7 * 24 * 3600.0
RETRY_S = 0.5
"""Seconds between two looks at a holder that lets nobody connect, so that its end is not felt."""
SHOWN_COMMAND = 100
"""Characters of a holder's command line that are shown."""


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock; `pid` and `uid` are None where it lets nobody connect."""

    pid: int | None = None
    uid: int | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it runs as our user."""
        return self.uid == os.getuid()

    def __str__(self) -> str:
        if self.pid is None or self.uid is None:
            return "a process that does not say which it is"
        user, command = str(self.uid), ""
        with contextlib.suppress(KeyError):
            user = pwd.getpwuid(self.uid).pw_name
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        shown = "".join(c for c in command.strip() if c.isprintable())[:SHOWN_COMMAND]
        return f"process {self.pid} of user {user}" + (f" ({shown})" if shown else "")


class HostTaken(Exception):
    """Another process holds the lock, and we have waited for as long as we may."""

    def __init__(self, holder: Holder, waited_s: float) -> None:
        super().__init__(f"held by {holder}, waited for {waited_s:g} s")
        self.holder = holder


class HostLock:
    """Held from acquire() to release(), or to the end of the process."""

    def __init__(self, name: str | None = None) -> None:
        """Takes the name that all who share a host agree on; by default that of BENCHKIT_HOST_LOCK, or NAME."""
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
            say: is given each new holder that we wait for.
            agents: are heard meanwhile; what that raises is raised here.
            limit: how long we wait in all, in seconds, while this process holds the lock.

        Raises:
            HostTaken: a process holds the lock when its limit has passed.
        """
        agents, holder, asked_s = agents or alone(), None, time.monotonic()
        while sys.platform == "linux" and not self._take():  # elsewhere there is no abstract namespace, and no lock
            with socket.socket(socket.AF_UNIX) as waiting:
                found, refused = self._ask(waiting)
                if found is None:
                    continue  # it ended meanwhile
                if found != holder:
                    holder = found
                    say(holder)
                left_s = asked_s + limit(holder) - time.monotonic()
                if left_s <= 0:
                    raise HostTaken(holder, limit(holder))
                things = agents.connections if refused else [waiting, *agents.connections]
                ready = wait_for(things, min(left_s, RETRY_S) if refused else left_s)
                if not (ready or refused):
                    raise HostTaken(holder, limit(holder))
                agents.hear(ready)  # nobody writes to `waiting`: it is ready at the end of the holder's socket

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _take(self) -> bool:
        """Takes the name; False where somebody has it."""
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
        """Who holds the name, None where nobody does any more; and whether that process refuses the connection.

        It does where it does not listen, or so many wait that its queue is full; a blocking connect would then wait
        without a limit.
        """
        waiting.setblocking(False)
        try:
            waiting.connect(self._name)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Holder(), True
            return (Holder(), True) if self._is_bound() else (None, False)
        credentials = waiting.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", credentials)
        return Holder(pid, uid), False

    def _is_bound(self) -> bool:
        """Whether any process has bound the name, by the kernel's list."""
        name = b"@" + self._name[1:]
        with contextlib.suppress(OSError):
            return any(line.endswith(b" " + name) for line in Path("/proc/net/unix").read_bytes().splitlines())
        return True

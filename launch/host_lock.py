"""One point at a time on a host: what runs beside a measurement is measured with it.

The lock is a name in the kernel's abstract socket namespace: every user's processes see it, whatever private /tmp a
cluster gives them, it is gone with the process that holds it, and whoever waits sleeps until then.
"""

import errno
import os
import socket
import struct
import sys
from collections.abc import Callable

from launch.agents import Agents, alone
from launch.stops import wait_for

NAME = "benchkit-measures"
LOCK_VARIABLE = "BENCHKIT_HOST_LOCK"
"""Environment variable with another name for the lock: for tests, never for measuring. Runs under different names
disturb each other."""

LONGEST_NAME = 107
"""Bytes of a name in the abstract namespace (unix(7))."""


class HostLock:
    """Held from acquire() to release(), or to the end of the process."""

    def __init__(self, name: str | None = None) -> None:
        """Takes the name that all who share a host agree on; by default that of BENCHKIT_HOST_LOCK, or NAME."""
        chosen = name or os.environ.get(LOCK_VARIABLE) or NAME
        self._name = b"\0" + os.fsencode(chosen)[:LONGEST_NAME]
        self._held: socket.socket | None = None

    def acquire(self, say: Callable[[int], None], agents: Agents | None = None) -> None:
        """Waits until nobody on this host holds it; `say` is given the number of the process that does, once.

        Hears the other agents meanwhile. Raises what that raises.
        """
        said, agents = False, agents or alone()
        while sys.platform == "linux":  # elsewhere there are no abstract sockets, and no lock
            mine = socket.socket(socket.AF_UNIX)
            try:
                mine.bind(self._name)
                mine.listen(512)
                self._held = mine
                return
            except OSError as error:
                mine.close()
                if error.errno != errno.EADDRINUSE:
                    raise
            with socket.socket(socket.AF_UNIX) as waiting:
                try:
                    waiting.connect(self._name)
                    if not said:
                        say(holder(waiting))
                        said = True
                    while waiting not in (ready := wait_for([waiting, *agents.connections])):
                        agents.hear(ready)  # nobody writes to `waiting`: it is ready at the end of the holder's socket
                except OSError:
                    continue  # it went meanwhile

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def holder(connected: socket.socket) -> int:
    """The process at the other end of a Unix socket."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])

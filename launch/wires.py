"""One connection between two agents: whole JSON messages, and the kernel's word when the other end is gone.

Nobody polls: a message, the death of the other process and the loss of its host all make the connection readable.
"""

import json
import socket
import struct
from multiprocessing.connection import Connection
from typing import Any

from launch.stops import wait_for

MESSAGE_BYTES = 1 << 26
"""More than any outcome with its tracebacks."""
GREETING_BYTES = 1 << 16
"""A stranger's message may not fill the memory."""
HALF_S = 5
"""Seconds that a message which has begun may take to be whole."""
KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""A host that vanishes without a word is noticed after 10 s (seconds, seconds, probes, milliseconds)."""


class Gone(Exception):
    """The other end is gone. `silently`: its host does not answer; otherwise the process ended."""

    def __init__(self, silently: bool) -> None:
        super().__init__("does not answer" if silently else "ended")
        self.silently = silently


class Wire:
    """One end of a connection."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(None)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", HALF_S, 0))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.connection = Connection(stream.detach())

    def send(self, kind: str, value: Any = None) -> None:
        """Sends one message; to an end that is gone, nothing: receive() will tell."""
        try:
            self.connection.send_bytes(json.dumps([kind, value]).encode())
        except OSError:
            return

    def receive(self, timeout_s: float | None = None, limit: int = MESSAGE_BYTES) -> tuple[str, Any]:
        """The next message's kind and value. Raises Gone, silently where none of ours came in time."""
        try:
            if not wait_for([self.connection], timeout_s):
                raise Gone(silently=True)
            kind, value = json.loads(self.connection.recv_bytes(limit))
            return str(kind), value
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise Gone(silently=False) from None
        except (OSError, ValueError, TypeError):  # timed out, unreachable; or no message of ours
            raise Gone(silently=True) from None

    def close(self) -> None:
        self.connection.close()

"""One connection between two agents: whole JSON messages, and the kernel's word when the other end is gone.

Nobody polls: a message, the death of the other process and the loss of its host all make the connection readable.
"""

import json
import os
import select
import socket
import time
from multiprocessing.connection import Connection
from typing import Any

from launch.framing import Pieces, framed
from launch.signals import wait_for

MESSAGE_BYTES = 1 << 26
"""More than any outcome with its tracebacks."""
WHOLE_S = 10.0
"""Seconds that a message which has begun may take to be received, or to be sent."""
KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""A host that vanishes without a word is noticed after 10 s (seconds, seconds, probes, milliseconds)."""


class PeerLost(Exception):
    """The other end is gone. `silently`: its host does not answer; otherwise the process ended."""

    def __init__(self, silently: bool) -> None:
        super().__init__("does not answer" if silently else "ended")
        self.silently = silently


class Channel:
    """One end of a connection."""

    def __init__(self, stream: socket.socket) -> None:
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.connection = Connection(stream.detach())  # closes itself where it is given up
        self._incoming = Pieces(self.connection)
        self._unsent = bytearray()  # kept where a signal ends send(): the next message follows it
        self._given_up = False

    def send(self, kind: str, value: Any = None) -> None:
        """Sends one message; to an end that is gone, nothing: receive() will tell.

        An end that does not read for WHOLE_S counts as gone. Raises ValueError where the message
        is longer than MESSAGE_BYTES, which the other end would refuse.
        """
        text = json.dumps([kind, value]).encode()
        if len(text) > MESSAGE_BYTES:
            size = f"{len(text)} bytes for another agent"
            raise ValueError(f"{kind}: {size}; allowed are {MESSAGE_BYTES}")
        self._unsent += framed(text)
        deadline = time.monotonic() + WHOLE_S
        try:
            while self._unsent:
                try:
                    sent = os.write(self.connection.fileno(), self._unsent)
                    del self._unsent[:sent]
                except BlockingIOError:
                    if not is_writable(self.connection, deadline - time.monotonic()):
                        self._give_up()
        except OSError:
            self._unsent.clear()

    def take(self, limit: int = MESSAGE_BYTES) -> tuple[str, Any] | None:
        """The next message's kind and value if it is here; None where more of it must come.

        Raises Gone, silently where what came is no message of ours.
        """
        try:
            message = self._incoming.take(limit)
            if message is None:
                return None
            kind, value = json.loads(message)
            return str(kind), value
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise PeerLost(silently=self._given_up) from None
        except (OSError, ValueError, TypeError, RecursionError):  # unreachable; or no JSON pair
            raise PeerLost(silently=True) from None

    def receive(self, timeout_s: float) -> tuple[str, Any]:
        """The next message's kind and value.

        It begins within `timeout_s` seconds and is then whole within WHOLE_S. Raises Gone,
        silently where none of ours came in time.
        """
        deadline, begun = time.monotonic() + timeout_s, False
        while (message := self.take()) is None:
            if self._incoming.begun and not begun:
                begun, deadline = True, time.monotonic() + WHOLE_S
            if not wait_for([self.connection], max(0.0, deadline - time.monotonic())):
                raise PeerLost(silently=True)
        return message

    def close(self) -> None:
        self.connection.close()

    def _give_up(self) -> None:
        """Makes the connection readable, and what is read the end."""
        self._given_up = True
        self._unsent.clear()
        with socket.socket(fileno=os.dup(self.connection.fileno())) as stream:
            stream.shutdown(socket.SHUT_RDWR)


def is_writable(stream: Connection, timeout_s: float) -> bool:
    """Waits until a socket takes more bytes, or its other end is gone; False if neither in time."""
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLOUT)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))

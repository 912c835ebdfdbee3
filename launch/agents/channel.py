"""A channel between two agents: JSON messages until a peer is lost."""

import contextlib
import json
import os
import socket
import time
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from launch.framing import MessageReader, add_length, is_writable
from launch.signals import wait_readable

MESSAGE_BYTES = 1 << 26
"""Above any outcome with its tracebacks."""
WHOLE_S = 10.0
"""Time limit to send a message, or to receive one that has begun."""
KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Options that report a silent host after 10 s; units: seconds, seconds, probes, milliseconds."""


class PeerLost(Exception):
    """The peer has ended; `silently`: its host no longer answers."""

    def __init__(self, silently: bool) -> None:
        super().__init__("does not answer" if silently else "ended")
        self.silently = silently


class Channel:
    def __init__(self, stream: socket.socket) -> None:
        stream.setblocking(False)
        if stream.family != socket.AF_UNIX:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                with contextlib.suppress(AttributeError, OSError):  # a kernel that lacks this one
                    stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.connection = Connection(stream.detach())  # closes itself when it is discarded
        self._incoming = MessageReader(self.connection)
        # If a signal interrupts send(), the rest stays here and the next message follows it.
        self._unsent = bytearray()
        self._given_up = False

    def send(self, kind: str, value: object = None) -> None:
        """Send one message; a lost peer is reported by the next receive().

        A peer that does not read for WHOLE_S counts as lost. Raise ValueError for a message longer
        than MESSAGE_BYTES, which the peer would refuse.
        """
        text = json.dumps([kind, msgspec.to_builtins(value)]).encode()
        if len(text) > MESSAGE_BYTES:
            size = f"{len(text)} bytes for another agent"
            raise ValueError(f"{kind}: {size}; allowed are {MESSAGE_BYTES}")
        self._unsent += add_length(text)
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
        """Return the kind and value of the next message, or None while it is incomplete.

        Raise PeerLost, also (silently) where the peer does not follow this protocol.
        """
        try:
            message = self._incoming.read_message(limit)
            if message is None:
                return None
            kind, value = json.loads(message)
            return str(kind), value
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise PeerLost(silently=self._given_up) from None
        except (OSError, ValueError, TypeError, RecursionError):  # unreachable, or no JSON pair
            raise PeerLost(silently=True) from None

    def receive(self, timeout_s: float) -> tuple[str, Any]:
        """Wait for the next message: `timeout_s` for its first byte, WHOLE_S for the rest.

        Raise PeerLost, also (silently) on a timeout or where the peer does not follow the protocol.
        """
        deadline = time.monotonic() + timeout_s
        has_begun = False
        while (message := self.take()) is None:
            if self._incoming.is_partial and not has_begun:
                has_begun = True
                deadline = time.monotonic() + WHOLE_S
            if not wait_readable([self.connection], max(0.0, deadline - time.monotonic())):
                raise PeerLost(silently=True)
        return message

    def close(self) -> None:
        self.connection.close()

    def _give_up(self) -> None:
        """Shut the connection down: it becomes readable, and the next read returns end of file."""
        self._given_up = True
        self._unsent.clear()
        with socket.socket(fileno=os.dup(self.connection.fileno())) as stream:
            stream.shutdown(socket.SHUT_RDWR)

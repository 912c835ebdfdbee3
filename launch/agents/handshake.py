"""How the two ends of a new connection prove to each other that they know one secret.

Nothing that a stranger sends is parsed, and the secret itself does not travel:

    agent 0 → caller   a nonce (32 bytes)
    caller → agent 0   its proof (32 bytes) and a nonce of its own (32 bytes)
    agent 0 → caller   its proof (32 bytes)

A proof is HMAC-SHA256 by the secret over the role of its sender and both nonces: neither side can
use the other's proof, or one of an earlier connection, as its own.
"""

import hmac
import secrets
import socket
import time
from collections.abc import Generator
from typing import Any

from launch.agents.channel import Channel, PeerLost
from launch.signals import wait_for

NONCE_BYTES = PROOF_BYTES = 32
HELLO_S = 5.0
"""How long either side of a new connection may take to prove itself and to say who it is."""
HELLO_BYTES = 1 << 22
"""More than any command line, which is part of a hello."""
MOST_CALLERS = 256
"""Connections that have not said who they are; beyond that the oldest is dropped."""
ACCEPTED_AT_ONCE = 32
"""So that a caller has several turns to answer before a flood of others drops it."""
AGENT_0, CALLER = b"benchkit agent 0", b"benchkit caller"


class Stranger(Exception):
    """The other end of a connection is none of ours."""


def proof(secret: str, role: bytes, nonce_0: bytes, nonce: bytes) -> bytes:
    """What only somebody who knows the secret can send in this role on this connection."""
    return hmac.digest(secret.encode(errors="surrogatepass"), role + nonce_0 + nonce, "sha256")


class Caller:
    """A connection to agent 0 whose other end has not said yet who it is."""

    def __init__(self, stream: socket.socket, secret: str) -> None:
        stream.setblocking(False)
        self.deadline = time.monotonic() + HELLO_S
        self._stream, self._secret = stream, secret
        self._nonce, self._answer = secrets.token_bytes(NONCE_BYTES), bytearray()
        self._wire: Channel | None = None  # as soon as it has proved itself
        stream.send(self._nonce)

    def fileno(self) -> int:
        return (self._wire.connection if self._wire else self._stream).fileno()

    def hear(self) -> tuple[Channel, Any] | None:
        """The wire and the hello of a caller that has said all; None where more must come.

        Raises Stranger.
        """
        try:
            if self._wire is None and not self._prove():
                return None
            assert self._wire
            said = self._wire.take(HELLO_BYTES)
        except BlockingIOError:
            return None
        except (OSError, PeerLost) as error:
            raise Stranger from error
        return said and (self._wire, said[1])

    def _prove(self) -> bool:
        missing = PROOF_BYTES + NONCE_BYTES - len(self._answer)
        piece = self._stream.recv(missing)
        if not piece:
            raise Stranger
        self._answer += piece
        if len(piece) < missing:
            return False
        nonce = bytes(self._answer[PROOF_BYTES:])
        expected = proof(self._secret, CALLER, self._nonce, nonce)
        if not hmac.compare_digest(expected, bytes(self._answer[:PROOF_BYTES])):
            raise Stranger
        self._stream.send(proof(self._secret, AGENT_0, self._nonce, nonce))
        self._wire = Channel(self._stream)
        return True

    def close(self) -> None:
        (self._wire or self._stream).close()


def callers(listener: socket.socket, secret: str, deadline: float) -> Generator[tuple[Channel, Any], None, None]:
    """For agent 0: each connection that proves that it knows the secret, with its hello.

    It ends at the deadline. All connections are served at once: a stranger that is silent or slow
    delays nobody.
    """
    listener.setblocking(False)
    waiting: list[Caller] = []
    try:
        while (now := time.monotonic()) < deadline:
            soonest = min([deadline, *(caller.deadline for caller in waiting)])
            ready = wait_for([listener, *waiting], max(0.0, soonest - now))
            for caller in [caller for caller in waiting if caller in ready]:
                try:
                    came = caller.hear()
                except Stranger:
                    drop(waiting, caller)
                    continue
                if came:
                    waiting.remove(caller)
                    yield came
            for caller in [each for each in waiting if each.deadline <= time.monotonic()]:
                drop(waiting, caller)
            if listener in ready:
                accept(listener, secret, waiting)
    finally:
        for caller in waiting:
            caller.close()


def drop(waiting: list[Caller], caller: Caller) -> None:
    waiting.remove(caller)
    caller.close()


def accept(listener: socket.socket, secret: str, waiting: list[Caller]) -> None:
    """Adds those who have just connected to `waiting`."""
    for _ in range(ACCEPTED_AT_ONCE):
        try:
            stream, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # it went meanwhile; or there are no more file descriptors
            if waiting:
                drop(waiting, waiting[0])
            return
        try:
            waiting.append(Caller(stream, secret))
        except OSError:
            stream.close()
        if len(waiting) > MOST_CALLERS:
            drop(waiting, waiting[0])


def call(stream: socket.socket, secret: str) -> Channel:
    """A caller's part: a wire to agent 0. Raises Stranger where somebody else is there."""
    deadline = time.monotonic() + HELLO_S
    try:
        nonce_0 = read_exactly(stream, NONCE_BYTES, deadline)
        nonce = secrets.token_bytes(NONCE_BYTES)
        stream.sendall(proof(secret, CALLER, nonce_0, nonce) + nonce)
        answer = read_exactly(stream, PROOF_BYTES, deadline)
    except OSError as error:
        raise Stranger from error
    if not hmac.compare_digest(proof(secret, AGENT_0, nonce_0, nonce), answer):
        raise Stranger
    return Channel(stream)


def read_exactly(stream: socket.socket, count: int, deadline: float) -> bytes:
    """So many bytes; raises OSError where they have not all come by the deadline."""
    held = b""
    while len(held) < count:
        stream.settimeout(max(0.001, deadline - time.monotonic()))
        piece = stream.recv(count - len(held))
        if not piece or time.monotonic() > deadline:
            raise ConnectionError("no answer in time")
        held += piece
    return held

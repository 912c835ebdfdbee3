"""The handshake by which both ends of a new connection prove that they know one secret.

Nothing that a stranger sends is parsed, and the secret itself does not travel:

    agent 0 → caller   a nonce (32 bytes)
    caller → agent 0   its proof (32 bytes) and a nonce of its own (32 bytes)
    agent 0 → caller   its proof (32 bytes)

A proof is HMAC-SHA256 by the secret over the role of its sender and both nonces. So neither side
can use the other's proof, or one of an earlier connection, as its own.
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
"""Seconds that either side of a new connection may take for its proof and its hello."""
HELLO_BYTES = 1 << 22
"""Upper limit for a hello, which contains the command line."""
MOST_CALLERS = 256
"""Limit of callers without a hello; beyond it the oldest is dropped."""
ACCEPTED_AT_ONCE = 32
"""Limit of callers per turn, so that a caller has several turns before a flood drops it."""
AGENT_0, CALLER = b"benchkit agent 0", b"benchkit caller"


class Stranger(Exception):
    """The other end of a connection is not an agent of this run."""


def proof(secret: str, role: bytes, nonce_0: bytes, nonce: bytes) -> bytes:
    """Returns the proof that only a holder of the secret can send in this role and connection.

    Args:
        secret: what all agents of the run know.
        role: AGENT_0 or CALLER, the role of the sender.
        nonce_0: the nonce of agent 0.
        nonce: the nonce of the caller.
    """
    return hmac.digest(secret.encode(errors="surrogatepass"), role + nonce_0 + nonce, "sha256")


class Caller:
    """A connection to agent 0 whose other end has not sent its hello yet."""

    def __init__(self, stream: socket.socket, secret: str) -> None:
        stream.setblocking(False)
        self.deadline = time.monotonic() + HELLO_S
        self._stream = stream
        self._secret = secret
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._answer = bytearray()
        self._channel: Channel | None = None  # set when the caller has proved itself
        stream.send(self._nonce)

    def fileno(self) -> int:
        return (self._channel.connection if self._channel else self._stream).fileno()

    def hear(self) -> tuple[Channel, Any] | None:
        """Returns the channel to the caller and its hello, or None while more must come.

        Raises:
            Stranger: the caller is not an agent of this run, or is lost.
        """
        try:
            if self._channel is None and not self._prove():
                return None
            assert self._channel
            message = self._channel.take(HELLO_BYTES)
        except BlockingIOError:
            return None
        except (OSError, PeerLost) as error:
            raise Stranger from error
        if message is None:
            return None
        _, hello = message
        return self._channel, hello

    def _prove(self) -> bool:
        """Checks the caller's proof and sends agent 0's; returns False while more must come."""
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
        self._channel = Channel(self._stream)
        return True

    def close(self) -> None:
        (self._channel or self._stream).close()


def callers(
    listener: socket.socket, secret: str, deadline: float
) -> Generator[tuple[Channel, Any], None, None]:
    """Yields the channel and the hello of each caller that knows the secret, until the deadline.

    Agent 0 serves all connections at once, so a stranger that is silent or slow delays no agent.
    """
    listener.setblocking(False)
    waiting: list[Caller] = []
    try:
        while (now := time.monotonic()) < deadline:
            soonest = min([deadline, *(caller.deadline for caller in waiting)])
            ready = wait_for([listener, *waiting], max(0.0, soonest - now))
            for caller in [caller for caller in waiting if caller in ready]:
                try:
                    greeting = caller.hear()
                except Stranger:
                    drop(waiting, caller)
                    continue
                if greeting:
                    waiting.remove(caller)
                    yield greeting
            for caller in [caller for caller in waiting if caller.deadline <= time.monotonic()]:
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
    """Adds the callers that have just connected to `waiting`."""
    for _ in range(ACCEPTED_AT_ONCE):
        try:
            stream, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # The caller has left, or there are no more file descriptors.
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
    """Performs the caller's side of the handshake and returns its channel to agent 0.

    Raises:
        Stranger: the other end does not prove in time that it is agent 0.
    """
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
    """Reads `count` bytes.

    Raises:
        OSError: the bytes have not all come by the deadline.
    """
    held = b""
    while len(held) < count:
        stream.settimeout(max(0.001, deadline - time.monotonic()))
        piece = stream.recv(count - len(held))
        if not piece or time.monotonic() > deadline:
            raise ConnectionError("no answer in time")
        held += piece
    return held

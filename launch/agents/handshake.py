"""Mutual authentication of agents: each end proves by HMAC that it knows the secret."""

import hmac
import logging
import secrets
import socket
import time
from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from launch.agents.channel import Channel, PeerLost
from launch.agents.messages import Hello
from launch.signals import wait_readable

NONCE_BYTES = PROOF_BYTES = 32
HELLO_S = 5.0
"""Time limit of either end of a new connection for its proof and its hello."""
HELLO_BYTES = 1 << 22
"""A hello contains the command line."""
MOST_CALLERS = 256
"""Limit of callers without a hello; beyond it the oldest is dropped."""
ACCEPTED_AT_ONCE = 32
"""Connections accepted per poll, so that a caller is polled several times before a flood drops
it."""
AGENT_0, CALLER = b"benchkit agent 0", b"benchkit caller"
log = logging.getLogger(__name__)


class Stranger(Exception): ...


def proof(secret: str, role: bytes, nonce_0: bytes, nonce: bytes) -> bytes:
    """Return the HMAC of role and nonces, which proves that its sender knows the secret."""
    return hmac.digest(secret.encode(errors="surrogatepass"), role + nonce_0 + nonce, "sha256")


class Caller:
    """A connection to agent 0 whose peer has not sent its hello yet."""

    def __init__(self, stream: socket.socket, secret: str) -> None:
        stream.setblocking(False)
        self.deadline = time.monotonic() + HELLO_S
        self._stream = stream
        self._secret = secret
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._answer = bytearray()
        self._channel: Channel | None = None  # set once the caller is authenticated
        stream.send(self._nonce)

    def fileno(self) -> int:
        return (self._channel.connection if self._channel else self._stream).fileno()

    def receive_hello(self) -> tuple[Channel, Hello] | None:
        """Return the channel to the caller and its hello, or None while they are incomplete."""
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
        try:
            return self._channel, msgspec.convert(message[1], Hello)
        except msgspec.ValidationError as error:
            log.debug("a stranger that knows the secret: %s", error)
            raise Stranger from error

    def _prove(self) -> bool:
        """Check the caller's proof and send agent 0's; return False while it is incomplete."""
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
    listeners: Sequence[socket.socket], secret: str, deadline: float
) -> Generator[tuple[Channel, Hello], None, None]:
    """Yield the channel and the hello of each authenticated caller, until the deadline.

    Agent 0 polls all connections together, so a silent or slow stranger delays no agent. Each
    listener has its own queue: a flood at one drops no caller of another.
    """
    queues: dict[socket.socket, list[Caller]] = {listener: [] for listener in listeners}
    for listener in listeners:
        listener.setblocking(False)
    try:
        while (now := time.monotonic()) < deadline:
            waiting = [caller for queue in queues.values() for caller in queue]
            soonest = min([deadline, *(caller.deadline for caller in waiting)])
            ready = wait_readable([*listeners, *waiting], max(0.0, soonest - now))
            for listener, queue in queues.items():
                yield from greetings_of(queue, ready)
                if listener in ready:
                    accept(listener, secret, queue)
    finally:
        for queue in queues.values():
            for caller in queue:
                caller.close()


def greetings_of(queue: list[Caller], ready: Sequence[Any]) -> Generator[tuple[Channel, Hello]]:
    """Yield the channels and hellos of authenticated callers; drop strangers."""
    for caller in [caller for caller in queue if caller in ready]:
        try:
            greeting = caller.receive_hello()
        except Stranger:
            drop(queue, caller)
            continue
        if greeting:
            queue.remove(caller)
            yield greeting
    for caller in [caller for caller in queue if caller.deadline <= time.monotonic()]:
        drop(queue, caller)


def drop(queue: list[Caller], caller: Caller) -> None:
    queue.remove(caller)
    caller.close()


def accept(listener: socket.socket, secret: str, queue: list[Caller]) -> None:
    for _ in range(ACCEPTED_AT_ONCE):
        try:
            stream, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # The caller has left, or there are no more file descriptors.
            if queue:
                drop(queue, queue[0])
            return
        try:
            queue.append(Caller(stream, secret))
        except OSError:
            stream.close()
        if len(queue) > MOST_CALLERS:
            drop(queue, queue[0])


def call(stream: socket.socket, secret: str) -> Channel:
    """Perform the caller's part of the handshake; raise Stranger unless agent 0 proves itself."""
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
    received = b""
    while len(received) < count:
        stream.settimeout(max(0.001, deadline - time.monotonic()))
        piece = stream.recv(count - len(received))
        if not piece or time.monotonic() > deadline:
            raise ConnectionError("no answer in time")
        received += piece
    return received

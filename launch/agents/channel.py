"""A channel between two agents: a handshake by one secret, then JSON until a peer is lost."""

import contextlib
import hmac
import json
import os
import secrets
import socket
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from launch.agents.interfaces import reachable_addresses
from launch.framing import Pieces, framed, is_writable
from launch.host import namespace, node_name, usable_cores
from launch.signals import wait_for

MESSAGE_BYTES = 1 << 26
"""Above any outcome with its tracebacks."""
WHOLE_S = 10.0
"""Seconds that a message may take to be received once it has begun, or to be sent."""
KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Options that report a silent host after 10 s; units: seconds, seconds, probes, milliseconds."""


class PeerLost(Exception):
    """The other end has ended; `silently`: its host no longer answers."""

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
        self._incoming = Pieces(self.connection)
        # If a signal interrupts send(), the rest stays here and the next message follows it.
        self._unsent = bytearray()
        self._given_up = False

    def send(self, kind: str, value: Any = None) -> None:
        """Send one message, or nothing if the peer is lost, which receive() reports.

        A peer that does not read for WHOLE_S counts as lost.
        Raise ValueError for a message longer than MESSAGE_BYTES, which the peer would refuse.
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
        """Return the kind and value of the next message, or None while it is incomplete.

        Raise PeerLost, also (silently) where the peer sends something else than our messages.
        """
        try:
            message = self._incoming.take(limit)
            if message is None:
                return None
            kind, value = json.loads(message)
            return str(kind), value
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise PeerLost(silently=self._given_up) from None
        except (OSError, ValueError, TypeError, RecursionError):  # unreachable, or no JSON pair
            raise PeerLost(silently=True) from None

    def receive(self, timeout_s: float) -> tuple[str, Any]:
        """Wait for the next message; `timeout_s` limits its begin, WHOLE_S the rest.

        Raise PeerLost, also (silently) where no message of ours comes in time.
        """
        deadline = time.monotonic() + timeout_s
        begun = False
        while (message := self.take()) is None:
            if self._incoming.begun and not begun:
                begun = True
                deadline = time.monotonic() + WHOLE_S
            if not wait_for([self.connection], max(0.0, deadline - time.monotonic())):
                raise PeerLost(silently=True)
        return message

    def close(self) -> None:
        self.connection.close()

    def _give_up(self) -> None:
        """Shut the connection down, which makes it readable and its next read the end."""
        self._given_up = True
        self._unsent.clear()
        with socket.socket(fileno=os.dup(self.connection.fileno())) as stream:
            stream.shutdown(socket.SHUT_RDWR)


NONCE_BYTES = PROOF_BYTES = 32
HELLO_S = 5.0
"""Seconds that either side of a new connection may take for its proof and its hello."""
HELLO_BYTES = 1 << 22
"""A hello contains the command line."""
MOST_CALLERS = 256
"""Limit of callers without a hello; beyond it the oldest is dropped."""
ACCEPTED_AT_ONCE = 32
"""Limit of callers per turn, so that a caller has several turns before a flood drops it."""
AGENT_0, CALLER = b"benchkit agent 0", b"benchkit caller"


class Stranger(Exception): ...


def proof(secret: str, role: bytes, nonce_0: bytes, nonce: bytes) -> bytes:
    """Return the proof that only a holder of the secret can send in this role and connection."""
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
        """Return the channel to the caller and its hello, or None while more must come."""
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
        """Check the caller's proof and send agent 0's; return False while more must come."""
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
) -> Generator[tuple[Channel, Any], None, None]:
    """Yield the channel and the hello of each caller that knows the secret, until the deadline.

    Agent 0 serves all connections at once, so a stranger that is silent or slow delays no agent.
    Each listener has its own queue: a flood at one of them drops no caller of another.
    """
    queues: dict[socket.socket, list[Caller]] = {listener: [] for listener in listeners}
    for listener in listeners:
        listener.setblocking(False)
    try:
        while (now := time.monotonic()) < deadline:
            waiting = [caller for queue in queues.values() for caller in queue]
            soonest = min([deadline, *(caller.deadline for caller in waiting)])
            ready = wait_for([*listeners, *waiting], max(0.0, soonest - now))
            for listener, queue in queues.items():
                yield from greetings_of(queue, ready)
                if listener in ready:
                    accept(listener, secret, queue)
    finally:
        for queue in queues.values():
            for caller in queue:
                caller.close()


def greetings_of(queue: list[Caller], ready: Sequence[Any]) -> Generator[tuple[Channel, Any]]:
    """Yield the channels and hellos of callers that have proved themselves; drop strangers."""
    for caller in [caller for caller in queue if caller in ready]:
        try:
            greeting = caller.hear()
        except Stranger:
            drop(queue, caller)
            continue
        if greeting:
            queue.remove(caller)
            yield greeting
    for caller in [caller for caller in queue if caller.deadline <= time.monotonic()]:
        drop(queue, caller)


def drop(waiting: list[Caller], caller: Caller) -> None:
    waiting.remove(caller)
    caller.close()


def accept(listener: socket.socket, secret: str, waiting: list[Caller]) -> None:
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
    """Perform the caller's side of the handshake; raise Stranger unless agent 0 proves itself."""
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
    held = b""
    while len(held) < count:
        stream.settimeout(max(0.001, deadline - time.monotonic()))
        piece = stream.recv(count - len(held))
        if not piece or time.monotonic() > deadline:
            raise ConnectionError("no answer in time")
        held += piece
    return held


@dataclass(frozen=True)
class AgentInfo:
    """An agent as the others know it.

    Agents with the same `network` are on the same host; those with the same `clock` share a clock.
    """

    index: int
    host: str
    network: str
    clock: str
    cores: list[int]

    def __str__(self) -> str:
        return f"agent {self.index} on {self.host}"


def parse_member(plain: Any, count: int) -> AgentInfo:
    """Parse plain JSON; raise ValueError if it is not the AgentInfo of one of `count` agents."""
    texts, numbers = ("host", "network", "clock"), ("index", "cores")
    if not isinstance(plain, dict) or set(plain) != {*texts, *numbers}:
        raise ValueError("not the fields of an agent")
    if not all(isinstance(plain[name], str) for name in texts):
        raise ValueError(f"{', '.join(texts)}: allowed is text")
    cores = plain["cores"]
    if not isinstance(cores, list) or not all(type(core) is int for core in cores):
        raise ValueError("cores: allowed is a list of numbers")
    if type(plain["index"]) is not int or not 0 <= plain["index"] < count:
        raise ValueError(f"index: allowed are 0 to {count - 1}")
    return AgentInfo(**plain)


def this_member(index: int) -> AgentInfo:
    return AgentInfo(index, node_name(), namespace("net"), namespace("time"), usable_cores())


class SweepEnds(BaseException):
    """Nothing more can be measured: agent 0 or a whole node is lost."""


class Lost(Exception):
    """Agents are lost.

    `host_is_silent`: no lost agent's host answers, so its state is unknown; else only the processes
    of agents ended.
    """

    def __init__(self, members: Sequence[AgentInfo], host_is_silent: bool) -> None:
        how = "does not answer" if host_is_silent else "is gone"
        super().__init__(f"{' and '.join(map(str, members))} {how}")
        self.members = list(members)
        self.host_is_silent = host_is_silent


LOOPBACK = "127.0.0.1"
ADDRESS_BYTES = 1 << 16


def host_and_port(host: str, port: int) -> str:
    if is_path(host):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True)
class Address:
    """Where agent 0 listens.

    Attributes:
        hosts: names and IP addresses of agent 0's host, or a path: of a socket on this host.
        network: network namespace of agent 0, whose loopback reaches it.
        token: the secret of this run's agents; a signature or "" where others may read the address.
    """

    hosts: list[str]
    port: int
    network: str
    token: str

    def candidates(self) -> list[str]:
        if self.network != namespace("net"):
            return self.hosts
        paths = [host for host in self.hosts if is_path(host)]
        return list(dict.fromkeys([*paths, LOOPBACK, *self.hosts]))


def is_path(host: str) -> bool:
    return host.startswith("/")


def own_address(port: int, local: bool, secret: str = "") -> Address:
    own = [LOOPBACK] if local else [node_name(), socket.gethostname(), *reachable_addresses()]
    token = secret or secrets.token_hex(32)
    return Address(list(dict.fromkeys(own)), port, namespace("net"), token)


def parse_address(text: bytes) -> Address:
    try:
        plain = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(plain, dict) or set(plain) != {"hosts", "port", "network", "token"}:
        raise ValueError("not the fields of an address")
    hosts = plain["hosts"]
    others = [plain["network"], plain["token"]]
    if not isinstance(hosts, list) or not all(isinstance(field, str) for field in hosts + others):
        raise ValueError("hosts, network, token: allowed is text")
    if type(plain["port"]) is not int or not 0 < plain["port"] < 1 << 16:
        raise ValueError("port: allowed are 1 to 65535")
    return Address(**plain)

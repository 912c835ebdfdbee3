"""The address at which agent 0 listens, and its endpoints for the other agents."""

import errno
import hmac
import json
import os
import socket
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from launch import trust
from launch.agents.interfaces import reachable_addresses
from launch.host import namespace, node_name

BACKLOG = 512
LOOPBACK = "127.0.0.1"
ADDRESS_BYTES = 1 << 16


class Endpoint(NamedTuple):
    """One endpoint of agent 0: a host and a port, or a Unix socket of this host."""

    host: str
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.path or f"{host}:{self.port}"

    def dial(self, timeout_s: float) -> socket.socket:
        if not self.path:
            return socket.create_connection((self.host, self.port), timeout=timeout_s)
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.settimeout(timeout_s)
            stream.connect(self.path)
        except OSError:
            stream.close()
            raise
        return stream


class Address(Struct, frozen=True, forbid_unknown_fields=True):
    """The address of agent 0.

    Attributes:
        hosts: names and IP addresses of agent 0's host.
        network: network namespace of agent 0, whose loopback reaches it.
        token: the secret of this run's agents; a signature or "" where others may read the address.
        path: path of agent 0's Unix socket, for agents in its network; "" without one.
    """

    hosts: list[str]
    port: Annotated[int, Meta(gt=0, lt=1 << 16)]
    network: str
    token: str
    path: str = ""

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints by which this process may reach agent 0, the nearest first."""
        is_near = self.network == namespace("net")
        hosts = dict.fromkeys([LOOPBACK, *self.hosts] if is_near else self.hosts)
        sockets = [Endpoint(LOOPBACK, path=self.path)] if is_near and self.path else []
        return sockets + [Endpoint(host, self.port) for host in hosts]

    def to_json(self) -> str:
        return json.dumps(msgspec.to_builtins(self))

    def sign(self) -> "Address":
        """Return the address with a signature (HMAC) in place of the secret, for public storage.

        Without a signature, whoever can write to that storage could publish the address of a
        process that relays the handshake.
        """
        text = json.dumps([self.hosts, self.port, self.network, self.path]).encode()
        secret = self.token.encode(errors="surrogatepass")
        return replace(self, token=hmac.digest(secret, b"address" + text, "sha256").hex())


def parse_address(text: bytes) -> Address:
    """Parse the address that agent 0 has published; raise ValueError for anything else."""
    try:
        return msgspec.convert(json.loads(text), Address)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def names_of_host() -> list[str]:
    """Return names and addresses by which other hosts may reach this one."""
    return list(dict.fromkeys([node_name(), socket.gethostname(), *reachable_addresses()]))


def open_private_listener(path: Path) -> socket.socket | None:
    """Listen at a Unix socket in a folder of this user only; return None where that fails."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        trust.make_private_folder(path.parent)
        path.unlink(missing_ok=True)  # of an earlier start
        listener.bind(os.fspath(path))
        listener.listen(BACKLOG)
    except OSError:  # too long a path, or a file system without sockets
        listener.close()
        return None
    return listener


def open_local_listener() -> socket.socket:
    return socket.create_server((LOOPBACK, 0), backlog=BACKLOG)


def open_listener(port: int) -> socket.socket:
    """Listen for other hosts, over IPv6 and IPv4 where both exist."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
            )
        except OSError as error:  # The kernel has IPv6, but this network namespace has not.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return socket.create_server(("", port), backlog=BACKLOG)


def describe_error(error: OSError | UnicodeError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, UnicodeError | socket.gaierror):
        return "no such host"
    return (error.strerror or str(error)).lower()

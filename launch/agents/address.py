"""Where agent 0 listens, and how the other agents reach it."""

import errno
import hmac
import json
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from launch import trust
from launch.agents.interfaces import reachable_addresses
from launch.host import namespace, node_name

BACKLOG = 512
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


def signed(address: Address) -> Address:
    """Return an address that everyone may read: a signature by the secret stands for the secret.

    Without it, whoever can write where the address stands could lead agents through a process of
    its own, which hands on their handshake.
    """
    text = json.dumps([address.hosts, address.port, address.network]).encode()
    secret = address.token.encode(errors="surrogatepass")
    return replace(address, token=hmac.digest(secret, b"address" + text, "sha256").hex())


def open_private_listener(path: Path) -> socket.socket | None:
    """Open a socket in this user's own folder, at which no stranger can knock; None without one."""
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


def close_all(listeners: Sequence[socket.socket]) -> None:
    for listener in listeners:
        listener.close()


def open_listener(port: int, local: bool) -> socket.socket:
    if local:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
            )
        except OSError as error:  # The kernel has IPv6, but this network namespace has not.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return socket.create_server(("", port), backlog=BACKLOG)


def dial(host: str, port: int, timeout_s: float) -> socket.socket:
    if not is_path(host):
        return socket.create_connection((host, port), timeout=timeout_s)
    stream = socket.socket(socket.AF_UNIX)
    try:
        stream.settimeout(timeout_s)
        stream.connect(host)
    except OSError:
        stream.close()
        raise
    return stream


def why_not(error: OSError | UnicodeError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, UnicodeError | socket.gaierror):
        return "no such host"
    return (error.strerror or str(error)).lower()

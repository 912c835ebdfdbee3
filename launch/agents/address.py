"""Where agent 0 listens, as the other agents are told."""

import contextlib
import json
import secrets
import socket
from dataclasses import dataclass

from launch.topology import namespace, node_name

LOOPBACK = "127.0.0.1"
ADDRESS_BYTES = 1 << 16
"""More than any address takes as JSON."""


@dataclass(frozen=True)
class Address:
    """Where agent 0 listens: names, a port, and the network whose loopback reaches it.

    token: the secret by which the agents of one run know each other.
    """

    hosts: list[str]
    port: int
    network: str
    token: str

    def candidates(self) -> list[str]:
        """The hosts in the order to try: loopback first where it is ours too."""
        if self.network != namespace("net"):
            return self.hosts
        return list(dict.fromkeys([LOOPBACK, *self.hosts]))


def own_address(port: int, local: bool) -> Address:
    """The address under which others find a socket of this process.

    local: all of them are on this host.
    """
    hosts = [LOOPBACK] if local else [node_name(), socket.gethostname(), *own_ip()]
    return Address(list(dict.fromkeys(hosts)), port, namespace("net"), secrets.token_hex(32))


def own_ip() -> list[str]:
    """The address of the interface that leads out; nothing is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a documentation address (RFC 5737)
        return [str(probe.getsockname()[0])]
    return []


def parse_address(text: bytes) -> Address:
    """An address from JSON. Raises ValueError where it is none."""
    try:
        plain = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(plain, dict) or set(plain) != {"hosts", "port", "network", "token"}:
        raise ValueError("not the fields of an address")
    hosts, texts = plain["hosts"], (plain["network"], plain["token"])
    if not isinstance(hosts, list) or not all(isinstance(text, str) for text in (*hosts, *texts)):
        raise ValueError("hosts, network, token: allowed is text")
    if type(plain["port"]) is not int or not 0 < plain["port"] < 1 << 16:
        raise ValueError("port: allowed are 1 to 65535")
    return Address(**plain)

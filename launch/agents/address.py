"""The address of agent 0, which the other agents need to connect to it."""

import contextlib
import json
import secrets
import socket
from dataclasses import dataclass

from launch.topology import namespace, node_name

LOOPBACK = "127.0.0.1"
ADDRESS_BYTES = 1 << 16
"""Upper limit for an address as JSON; real ones are much smaller."""


@dataclass(frozen=True)
class Address:
    """The place where agent 0 listens, and the secret that callers must know.

    Attributes:
        hosts: names and IP addresses of agent 0's host.
        port: TCP port.
        network: network namespace of agent 0, whose loopback reaches it.
        token: the secret by which the agents of one run recognize each other; where others may read
            the address, "" or a signature.
    """

    hosts: list[str]
    port: int
    network: str
    token: str

    def candidates(self) -> list[str]:
        """Returns the hosts in the order to try: loopback first if agent 0 shares our network."""
        if self.network != namespace("net"):
            return self.hosts
        return list(dict.fromkeys([LOOPBACK, *self.hosts]))


def own_address(port: int, local: bool, secret: str = "") -> Address:
    """Returns the address under which others find a socket of this process.

    Args:
        port: TCP port of the socket.
        local: whether all other agents are on this host.
        secret: of the agents, where they have one already.
    """
    hosts = [LOOPBACK] if local else [node_name(), socket.gethostname(), *own_ip()]
    token = secret or secrets.token_hex(32)
    return Address(list(dict.fromkeys(hosts)), port, namespace("net"), token)


def own_ip() -> list[str]:
    """Returns the IP address of the interface that leads out, if there is one; sends nothing."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a documentation address (RFC 5737)
        return [str(probe.getsockname()[0])]
    return []


def parse_address(text: bytes) -> Address:
    """Parses an address from JSON.

    Raises:
        ValueError: the text is not an address.
    """
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

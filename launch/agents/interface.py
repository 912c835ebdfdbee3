"""The network interface between hosts, for libraries that would take a host's name for it."""

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from multiprocessing.connection import Connection
from pathlib import Path

GET_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR: asks for the IPv4 address of an interface."""
IPV6_ADDRESSES = Path("/proc/net/if_inet6")


def name_leads_out() -> bool:
    """Returns whether other hosts can reach the address that this host's name stands for.

    gloo listens at the first address of the name that is one of this host's. In many images that
    is 127.0.1.1, and if there is none, gloo takes loopback, too.
    """
    with suppress(OSError):
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        for family, kind, _, _, address in found:
            with suppress(OSError), socket.socket(family, kind) as probe:
                probe.bind(address)
                return not parse(str(address[0])).is_loopback
    return False


def outer_interface(connections: Sequence[Connection]) -> str:
    """Returns the interface of the first of some sockets that leaves this host; "" if none does."""
    for connection in connections:
        with socket.socket(fileno=os.dup(connection.fileno())) as stream:
            address = parse(stream.getsockname()[0])
        if not address.is_loopback and (name := interface_with(address)):
            return name
    return ""


def parse(text: str) -> IPv4Address | IPv6Address:
    """Parses an IP address; one of IPv4 that IPv6 has wrapped is unwrapped."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def interface_with(address: IPv4Address | IPv6Address) -> str:
    """Returns the name of the interface that has an address; "" if none is found (Linux only)."""
    if address.version == 6:
        lines = IPV6_ADDRESSES.read_text().split("\n") if IPV6_ADDRESSES.exists() else []
        rows = [line.split() for line in lines if line]
        return next((row[-1] for row in rows if bytes.fromhex(row[0]) == address.packed), "")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no IPv4 address
                answer = fcntl.ioctl(asked, GET_ADDRESS, struct.pack("256s", name.encode()))
                if answer[20:24] == address.packed:
                    return name
    return ""

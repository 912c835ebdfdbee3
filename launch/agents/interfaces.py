"""The network interfaces of this host, and the addresses by which other hosts reach it."""

import fcntl
import os
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from multiprocessing.connection import Connection
from pathlib import Path

from launch.host import read_text

SIOCGIFCONF = 0x8912
"""Linux's request for all IPv4 addresses (netdevice(7)), also the further ones of an interface."""
NAME_BYTES, ROW_BYTES, MOST_ROWS = 16, 40, 4096
IPV6_ADDRESSES = Path("/proc/net/if_inet6")
OUTSIDE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation (RFC 5737, RFC 3849)."""


def addresses() -> dict[IPv4Address | IPv6Address, str]:
    """Return the addresses of this host, each with the name of its interface (Linux only)."""
    found: dict[IPv4Address | IPv6Address, str] = {}
    rows = array("B", bytes(ROW_BYTES * MOST_ROWS))
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("iP", len(rows), rows.buffer_info()[0])
        length, _ = struct.unpack("iP", fcntl.ioctl(asked, SIOCGIFCONF, request))
        for start in range(0, length, ROW_BYTES):
            row = rows[start : start + ROW_BYTES].tobytes()
            alias = os.fsdecode(row[:NAME_BYTES].partition(b"\0")[0])  # such as eth0:1
            found.setdefault(IPv4Address(row[20:24]), alias.partition(":")[0])
    for line in read_text(IPV6_ADDRESSES).splitlines():
        packed, *_, name = line.split()
        found.setdefault(IPv6Address(bytes.fromhex(packed)), name)
    return found


def reachable_addresses() -> list[str]:
    """Return the addresses that other hosts may reach, first those of interfaces that lead out.

    Hosts may share a network and no route out. A link-local address of IPv6 means nothing without
    the name of an interface of the other host.
    """
    return [
        str(address)
        for address in dict.fromkeys([*map(parse, leading_out()), *addresses()])
        if not (address.is_loopback or (address.version == 6 and address.is_link_local))
    ]


def leading_out() -> Iterator[str]:
    """Yield the addresses of interfaces that lead out, where there are any; send nothing."""
    for family, outside in OUTSIDE.items():
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            yield str(probe.getsockname()[0])


def name_leads_out() -> bool:
    """Return whether other hosts can reach the address that this host's name stands for.

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
    """Return the interface of the first of some sockets that leaves this host; "" if none does."""
    for connection in connections:
        with socket.socket(fileno=os.dup(connection.fileno())) as stream:
            if stream.family == socket.AF_UNIX:
                continue
            address = parse(stream.getsockname()[0])
        if not address.is_loopback and (name := addresses().get(address)):
            return name
    return ""


def parse(text: str) -> IPv4Address | IPv6Address:
    """Parse an IP address; one of IPv4 that IPv6 has wrapped is unwrapped."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address

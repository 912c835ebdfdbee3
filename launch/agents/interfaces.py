"""Network interfaces of this host, and the addresses by which other hosts reach it."""

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
"""Linux's ioctl for all IPv4 addresses (netdevice(7)), secondary ones included."""
NAME_BYTES, ROW_BYTES, MOST_ROWS = 16, 40, 4096
IPV6_ADDRESSES = Path("/proc/net/if_inet6")
OUTSIDE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation (RFC 5737, RFC 3849)."""


def addresses() -> dict[IPv4Address | IPv6Address, str]:
    """Map the addresses of this host to the names of their interfaces (Linux only)."""
    interface_names: dict[IPv4Address | IPv6Address, str] = {}
    rows = array("B", bytes(ROW_BYTES * MOST_ROWS))
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
        request = struct.pack("iP", len(rows), rows.buffer_info()[0])
        length, _ = struct.unpack("iP", fcntl.ioctl(stream, SIOCGIFCONF, request))
        for start in range(0, length, ROW_BYTES):
            row = rows[start : start + ROW_BYTES].tobytes()
            alias = os.fsdecode(row[:NAME_BYTES].partition(b"\0")[0])  # such as eth0:1
            interface_names.setdefault(IPv4Address(row[20:24]), alias.partition(":")[0])
    for line in read_text(IPV6_ADDRESSES).splitlines():
        packed, *_, name = line.split()
        interface_names.setdefault(IPv6Address(bytes.fromhex(packed)), name)
    return interface_names


def reachable_addresses() -> list[str]:
    """Return the addresses that other hosts may reach, those with a route out first.

    Hosts may share a network without a route out. A link-local address of IPv6 is useless without
    the name of an interface of the other host.
    """
    return [
        str(address)
        for address in dict.fromkeys([*map(parse, default_source_addresses()), *addresses()])
        if not (address.is_loopback or (address.version == 6 and address.is_link_local))
    ]


def default_source_addresses() -> Iterator[str]:
    """Yield the source addresses of the default routes, if any; no packet is sent."""
    for family, outside in OUTSIDE.items():
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            yield str(probe.getsockname()[0])


def is_name_reachable() -> bool:
    """Return whether this host's name resolves to an address that other hosts can reach.

    gloo binds to the first address of the name that is local. In many images that is 127.0.1.1;
    without any, gloo falls back to loopback.
    """
    with suppress(OSError):
        candidates = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        for family, kind, _, _, address in candidates:
            with suppress(OSError), socket.socket(family, kind) as probe:
                probe.bind(address)
                return not parse(str(address[0])).is_loopback
    return False


def outer_interface(connections: Sequence[Connection]) -> str:
    """Return the interface of the first socket that is not local to this host; "" without one."""
    for connection in connections:
        with socket.socket(fileno=os.dup(connection.fileno())) as stream:
            if stream.family == socket.AF_UNIX:
                continue
            address = parse(stream.getsockname()[0])
        if not address.is_loopback and (name := addresses().get(address)):
            return name
    return ""


def parse(text: str) -> IPv4Address | IPv6Address:
    """Parse an IP address; an IPv4-mapped IPv6 address becomes IPv4."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address

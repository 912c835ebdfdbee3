"""A local user without rights, at work against a sweep of another user; needs nothing but Python's own library.

    python3 stranger.py SECONDS

Tries to read what is not its own, and talks nonsense to whatever listens in this network namespace, until its seconds
are over; then prints what it could do, as JSON.
"""

import glob
import json
import os
import random
import signal
import socket
import struct
import sys
import time

TCP_STORE_HELLO = struct.pack("<BI", 9, 0x3C85F7CE)
"""How a client of torch's TCPStore begins (TCPStore.cpp: QueryType::VALIDATE and its magic number)."""
NONSENSE = [
    TCP_STORE_HELLO + struct.pack("<BQ", 0, 7) + b"point/0" + struct.pack("<Q", 1 << 60),
    struct.pack("<Q", 0),
    struct.pack("<Q", 1),
    struct.pack("<q", -1),
    b"[" * 60_000,
    b"GET / HTTP/1.0\r\n\r\n",
    b"",
]


def listening():
    """(address, port) of every TCP socket that waits for connections here, by the kernel's list."""
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name) as file:
            lines = file.read().splitlines()[1:]
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                address, port = local.split(":")
                found.add((address, int(port, 16)))
    return found


def try_to_open(told):
    """Files of benchkit's in other processes, and its private folders."""
    for path in glob.glob("/proc/[0-9]*/fd") + glob.glob("/tmp/pymp-*") + glob.glob("/tmp/benchkit-*"):
        try:
            if os.stat(path).st_uid == os.getuid():
                continue
            for name in os.listdir(path):
                told["opened"].append(os.path.join(path, name))
        except OSError:
            told["refused"] += 1


def try_to_signal(told):
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if os.stat(path).st_uid == 0 and int(path.rsplit("/", 1)[1]) > 2:
                os.kill(int(path.rsplit("/", 1)[1]), signal.SIGTERM)
                told["signalled"] += 1
        except OSError:
            told["refused"] += 1


def main():
    told = {"uid": os.getuid(), "addresses": [], "connections": 0, "opened": [], "signalled": 0, "refused": 0}
    addresses, held, until = set(), [], time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until:
        for address, port in listening():
            addresses.add(address)
            try:
                stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
                stranger.sendall(random.choice(NONSENSE))
            except OSError:
                continue
            told["connections"] += 1
            held.append(stranger)  # silent from now on
        del held[:-100]
        try_to_open(told)
        try_to_signal(told)
        time.sleep(0.02)
    told["addresses"] = sorted(addresses)
    print(json.dumps(told))


if __name__ == "__main__":
    main()

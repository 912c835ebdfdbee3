"""Another local user, without rights, at torchrun's store; needs nothing but Python's own library.

    python3 impostor.py PORT PROGRAM < PIPE

Reads the keys by which agents could meet, and puts itself there as agent 0 of a comparison whose interpreter is
PROGRAM. When its standard input ends, it prints what it read and how many agents followed it, as JSON.
"""

import hashlib
import hmac
import json
import os
import select
import socket
import struct
import sys
import time

KEY = b"benchkit/agents/none.0"
VALIDATE, SET, GET = 0, 1, 3
"""Queries of torch's TCPStore (TCPStoreBackend.hpp); the first goes with a magic number."""


def exactly(stream, count):
    held = b""
    while len(held) < count:
        piece = stream.recv(count - len(held))
        if not piece:
            raise EOFError
        held += piece
    return held


def text(content):
    return struct.pack("<Q", len(content)) + content


def read(store, key):
    store.sendall(bytes([GET]) + text(key))
    return exactly(store, struct.unpack("<Q", exactly(store, 8))[0])


def say(stream, kind, value):
    message = json.dumps([kind, value]).encode()
    stream.sendall(struct.pack("!Q", len(message)) + message)


def hear(stream):
    return json.loads(exactly(stream, struct.unpack("!Q", exactly(stream, 8))[0]))


def lead(stream, program):
    """Agent 0's part: the handshake by a secret of its own, the welcome, and the first run."""
    nonce_0 = b"0" * 32
    stream.sendall(nonce_0)
    nonce = exactly(stream, 64)[32:]
    stream.sendall(hmac.new(b"mine", b"benchkit agent 0" + nonce_0 + nonce, hashlib.sha256).digest())
    _, hello = hear(stream)
    members = [dict(hello["member"], index=0), hello["member"]]
    say(stream, "welcome", {"problem": "", "members": members})
    arms = [{"text": name, "python": program, "folder": "/tmp"} for name in ("plain", "venv:x")]
    plan = {
        "id": "0" * 12, "arms": arms, "overrides": [], "seed": 0, "floor": {}, "version": 1,
        "options": {"pairs": 6, "max_pairs": 50, "fail_on": 0.05, "statistic": "p25"},
        "order": [{"roles": [1, 0], "seed": 0, "is_control": False}] * 6,
    }  # fmt: skip
    folder = {"problem": "", "plan": json.dumps(plan), "folder": "/tmp/of-impostor"}
    for value in (folder, "", None, [[1, 1], 0], "", [0, ""]):
        hear(stream)
        say(stream, "values", [value, value])
    time.sleep(5)


def main(port, program):
    told = {"uid": os.getuid(), "read": [], "followers": 0}
    trap = socket.create_server(("127.0.0.1", 0))
    mine = {"hosts": ["127.0.0.1"], "port": trap.getsockname()[1], "network": "", "token": "mine"}
    store = None
    ready = []
    while sys.stdin not in ready:
        try:
            if store is None:
                store = socket.create_connection(("127.0.0.1", port), timeout=5)
                store.sendall(struct.pack("<BI", VALIDATE, 0x3C85F7CE))
            for key in (KEY, b"/" + KEY):
                found = read(store, key).decode(errors="replace")
                if found and '"mine"' not in found:
                    told["read"].append(found)
                store.sendall(bytes([SET]) + text(key) + text(json.dumps(mine).encode()))
        except (OSError, EOFError):
            store = None
        ready, _, _ = select.select([trap, sys.stdin], [], [], 0.01)
        if trap in ready:
            stream, _ = trap.accept()
            stream.settimeout(60)
            try:
                lead(stream, program)
                told["followers"] += 1
            except (OSError, EOFError, ValueError) as error:
                print(repr(error), file=sys.stderr)
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

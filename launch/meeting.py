"""Where agents find agent 0: in torchrun's store, at MASTER_ADDR:MASTER_PORT, or by a file that they share."""

import contextlib
import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from launch.topology import Started, namespace, node_name

POLL_S = 0.1
ADVICE = "set MASTER_ADDR and MASTER_PORT, to a host and a free port of agent 0"


class JoinError(Exception):
    """The agents of a run did not come together; says who came, who did not and what to do."""


@dataclass(frozen=True)
class Address:
    """Where agent 0 listens: names, a port, the network whose loopback reaches it, and a word to know it by."""

    hosts: list[str]
    port: int
    network: str
    token: str

    def candidates(self) -> list[str]:
        """The hosts in the order to try: loopback first where it is ours too."""
        return ["127.0.0.1", *self.hosts] if self.network == namespace("net") else self.hosts


def own_address(port: int) -> Address:
    """The address under which others find a socket of this process."""
    hosts = [node_name(), socket.gethostname(), *own_ip()]
    return Address(list(dict.fromkeys(hosts)), port, namespace("net"), uuid.uuid4().hex)


def own_ip() -> list[str]:
    """The address of the interface that leads out; nothing is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a documentation address (RFC 5737)
        return [str(probe.getsockname()[0])]
    return []


class Meeting:
    """The meeting place of one run's agents."""

    def __init__(self, started: Started, folder: Path) -> None:
        """`folder`: where the file goes that they share, where it takes one."""
        self._started = started
        self._file = folder / f".agents-{started.by}-{started.job}"
        self._fixed = None if started.by == "torchrun" else fixed_address(started)
        if self._fixed is None and not started.job:
            raise JoinError(f"{started.by} over several hosts does not say which processes belong together: {ADVICE}")

    def __str__(self) -> str:
        if self._fixed:
            return f"{self._fixed.hosts[0]}:{self._fixed.port}"
        return "torchrun's store" if self._started.by == "torchrun" else str(self._file)

    def listen(self) -> tuple[socket.socket, Address]:
        """Opens agent 0's socket and lets the others know."""
        port = self._fixed.port if self._fixed else 0
        try:
            listener = socket.create_server(("", port), backlog=self._started.count)
        except OSError as error:
            raise JoinError(f"agent 0 cannot listen at port {port}: {error.strerror or error}; {ADVICE}") from None
        address = self._fixed or own_address(listener.getsockname()[1])
        text = json.dumps(asdict(address))
        try:
            if self._started.by == "torchrun":
                self._store(timedelta(seconds=60)).set(self._key(), text)
            elif not self._fixed:
                write_whole(self._file, text)
        except (OSError, RuntimeError) as error:  # torch's errors are RuntimeErrors
            listener.close()
            raise JoinError(f"agent 0 cannot leave its address at {self}: {error}; {ADVICE}") from None
        return listener, address

    def find(self, deadline: float) -> Address | None:
        """Agent 0's address as far as is known now; None where it has not come yet."""
        if self._fixed:
            return self._fixed
        try:
            if self._started.by == "torchrun":
                text = self._store(timedelta(seconds=max(1.0, deadline - time.monotonic()))).get(self._key())
            else:
                text = self._file.read_bytes()
            return Address(**json.loads(text))
        except (OSError, RuntimeError, ValueError, TypeError):  # not there yet; torch's errors are RuntimeErrors
            return None

    def leave(self) -> None:
        """Agent 0 takes its address away again: all have come, or will not."""
        if not self._fixed and self._started.by != "torchrun":
            self._file.unlink(missing_ok=True)

    def _key(self) -> str:
        return f"benchkit/agents/{self._started.job}"

    def _store(self, timeout: timedelta) -> Any:
        """torchrun's own store, which lives in its agent on the first node."""
        from torch.distributed import TCPStore

        return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timeout)


def fixed_address(started: Started) -> Address | None:
    """What MASTER_ADDR and MASTER_PORT say, which torch's users set by hand."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if not host or not port:
        return None
    if not port.isdigit():
        raise JoinError(f"MASTER_PORT={port}: allowed is a port's number")
    return Address([host], int(port), "", started.job)


def write_whole(path: Path, text: str) -> None:
    """Writes a file that only we may read, and that a reader sees whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=".agents-part-")
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def until(deadline: float, attempt: Callable[[], Any]) -> Any:
    """What `attempt` gives as soon as it gives something; None where it gave nothing in time."""
    while True:
        if (found := attempt()) is not None or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)

"""Agents find agent 0 by torchrun's store, at MASTER_ADDR:MASTER_PORT, or by a file they share."""

import contextlib
import errno
import json
import logging
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from launch.agents.address import ADDRESS_BYTES, LOOPBACK, Address, own_address, parse_address
from launch.topology import LaunchContext

POLL_S = 0.1
BACKLOG = 512
"""Connections that the kernel queues until agent 0 accepts them."""
SECRET_VARIABLE = "BENCHKIT_SECRET"
"""Environment variable with the secret of agents that meet at a fixed address."""
ADVICE = "set MASTER_ADDR and MASTER_PORT, to a host and a free port of agent 0"
SAME_WORD = f"set {SECRET_VARIABLE} to the same word on every node"
log = logging.getLogger(__name__)


class JoinError(Exception):
    """The agents of a run did not join; the message says who joined, who did not and what to do."""


class Meeting:
    """The meeting place of the agents of one run."""

    def __init__(self, started: LaunchContext, folder: Path) -> None:
        """Chooses the meeting place.

        Args:
            started: how this process was started, and by which launcher.
            folder: location of the shared file, if agents meet by a file.

        Raises:
            JoinError: neither the launcher nor the environment gives agents a place to meet.
        """
        self.count = started.count
        self._started = started
        self._file = folder / f".agents-{started.by}-{started.job}"
        self._fixed = None if started.by == "torchrun" else fixed_address(started)
        self._distrusted = ""
        if self._fixed is None and not started.job:
            raise JoinError(
                f"{started.by} over several hosts does not say which processes belong together: "
                f"{ADVICE}; and {SAME_WORD}"
            )

    def __str__(self) -> str:
        if self._fixed:
            return f"{self._fixed.hosts[0]}:{self._fixed.port}"
        return "torchrun's store" if self._started.by == "torchrun" else str(self._file)

    def listen(self) -> tuple[socket.socket, Address]:
        """Opens agent 0's socket and publishes its address.

        Raises:
            JoinError: agent 0 cannot listen, or cannot publish its address.
        """
        port = self._fixed.port if self._fixed else 0
        try:
            listener = open_listener(port, self._started.local)
        except OSError as error:
            reason = error.strerror or error
            raise JoinError(f"agent 0 cannot listen at port {port}: {reason}; {ADVICE}") from None
        address = self._fixed or own_address(listener.getsockname()[1], self._started.local)
        text = json.dumps(asdict(address))
        try:
            if self._started.by == "torchrun":
                self._store(timedelta(seconds=60)).set(self._key(), text)
            elif not self._fixed:
                write_whole(self._file, text)
            elif not os.environ.get(SECRET_VARIABLE):
                warning = "anyone who reaches %s and guesses the job's name can join; %s"
                log.warning(warning, self, SAME_WORD)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeErrors
            listener.close()
            problem = f"agent 0 cannot leave its address at {self}: {error}"
            raise JoinError(f"{problem}; {ADVICE}") from None
        return listener, address

    def find(self, deadline: float) -> Address | None:
        """Returns agent 0's address, or None while agent 0 has not published it."""
        if self._fixed:
            return self._fixed
        try:
            if self._started.by == "torchrun":
                timeout = timedelta(seconds=max(1.0, deadline - time.monotonic()))
                text = self._store(timeout).get(self._key())
            else:
                text = read_own(self._file)
            return parse_address(text)
        except PermissionError as error:
            if str(error) != self._distrusted:
                self._distrusted = str(error)
                log.warning("%s", error)
            return None
        except (OSError, RuntimeError, ValueError):  # not published yet; torch raises RuntimeErrors
            return None

    def leave(self) -> None:
        """Removes agent 0's address when all agents have joined or the join has failed."""
        if not self._fixed and self._started.by != "torchrun":
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _key(self) -> str:
        return f"benchkit/agents/{self._started.job}"

    def _store(self, timeout: timedelta) -> Any:
        """Connects to torchrun's own store, which lives in its agent on the first node."""
        from torch.distributed import TCPStore

        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return TCPStore(host, port, is_master=False, timeout=timeout)


def fixed_address(started: LaunchContext) -> Address | None:
    """Reads the address from MASTER_ADDR and MASTER_PORT, which torch's users set by hand.

    Raises:
        JoinError: MASTER_PORT is not a port, or the agents have no secret.
    """
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if not host or not port:
        return None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise JoinError(f"MASTER_PORT={port}: allowed is a port's number, 1 to 65535")
    secret = os.environ.get(SECRET_VARIABLE) or started.job
    if not secret:
        nameless = f"{started.by} gives the job no name by which its agents know each other"
        raise JoinError(f"MASTER_ADDR={host}: {nameless}; {SAME_WORD}")
    return Address([LOOPBACK if started.local else host], int(port), "", secret)


def open_listener(port: int, local: bool) -> socket.socket:
    """Opens a socket that listens on all interfaces, or on loopback if all agents are `local`."""
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


def write_whole(path: Path, text: str) -> None:
    """Writes a file that only this user may read, and that a reader sees whole or not at all.

    Others may share the folder, so the file is always a new one (O_EXCL, 0600).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=".agents-part-")
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def read_own(path: Path) -> bytes:
    """Reads a file that write_whole() wrote.

    Raises:
        PermissionError: another user may have written the file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_ours = status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if not is_ours or not stat.S_ISREG(status.st_mode):
            allowed = "a file of this user that no other may write"
            raise PermissionError(f"{path}: ignored; allowed is {allowed}")
        return file.read(ADDRESS_BYTES)


def until(deadline: float, attempt: Callable[[], Any]) -> Any:
    """Repeats `attempt` until its result is not None; returns None if that takes too long."""
    while True:
        result = attempt()
        if result is not None or time.monotonic() > deadline:
            return result
        time.sleep(POLL_S)

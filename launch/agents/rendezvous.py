"""How the agents of one start find agent 0."""

import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from launch import trust
from launch.agents.address import (
    ADDRESS_BYTES,
    Address,
    close_all,
    host_and_port,
    open_listener,
    open_private_listener,
    own_address,
    parse_address,
    signed,
)
from launch.host import namespace
from launch.launcher_env import LaunchContext

POLL_S = 0.1
DEFAULT_PORT = "29500"
PATIENCE_S = 10.0
"""Seconds until a file of agent 0 must be visible here, once agent 0 is known to be there."""
FEWEST_LETTERS = 16
SECRET_VARIABLE = "BENCHKIT_SECRET"
"""The secret of agents on hosts without a shared folder."""
ADVICE = "set MASTER_ADDR and MASTER_PORT, to a host and a free port of agent 0"
CHOICES = f"""choose one for every host:
  {SECRET_VARIABLE}=WORD in the environment: a secret that only these agents know
  trust_network=true: every user of these hosts and of this network is trusted"""
log = logging.getLogger(__name__)


class JoinError(Exception):
    """The message says who joined, who did not and what to do."""


class Meeting:
    def __init__(self, started: LaunchContext, folder: Path, trusts_network: bool = False) -> None:
        """Choose the meeting place; raise JoinError where nothing gives agents one.

        `trusts_network`: a secret that others can guess will do between hosts.
        """
        master = master_address()
        if not (started.job or master):
            raise JoinError(f"{started.by} does not say which processes belong together: {ADVICE}")
        is_torchrun = started.by == "torchrun"
        self.count = started.count
        self._local = started.local
        self._fixed = None if started.local or is_torchrun else master
        self._key = f"benchkit/agents/{started.job}" if is_torchrun and not started.local else ""
        self._secret = key_of(os.environ.get(SECRET_VARIABLE, ""))
        self._is_guessable = trusts_network and not started.local and not self._secret
        if self._is_guessable:
            self._secret = started.job or "{}:{}".format(*master or ())
        name = file_name(started, master)
        self._files = [folder / name]
        self._socket: Path | None = None
        if started.local:
            self._files.append(temporary_folder() / name)
            self._socket = temporary_folder() / hashlib.sha256(name.encode()).hexdigest()[:16]
        self._needs_file = not (self._secret and (self._fixed or self._key))
        self._reached_s: float | None = None
        self._distrusted = ""
        self._connected_store: Any = None

    def __str__(self) -> str:
        if self._needs_file:
            return str(self._files[0])
        return host_and_port(*self._fixed) if self._fixed else "torchrun's store"

    @property
    def choices(self) -> str:
        """What to set where agents may lack a common secret; "" where that is not the reason."""
        if self._secret or self._local:
            return ""
        address = "" if self._fixed or self._key else f"{ADVICE}; and "
        return f"\nif hosts share no folder, {address}{CHOICES}"

    def listen(self) -> tuple[list[socket.socket], Address]:
        """Open agent 0's sockets and publish its address; raise JoinError where that fails."""
        port = self._fixed[1] if self._fixed else 0
        try:
            listeners = [open_listener(port, self._local)]
        except OSError as error:
            reason = error.strerror or error
            raise JoinError(f"agent 0 cannot listen at port {port}: {reason}; {ADVICE}") from None
        address = own_address(listeners[0].getsockname()[1], self._local, self._secret)
        if self._fixed:
            address = replace(address, hosts=[self._fixed[0], *address.hosts])
        if self._socket and (private := open_private_listener(self._socket)):
            listeners.append(private)
            address = replace(address, hosts=[*address.hosts, str(self._socket)])
        try:
            if self._needs_file:
                token = "" if self._secret else address.token
                self._write(json.dumps(asdict(replace(address, token=token))))
            if self._key:
                self._store().set(self._key, json.dumps(asdict(signed(address))))
        except (OSError, RuntimeError) as error:  # torch raises RuntimeErrors
            close_all(listeners)
            self.leave()
            problem = f"agent 0 cannot leave its address at {self}: {error}"
            raise JoinError(f"{problem}{self.choices}") from None
        if self._is_guessable:
            log.warning("trust_network=true: anyone who reaches port %d can join", address.port)
        return listeners, address

    def find(self) -> list[Address]:
        """Return where agent 0 may be; a file may be of an earlier start.

        Raise JoinError where agent 0 is there, but this agent does not know its secret.
        """
        if not self._needs_file:
            return [found] if (found := self._public()) else []
        read = list(self._read())
        known = [replace(each, token=each.token or self._secret) for each in read]
        if usable := [each for each in known if each.token]:
            return usable
        if self._reached_s is None and (read or self._is_agent_0_there()):
            self._reached_s = time.monotonic()
        if self._reached_s is not None and time.monotonic() > self._reached_s + PATIENCE_S:
            why = "has a secret that is not set here" if read else f"left no file {self} here"
            raise JoinError(f"no secret in common: agent 0 {why}; {CHOICES}")
        return []

    def leave(self) -> None:
        """Remove agent 0's address."""
        published = self._files if self._needs_file else []
        for path in filter(None, (*published, self._socket)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _write(self, text: str) -> None:
        """Write the file to the first folder that can keep it for this user alone."""
        problems = []
        for path in self._files:
            try:
                if path.parent == temporary_folder():
                    trust.make_private_folder(path.parent)
                write_whole(path, text)
                own_text(path)  # Some file systems have no owners, or do not keep modes.
                return
            except OSError as error:
                problems.append(error)
        raise problems[0]

    def _read(self) -> Iterator[Address]:
        for path in self._files:
            with contextlib.suppress(OSError):
                os.listdir(path.parent)  # makes NFS look whether the folder has changed
            try:
                if path.parent == temporary_folder():
                    trust.require_folder(path.parent, private=True)
                yield parse_address(own_text(path))
            except PermissionError as error:
                if str(error) != self._distrusted:
                    self._distrusted = str(error)
                    log.warning("%s", error)
            except (OSError, ValueError):  # not published yet
                continue

    def _public(self) -> Address | None:
        if self._fixed:
            host, port = self._fixed
            return Address([host], port, "", self._secret)
        try:
            if not self._store().check([self._key]):
                return None
            found = parse_address(self._store().get(self._key))
        except (RuntimeError, ValueError):  # torch raises RuntimeErrors
            return None
        address = replace(found, token=self._secret)
        told = found.token.encode(errors="surrogatepass")
        return address if hmac.compare_digest(signed(address).token.encode(), told) else None

    def _is_agent_0_there(self) -> bool:
        if self._fixed:
            with contextlib.suppress(OSError, UnicodeError):
                socket.create_connection(self._fixed, timeout=1.0).close()
                return True
        if self._key:
            with contextlib.suppress(RuntimeError):
                return bool(self._store().check([self._key]))
        return False

    def _store(self) -> Any:
        """Connect to torchrun's own store, which lives in its agent on the first node."""
        from torch.distributed import TCPStore

        if self._connected_store is None:
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            limit = timedelta(seconds=60)
            self._connected_store = TCPStore(host, port, is_master=False, timeout=limit)
        return self._connected_store


def master_address() -> tuple[str, int] | None:
    nodes = os.environ.get("SKYPILOT_NODE_IPS", "").split()
    host = os.environ.get("MASTER_ADDR") or next(iter(nodes), "")
    port = os.environ.get("MASTER_PORT") or (DEFAULT_PORT if nodes else "")
    if not host or not port:
        return None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise JoinError(f"MASTER_PORT={port}: allowed is a port's number, 1 to 65535")
    return host, int(port)


def file_name(started: LaunchContext, master: tuple[str, int] | None) -> str:
    """Return the name of the file by which the agents of one start meet, and no others.

    torchrun may give every start the same name ("none"), and hosts may share the folder.
    """
    job = re.sub(r"[^\w.-]", "_", started.job, flags=re.ASCII)[:80]
    parts = [*(master or ()), *([namespace("net")] if started.local else ())]
    if job != started.job:
        parts.append(started.job)
    mark = "-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:12] if parts else ""
    return f".agents-{started.by}-{job}{mark}"


def temporary_folder() -> Path:
    """Return a folder of this user alone, where agents of one host may meet."""
    return Path(tempfile.gettempdir()) / f"benchkit-{os.geteuid()}"


def key_of(secret: str) -> str:
    """Return the key that agents derive from the word in SECRET_VARIABLE; "" without one.

    Who poses as agent 0 gets a proof by which words can be tried: scrypt makes each try dear.
    Raise JoinError for a word that is soon found all the same, and where Python has no scrypt, as
    under FIPS.
    """
    if not secret:
        return ""
    if len(secret) < FEWEST_LETTERS:
        length = f"{len(secret)} character" + "s" * (len(secret) > 1)
        allowed = f"allowed are {FEWEST_LETTERS} and more, as from openssl rand -hex 16"
        raise JoinError(f"{SECRET_VARIABLE} has {length}; {allowed}")
    word = secret.encode(errors="surrogateescape")
    try:
        return hashlib.scrypt(word, salt=b"benchkit agents", n=1 << 14, r=8, p=1, dklen=32).hex()
    except (AttributeError, ValueError) as error:
        advice = "unset it on every host; agents then need a shared folder, or trust_network=true"
        raise JoinError(f"{SECRET_VARIABLE}: no scrypt on this host ({error}); {advice}") from None


def write_whole(path: Path, text: str) -> None:
    """Write a file that only this user may read, and that a reader sees whole or not at all.

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


def own_text(path: Path) -> bytes:
    return trust.read(path, ADDRESS_BYTES, private=True)


def until(deadline: float, attempt: Callable[[], Any]) -> Any:
    """Repeat `attempt` until its result is not None; return None where the deadline passes."""
    while True:
        result = attempt()
        if result is not None or time.monotonic() > deadline:
            return result
        time.sleep(POLL_S)

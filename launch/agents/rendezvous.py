"""The rendezvous of agents: agent 0 publishes its address, and the others look it up.

| class | used where | address | secret |
|---|---|---|---|
| `FixedAddress` | MASTER_ADDR and MASTER_PORT are set | by these | preset |
| `TorchrunStore` | torchrun | in its store | preset |
| `SharedFile` | no secret or no address is preset | in a file | in the file |
| `OneHost` | the launcher reports that all agents are on one host | in a file | in the file |

A `SharedFile` publishes in one of the first two as well: an agent that does not see the file then
still detects that agent 0 has started.
"""

import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from launch import trust
from launch.agents.address import (
    ADDRESS_BYTES,
    LOOPBACK,
    Address,
    Endpoint,
    names_of_host,
    open_listener,
    open_local_listener,
    open_private_listener,
    parse_address,
)
from launch.agents.messages import JoinError
from launch.agents.secret import CHOICES, Secret, known_secret
from launch.host import namespace
from launch.launcher_env import LaunchContext

DEFAULT_PORT = "29500"
PATIENCE_S = 10.0
"""Time limit until agent 0's file is visible here, once agent 0 is known to have started."""
ADVICE = "set MASTER_ADDR and MASTER_PORT, to a host and a free port of agent 0"
log = logging.getLogger(__name__)


class AgentRendezvous(ABC):
    """The place where agent 0 publishes its address, and the other agents look it up.

    Attributes:
        secret: the preset secret of all agents.
        master: the preset host and port of agent 0; None without.
        advice: which variables to set where agents may lack a common secret, after a line break;
            else "".
    """

    master: Endpoint | None = None
    advice = ""

    def __init__(self, secret: Secret) -> None:
        self.secret = secret

    @abstractmethod
    def publish(self, address: Address) -> None:
        """Publish agent 0's address; raise OSError or RuntimeError where that fails."""

    @abstractmethod
    def find(self) -> list[Address]:
        """Return candidate addresses of agent 0; one may be stale, from an earlier start.

        Raise JoinError if agent 0 has started but this agent does not know its secret.
        """

    def leave(self) -> None:
        """Remove agent 0's address where it would outlive agent 0."""
        return

    def open_listeners(self) -> tuple[list[socket.socket], Address]:
        """Open agent 0's sockets; raise OSError where that fails."""
        listener = open_listener(self.master.port if self.master else 0)
        hosts = [self.master.host] if self.master else []
        return [listener], self.address(listener, [*hosts, *names_of_host()])

    def address(self, listener: socket.socket, hosts: list[str], path: str = "") -> Address:
        token = self.secret.key or secrets.token_hex(32)
        return Address(hosts, listener.getsockname()[1], namespace("net"), token, path)

    @contextlib.contextmanager
    def listen(self) -> Iterator[tuple[list[socket.socket], Address]]:
        """Open agent 0's sockets and publish its address; raise JoinError where that fails."""
        with contextlib.ExitStack() as exit_stack:
            try:
                listeners, address = self.open_listeners()
            except OSError as error:
                port = self.master.port if self.master else 0
                problem = f"agent 0 cannot listen at port {port}: {error.strerror or error}"
                raise JoinError(f"{problem}; {ADVICE}") from None
            for listener in listeners:
                exit_stack.enter_context(listener)
            exit_stack.callback(self.leave)
            try:
                self.publish(address)
            except (OSError, RuntimeError) as error:  # torch raises RuntimeError
                problem = f"agent 0 cannot leave its address at {self}: {error}"
                raise JoinError(f"{problem}{self.advice}") from None
            if self.secret.is_guessable:
                log.warning("trust_network=true: anyone who reaches port %d can join", address.port)
            yield listeners, address


class FixedAddress(AgentRendezvous):
    """MASTER_ADDR and MASTER_PORT: agent 0 listens there, so there is nothing to publish."""

    def __init__(self, secret: Secret, master: Endpoint) -> None:
        super().__init__(secret)
        self.master: Endpoint = master

    def __str__(self) -> str:
        return str(self.master)

    def publish(self, address: Address) -> None:
        pass

    def find(self) -> list[Address]:
        return [Address([self.master.host], self.master.port, "", self.secret.key)]

    def is_announced(self) -> bool:
        """Return whether any process listens there, whatever its secret."""
        with contextlib.suppress(OSError, UnicodeError):
            self.master.dial(1.0).close()
            return True
        return False


class TorchrunStore(AgentRendezvous):
    """torchrun's TCPStore on the first node, which every user can read and write."""

    def __init__(self, secret: Secret, job: str) -> None:
        super().__init__(secret)
        self._key = f"benchkit/agents/{job}"
        self._store: Any = None

    def __str__(self) -> str:
        return "torchrun's store"

    def publish(self, address: Address) -> None:
        self._open_store().set(self._key, address.sign().to_json())

    def find(self) -> list[Address]:
        """Return the address in the store if it is signed with our secret."""
        try:
            if not self._open_store().check([self._key]):
                return []
            published = parse_address(self._open_store().get(self._key))
        except (RuntimeError, ValueError):  # torch raises RuntimeError
            return []
        address = replace(published, token=self.secret.key)
        signature = published.token.encode(errors="surrogatepass")
        is_ours = hmac.compare_digest(address.sign().token.encode(), signature)
        return [address] if is_ours else []

    def is_announced(self) -> bool:
        with contextlib.suppress(RuntimeError):
            return bool(self._open_store().check([self._key]))
        return False

    def _open_store(self) -> Any:
        from torch.distributed import TCPStore

        if self._store is None:
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            limit = timedelta(seconds=60)
            self._store = TCPStore(host, port, is_master=False, timeout=limit)
        return self._store


class SharedFile(AgentRendezvous):
    """A file that only this user can open; it holds the secret if none is preset.

    `announced_by` shows agents that do not see the file that agent 0 has started.
    """

    def __init__(
        self,
        secret: Secret,
        paths: Sequence[Path],
        announced_by: FixedAddress | TorchrunStore | None = None,
    ) -> None:
        super().__init__(secret)
        self.master = announced_by.master if announced_by else None
        self._paths = paths
        self._announced_by = announced_by
        self._reached_s: float | None = None
        self._distrusted = ""
        if not secret.key:
            address = "" if announced_by else f"{ADVICE}; and "
            self.advice = f"\nif hosts share no folder, {address}{CHOICES}"

    def __str__(self) -> str:
        return str(self._paths[0])

    def publish(self, address: Address) -> None:
        """Write the file to the first folder that can keep it private to this user."""
        text = replace(address, token="" if self.secret.key else address.token).to_json()
        problems = []
        for path in self._paths:
            try:
                if path.parent == temporary_folder():
                    trust.make_private_folder(path.parent)
                write_private_file(path, text)
                read_private(path)  # Some file systems have no owners, or do not keep modes.
                break
            except OSError as error:
                problems.append(error)
        else:
            raise problems[0]
        if self._announced_by:
            self._announced_by.publish(address)

    def find(self) -> list[Address]:
        published = list(self._read())
        candidates = [
            replace(address, token=address.token or self.secret.key) for address in published
        ]
        if usable := [address for address in candidates if address.token]:
            return usable
        if self._reached_s is None and (published or self._is_announced()):
            self._reached_s = time.monotonic()
        if self._reached_s is not None and time.monotonic() > self._reached_s + PATIENCE_S:
            why = "has a secret that is not set here" if published else f"left no file {self} here"
            raise JoinError(f"no secret in common: agent 0 {why}; {CHOICES}")
        return []

    def leave(self) -> None:
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _is_announced(self) -> bool:
        return self._announced_by is not None and self._announced_by.is_announced()

    def _read(self) -> Iterator[Address]:
        for path in self._paths:
            with contextlib.suppress(OSError):
                os.listdir(path.parent)  # makes NFS look whether the folder has changed
            try:
                if path.parent == temporary_folder():
                    trust.require_folder(path.parent, private=True)
                yield parse_address(read_private(path))
            except PermissionError as error:
                if str(error) != self._distrusted:
                    self._distrusted = str(error)
                    log.warning("%s", error)
            except (OSError, ValueError):  # not published yet
                continue


class OneHost(SharedFile):
    """A file as of SharedFile, or one in a private folder beside agent 0's Unix socket."""

    def __init__(self, secret: Secret, path: Path) -> None:
        super().__init__(secret, [path, temporary_folder() / path.name])
        self.advice = ""
        digest = hashlib.sha256(path.name.encode()).hexdigest()
        self._socket = temporary_folder() / digest[:16]

    def open_listeners(self) -> tuple[list[socket.socket], Address]:
        listeners = [open_local_listener()]
        private = open_private_listener(self._socket)
        path = str(self._socket) if private else ""
        address = self.address(listeners[0], [LOOPBACK], path)
        return [*listeners, *filter(None, [private])], address

    def leave(self) -> None:
        super().leave()
        with contextlib.suppress(OSError):
            self._socket.unlink(missing_ok=True)


def choose_rendezvous(
    context: LaunchContext, folder: Path, trusts_network: bool = False
) -> AgentRendezvous:
    """Return the rendezvous of the agents of one start; raise JoinError if there is none.

    `trusts_network`: accept a guessable secret between hosts.
    """
    master = master_address()
    if not (context.job or master):
        raise JoinError(
            f"{context.launcher} does not say which processes belong together: {ADVICE}"
        )
    secret = known_secret(context, master, trusts_network)
    path = folder / file_name(context, master)
    if context.is_one_host:
        return OneHost(secret, path)
    announced_by: FixedAddress | TorchrunStore | None
    if context.launcher == "torchrun":
        announced_by = TorchrunStore(secret, context.job)
    else:
        announced_by = FixedAddress(secret, master) if master else None
    if announced_by and secret.key:
        return announced_by
    return SharedFile(secret, [path], announced_by)


def master_address() -> Endpoint | None:
    nodes = os.environ.get("SKYPILOT_NODE_IPS", "").split()
    host = os.environ.get("MASTER_ADDR") or next(iter(nodes), "")
    port = os.environ.get("MASTER_PORT") or (DEFAULT_PORT if nodes else "")
    if not host or not port:
        return None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise JoinError(f"MASTER_PORT={port}: allowed is a port's number, 1 to 65535")
    return Endpoint(host, int(port))


def file_name(context: LaunchContext, master: Endpoint | None) -> str:
    """Return the name of the rendezvous file, unique to one start.

    torchrun may give every start the same name ("none"), and hosts may share the folder.
    """
    job = re.sub(r"[^\w.-]", "_", context.job, flags=re.ASCII)[:80]
    parts = [str(master)] if master else []
    if context.is_one_host:
        parts.append(namespace("net"))
    if job != context.job:
        parts.append(context.job)
    suffix = "-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:12] if parts else ""
    return f".agents-{context.launcher}-{job}{suffix}"


def temporary_folder() -> Path:
    """Return this user's private folder for the rendezvous of agents on one host."""
    return Path(tempfile.gettempdir()) / f"benchkit-{os.geteuid()}"


def write_private_file(path: Path, text: str) -> None:
    """Write a file atomically, readable by this user only.

    Others may share the folder, so it is always a new file (O_EXCL, mode 0600).
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


def read_private(path: Path) -> bytes:
    return trust.read(path, ADDRESS_BYTES, private=True)

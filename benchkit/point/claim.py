"""One sweep at a time in a folder: two that write into one folder would overwrite each other's records."""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from benchkit.errors import ConfigError
from launch.topology import boot_id, node_name

FILE_NAME = ".owner"
POINT_FILE = ".point-owner"
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""Errors of file systems without locks, such as Lustre as it is often mounted."""


@dataclass(frozen=True)
class Owner:
    """The process that works in a folder."""

    host: str
    boot_id: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The owner that this process would be."""
    return Owner(node_name(), boot_id(), os.getpid())


@contextlib.contextmanager
def claimed(folder: Path, name: str = FILE_NAME, anywhere: bool = False) -> Iterator[None]:
    """Holds a folder for this process.

    The kernel's lock on a file tells the living from the dead. Not every shared file system hands locks from host to
    host, and some know none, so the file also names its owner: one on another host may be alive.

    Args:
        folder: exists.
        name: of the file.
        anywhere: whether an owner on another host counts as dead.

    Raises:
        ConfigError: another process works in the folder, or may do so.
        OSError: the folder cannot be written to.
    """
    path, me = folder / name, this_process()
    with locked(path) as file:
        if file is None:
            raise ConfigError(
                f"{folder}: {owner_of(path) or 'another process'} works in it; allowed is a folder of its own"
            )
        before = owner_of(path)
        if before and before.host != me.host and not anywhere:
            raise ConfigError(f"{folder}: {before} may still work in it; if that has ended, remove {path}")
        file.truncate(0)
        file.write(json.dumps(asdict(me)))
        file.flush()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()  # while we hold the lock: nobody else can have taken it


@contextlib.contextmanager
def locked(path: Path) -> Iterator[TextIO | None]:
    """The file, created where it is not there and locked; None where another process has locked it.

    Nobody else may open it: to lock a file, it is enough to read it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                yield None if is_alive(owner_of(path)) else file
                return
            if is_still(path, file):
                yield file
                return


def is_alive(owner: Owner | None) -> bool:
    """Whether an owner's process runs on this host since it wrote its name."""
    me = this_process()
    return owner is not None and owner.boot_id == me.boot_id and Path(f"/proc/{owner.pid}").exists()


def is_still(path: Path, file: TextIO) -> bool:
    """Whether a path still leads to an open file; its owner may have removed it while we waited for the lock."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    return False


def owner_of(path: Path) -> Owner | None:
    """The owner that a file names; None where it names none."""
    try:
        return Owner(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None

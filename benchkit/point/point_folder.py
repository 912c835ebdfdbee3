"""Claim folders of sweeps and points, archive earlier attempts, store records.

A folder has one owner: two sweeps in one folder would overwrite each other's records. A record that
cannot be written there is written to a temporary folder.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, TextIO

from msgspec import Meta

from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.record import Record
from launch import trust
from launch.agents.messages import SweepEnds
from launch.host import boot_id, node_name

FILE_NAME = ".owner"
POINT_FILE = ".point-owner"
NO_LOCKS = (*files.REFUSED, errno.ENOLCK)
"""Errors of file systems without locks, such as Lustre as it is often mounted."""
RETRY_AFTER_S = (0.1, 1.0, 3.0)
log = logging.getLogger("benchkit")


@contextlib.contextmanager
def open_point_folder(folder: Path, first: bool) -> Iterator[int]:
    """Claim a point's folder and yield the number of this attempt at the point.

    Only agent 0 claims the folder and archives an earlier attempt, which may still run in another
    job. Raises SweepEnds if the disk is full or not writable, ConfigError if another process uses
    the folder.
    """
    make_folder(folder)
    if not first:
        yield 1
        return
    with claim_folder(folder, POINT_FILE, anywhere=True):
        yield archive_attempt(folder)


def make_folder(folder: Path) -> None:
    """Make a folder for points; raise SweepEnds if the disk is full or not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.require_space(folder)
    except OSError as error:
        raise SweepEnds(f"{folder}: {error.strerror}") from None


def archive_attempt(folder: Path) -> int:
    """Rename the files of an earlier attempt; return the number of the next one."""
    names = [re.match(r"attempt_(\d+)\.", path.name) for path in folder.glob("attempt_*.json")]
    numbers = [int(name[1]) for name in names if name]
    number = 1 + max(numbers, default=0)
    if not (folder / files.FILE_NAME).exists():
        return number
    prefix = f"attempt_{number}"
    for path in [
        *folder.glob("*rank_*"),
        *folder.glob("alone_*"),
        *folder.glob("fresh"),
    ]:  # logs and traces
        if not path.name.startswith("attempt_"):
            path.rename(folder / f"{prefix}_{path.name}")
    # The record is renamed last: then all other files have their new names.
    (folder / files.FILE_NAME).rename(folder / f"{prefix}.json")
    return number + 1


def save_or_explain(record: Record, folder: Path) -> str | None:
    """Write a record; return None, or why that failed and where the record is instead."""
    try:
        write_with_retries(record, folder)
    except OSError as error:
        path = write_to_temporary_folder(record)
        location = f"; it is in {path}" if path else ""
        return f"{folder}: record not written: {error.strerror or error}{location}"
    return None


def write_with_retries(record: Record, folder: Path) -> None:
    """Write a record to a folder that may have been deleted; retry for some seconds."""
    for pause_s in RETRY_AFTER_S:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.write(record, folder)
            return
        except OSError:
            time.sleep(pause_s)
    files.write(record, folder)


def write_to_temporary_folder(record: Record) -> Path | None:
    """Write a record to a new temporary folder; return its path, or None if that fails, too."""
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="benchkit-record-"))
        try:
            return files.write(record, folder)
        except OSError:
            folder.rmdir()
    return None


@dataclass(frozen=True)
class Owner:
    host: str
    boot_id: str
    pid: Annotated[int, Meta(ge=1, lt=2**31)]

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    return Owner(node_name(), boot_id(), os.getpid())


@contextlib.contextmanager
def claim_folder(folder: Path, name: str = FILE_NAME, anywhere: bool = False) -> Iterator[None]:
    """Claim a folder for this process; raise ConfigError if another process may use it.

    A file lock distinguishes a live owner from a dead one. Not every shared file system has locks
    across hosts, and some have none. Therefore the file also names its owner: an owner on another
    host may be alive, unless `anywhere` counts it as dead.
    """
    path = folder / name
    me = this_process()
    with lock_file(path) as file:
        previous = owner_of(path)
        if previous and previous.host != me.host:
            if file and is_ended_container(previous, file):
                log.warning("%s: taken over from %s, which has ended", folder, previous)
            elif not (file and anywhere):
                raise ConfigError(
                    f"{folder}: {previous} may still work in it; if that has ended, remove {path}"
                )
        elif file is None:
            owner = previous or "another process"
            raise ConfigError(f"{folder}: {owner} works in it; allowed is a folder of its own")
        file.truncate(0)
        file.write(json.dumps(asdict(me)))
        file.flush()
        try:
            yield
        finally:
            # The lock is still held, so the file is not another process's.
            with contextlib.suppress(OSError):
                path.unlink()


def is_ended_container(owner: Owner, lock: TextIO) -> bool:
    """Return whether an owner on a host of another name has ended, now that its lock is ours.

    Under the same kernel that host is a container. FUSE mounts have separate locks, which show
    nothing about other containers.
    """
    kind = trust.file_system(os.fstat(lock.fileno()).st_dev)
    return owner.boot_id == boot_id() and not kind.startswith("fuse")


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[TextIO | None]:
    """Yield the locked file, created if missing, or None if another process has locked it.

    Only its user may open the file, because a process that can read a file can also lock it. Raises
    ConfigError if the path is a link, a pipe or a device.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    while True:
        try:
            files.require_regular(path)
        except FileNotFoundError:
            pass  # it is created
        except ValueError as error:
            raise ConfigError(f"{error}; remove it") from None
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
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
            if is_same_file(path, file):
                yield file
                return


def is_alive(owner: Owner | None) -> bool:
    """Return whether an owner's process may still run under this kernel, by its pid.

    Processes of another container have their own pids, and count as alive.
    """
    me = this_process()
    if owner is None or owner.boot_id != me.boot_id:
        return False
    if owner.host != me.host:
        return True
    try:
        os.kill(owner.pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def is_same_file(path: Path, file: TextIO) -> bool:
    """Return False if the owner removed the file while this process waited for the lock."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    return False


def owner_of(path: Path) -> Owner | None:
    try:
        return files.read_json(path, Owner)
    except (OSError, ValueError):
        return None

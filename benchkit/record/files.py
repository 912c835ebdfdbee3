"""Read and write record.json and other files that must survive a crash of the machine.

A folder of records is untrusted. Nothing is written through a link in it, and no pipe, device or
endless file is read.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from benchkit.record.record import Record, decode, from_json
from launch import trust

FILE_NAME = "record.json"
Kind = TypeVar("Kind")
MOST_BYTES = 10**9
"""Size limit of a file that is read: a larger one is no record, and fills the memory."""
REFUSED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM)
"""Errors of a kernel, a file system or a sandbox without support for a call."""
FREE_BYTES = 16 * 2**20
"""Free disk space that a point needs to start; a record takes about 50 KB per 1,000 samples."""


def write(record: Record, folder: Path) -> Path:
    """Write a record into a point's folder and return its path.

    The record of a running point is not flushed: a crash of the machine loses its samples anyway.
    Raises TypeError for values that JSON cannot represent.
    """
    write_atomically(folder / FILE_NAME, record.to_json(), durable=record.status != "running")
    return folder / FILE_NAME


def write_atomically(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a file atomically: a reader sees the old content or the new one.

    A link, a pipe or a file with hard links is replaced, not written to. If `durable`, that also
    holds after a crash of the machine; it costs milliseconds.
    """
    part = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                flush(file.fileno())
        part.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)  # errors of write() have no file name
        raise
    if durable:
        fsync_folder(path.parent)


def flush(descriptor: int) -> None:
    """Flush an open file to disk, if the file system supports that."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in REFUSED:
            raise


def fsync_folder(folder: Path) -> None:
    """Flush the file names of a folder to disk, if the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_plain_folder(folder: Path) -> Path:
    """Make a folder unless it exists; its parent exists. Raise OSError for a link."""
    refuse_link(folder)
    folder.mkdir(exist_ok=True)
    return folder


def refuse_link(folder: Path) -> None:
    """Raise OSError if a folder is a link."""
    if folder.is_symlink():
        raise OSError(f"{folder}: a link; allowed is a folder")


def find_special_files(path: Path | str) -> Iterator[str]:
    """Yield the links, pipes and devices at a path or below it."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        if not stat.S_ISREG(mode):
            yield os.fspath(path)
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                yield from find_special_files(entry.path)


def require_regular(path: Path | str, opened: int | None = None) -> os.stat_result:
    """Return the status of a regular file of limited size; else raise ValueError.

    A pipe or a device is never opened, because a read may block forever. Links are refused; callers
    resolve those that they trust. `opened` is the descriptor of an open file.
    """
    status = os.lstat(path) if opened is None else os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        suffix = " but a link" if stat.S_ISLNK(status.st_mode) else ""
        raise ValueError(f"{path}: not a regular file{suffix}")
    if status.st_size > MOST_BYTES:
        size = f"{status.st_size / 1e9:.3g} GB"
        raise ValueError(f"{path}: {size}; files of at most {MOST_BYTES / 1e9:g} GB are read")
    return status


def read_regular(path: Path | str) -> bytes:
    """Read a file that `require_regular` accepts, even if it is replaced meanwhile."""
    require_regular(path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        return file.read(require_regular(path, file.fileno()).st_size)


def read_json(path: Path, kind: type[Kind]) -> Kind:
    """Read a JSON file as an object of a type, all of its text printable.

    Raises OSError, or ValueError if it is not a regular file, not JSON, or of another type.
    """
    return decode(read_regular(path), kind)


def read_trusted(path: Path, kind: type[Kind]) -> Kind:
    """Read a JSON file that only this user can have written, because its content is executed."""
    return decode(trust.read(path, MOST_BYTES), kind)


def read(path: Path) -> Record:
    try:
        content = read_regular(path)
    except OSError as error:
        raise ValueError(f"{path}: not readable ({error})") from None
    return parse(content, path)


def parse(content: bytes, path: Path) -> Record:
    try:
        return from_json(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_from(folder: Path) -> Record | None:
    """Return the record in a point's folder; None without a readable one."""
    with contextlib.suppress(ValueError):
        return read(folder / FILE_NAME)
    return None


def numeric_sort_key(path: Path | str) -> list[tuple[int, str]]:
    """Return a sort key of a path, by which the folder 2 comes before the folder 10."""
    parts = os.fspath(path).split(os.sep)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def require_space(folder: Path) -> None:
    """Raise OSError if the disk is too full for a point; some file systems count no bytes."""
    try:
        total, _, free = shutil.disk_usage(folder)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return
    if total and free < FREE_BYTES:
        needed = f"{FREE_BYTES / 2**20:.0f} MiB"
        raise OSError(
            errno.ENOSPC, f"{free / 2**20:.1f} MiB of disk are free; a point needs {needed}"
        )

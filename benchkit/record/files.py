"""Reads and writes record.json, and what else must survive a crash of the machine."""

import contextlib
import os
import shutil
from pathlib import Path

from benchkit.record.record import Record
from benchkit.record.versions import from_json

FILE_NAME = "record.json"
FREE_BYTES = 16 * 2**20
"""Free disk space that a point needs to start; a record takes about 50 KB per 1,000 samples."""


def write(record: Record, folder: Path) -> Path:
    """Writes a record into a point's folder and returns its path.

    The record of a point that is not done may be lost with the machine, as its samples are.

    Raises:
        OSError: the file cannot be written.
        TypeError: the record holds a value that JSON cannot represent.
    """
    write_whole(folder / FILE_NAME, record.to_json(), durable=record.status != "running")
    return folder / FILE_NAME


def write_whole(path: Path, content: bytes, durable: bool = True) -> None:
    """Writes a file atomically: a reader finds the old content or the new one.

    Args:
        path: of the file.
        content: all of it.
        durable: whether that also holds after the machine has crashed; it costs milliseconds.
    """
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    if durable:
        flush_names(path.parent)


def flush_names(folder: Path) -> None:
    """Flushes the file names of a folder to disk, where the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path) -> Record:
    """Reads a record of any version that `from_json` knows.

    Raises:
        ValueError: the file is not readable, or not a record; the message says why.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: not readable ({error})") from None
    return parse(content, path)


def parse(content: bytes, path: Path) -> Record:
    """Parses the content of a record's file.

    Raises:
        ValueError: the content is not a record of a readable version; the message names the file.
    """
    try:
        return from_json(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_in(folder: Path) -> Record | None:
    """Returns the record in a point's folder; None without a readable one."""
    with contextlib.suppress(ValueError):
        return read(folder / FILE_NAME)
    return None


def by_number(path: Path | str) -> list[tuple[int, str]]:
    """Returns a sorting key of a path that places the folder 2 before the folder 10."""
    parts = os.fspath(path).split(os.sep)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def shortage(folder: Path) -> str:
    """Returns why a folder has too little disk space for another point; "" where it has enough."""
    free = shutil.disk_usage(folder).free
    if free >= FREE_BYTES:
        return ""
    needed = f"{FREE_BYTES / 2**20:.0f} MiB"
    return f"{folder}: {free / 2**20:.1f} MiB of disk are free; a point needs {needed}"

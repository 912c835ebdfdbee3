"""Writes and reads record.json, which holds everything about one point.

An agent writes the record and `analysis` reads it, so this module imports neither torch nor Hydra.
docs/record.md documents the keys. SCHEMA_VERSION rises when a key changes its meaning or goes.
"""

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import orjson

SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)
"""Version 1 has `block_iterations`, the length of all blocks of a case, in place of `blocks`."""
FILE_NAME = "record.json"
STATUSES = (
    "running",      # the agent works on it, or was killed before it could store another status
    "ok",
    "invalid",      # a wrong result
    "oom",          # out of memory
    "timeout",
    "crash",        # a rank died by a signal
    "error",        # a rank raised an exception
    "unavailable",  # this machine has no such backend or device
    "skipped",      # known before the run not to fit
    "interrupted",  # by Ctrl-C or SIGTERM
    "preempted",    # by Slurm, for a job of higher priority
    "cancelled",    # by scancel
)  # fmt: skip
UNFINISHED = ("running", "interrupted", "preempted", "cancelled")
"""Statuses of a point that was cut off; it runs again with its job, or with its resumed sweep."""
FINAL = tuple(status for status in STATUSES if status not in ("running", "preempted", "cancelled"))
"""Statuses that a submitted point keeps until the sweep is resumed."""
HARMLESS = ("ok", "unavailable", "skipped")
"""Statuses that do not make a sweep fail."""

FREE_BYTES = 16 * 2**20
"""Free disk space that a point needs to start; a record takes about 50 KB per 1,000 samples."""
VOLATILE_KEYS = (
    "timeout_s", "join_timeout_s", "host_wait_s", "max_failures", "on_end", "private_network",
    "hardware.peak_tflop_per_s", "explain", "workloads",
)  # fmt: skip
"""Configuration keys that do not change what is measured."""


def point_id(config: dict[str, Any], world_size: int) -> str:
    """Returns the identity of a point: 12 hexadecimal digits of the hash of its configuration.

    Args:
        config: the resolved configuration; volatile keys do not count.
        world_size: number of ranks, which `config` may leave to `auto`.
    """
    return digest({**without_volatile(config), "world_size": world_size})


def without_volatile(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns a configuration without VOLATILE_KEYS.

    Args:
        config: the configuration, or a group of it.
        prefix: dotted name of that group, such as "hardware."; "" for the whole configuration.
    """
    return {
        name: without_volatile(value, f"{prefix}{name}.") if isinstance(value, dict) else value
        for name, value in config.items()
        if prefix + name not in VOLATILE_KEYS
    }


def digest(value: Any) -> str:
    """Returns 12 hexadecimal digits of the SHA-256 hash of plain data."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def write(record: dict[str, Any], folder: Path) -> Path:
    """Writes a record into a point's folder and returns its path.

    Raises:
        OSError: the file cannot be written.
        TypeError: the record holds a value that JSON cannot represent.
    """
    write_whole(folder / FILE_NAME, orjson.dumps(record))
    return folder / FILE_NAME


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file atomically.

    A reader finds the old content or the new one and never half of it, even after the machine
    has crashed.
    """
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    flush_names(path.parent)


def flush_names(folder: Path) -> None:
    """Flushes the file names of a folder to disk, where the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path) -> dict[str, Any]:
    """Reads a record.

    Raises:
        ValueError: the file is not readable, or not a record; the message says why.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: not readable ({error})") from None
    return parse(content, path)


def read_in(folder: Path) -> dict[str, Any] | None:
    """Returns the record in a point's folder; None without a readable one."""
    with contextlib.suppress(ValueError):
        return read(folder / FILE_NAME)
    return None


def parse(content: bytes, path: Path) -> dict[str, Any]:
    """Parses the content of a record's file.

    Args:
        content: what the file holds.
        path: the file, for the message of an error.

    Raises:
        ValueError: the content is not a record of a readable version; the message says why.
    """
    try:
        record = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ValueError(f"{path}: not a benchkit record (no schema_version)")
    if record["schema_version"] not in READABLE_VERSIONS:
        allowed = ", ".join(map(str, READABLE_VERSIONS))
        version = record["schema_version"]
        raise ValueError(f"{path}: record version {version}, this benchkit reads {allowed}")
    return record


def by_number(path: Path) -> list[tuple[int, str]]:
    """Returns a sorting key of a path that places the folder 2 before the folder 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in path.parts]


def shortage(folder: Path) -> str:
    """Returns why a folder has too little disk space for another point; "" where it has enough."""
    free = shutil.disk_usage(folder).free
    if free >= FREE_BYTES:
        return ""
    needed = f"{FREE_BYTES / 2**20:.0f} MiB"
    return f"{folder}: {free / 2**20:.1f} MiB of disk are free; a point needs {needed}"

"""record.json: everything about one point, written by its agent, read by analysis; hence no torch and no hydra here.

Keys and their meaning are documented in docs/record.md; SCHEMA_VERSION rises when one changes its meaning or goes.
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
    "running",      # the agent is at it, or was killed before it could say more
    "ok",
    "invalid",      # a wrong result
    "oom",          # out of memory
    "timeout",
    "crash",        # a rank died by a signal
    "error",        # a rank raised an exception
    "unavailable",  # no such backend or device here
    "skipped",      # known beforehand not to fit
    "interrupted",  # Ctrl-C, or SIGTERM
    "preempted",    # by Slurm, for a job that matters more
    "cancelled",    # by scancel
)  # fmt: skip
UNFINISHED = ("running", "interrupted", "preempted", "cancelled")
"""Statuses of a point that was cut off: it runs again when its job starts again or its sweep is resumed."""
FINAL = tuple(status for status in STATUSES if status not in ("running", "preempted", "cancelled"))
"""Statuses that a submitted point keeps unless somebody resumes the sweep."""
HARMLESS = ("ok", "unavailable", "skipped")
"""Statuses that do not make a sweep fail."""

FREE_BYTES = 16 * 2**20
"""Room on the disk that a point is started with; a record takes some 50 KB per 1,000 samples."""
VOLATILE_KEYS = (
    "timeout_s", "join_timeout_s", "host_wait_s", "max_failures", "on_end", "private_network",
    "hardware.peak_tflop_per_s", "explain", "workloads",
)  # fmt: skip
"""Configuration keys that do not change what is measured."""


def point_id(config: dict[str, Any], world_size: int) -> str:
    """The identity of a point: 12 hexadecimal digits of the hash of its resolved configuration."""
    return digest({**without_volatile(config), "world_size": world_size})


def without_volatile(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration without its volatile keys."""
    return {
        name: without_volatile(value, f"{prefix}{name}.") if isinstance(value, dict) else value
        for name, value in config.items()
        if prefix + name not in VOLATILE_KEYS
    }


def digest(value: Any) -> str:
    """12 hexadecimal digits of the hash of plain data."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def write(record: dict[str, Any], folder: Path) -> Path:
    """Writes the record into a point's folder; raises OSError, and TypeError for what JSON cannot hold."""
    write_whole(folder / FILE_NAME, orjson.dumps(record))
    return folder / FILE_NAME


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader, or a machine that crashes, has the old one or the new one, never half of one."""
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
    """Makes the names of the files in a folder survive a crash of the machine, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path) -> dict[str, Any]:
    """Reads a record; raises ValueError that says why where the file is none of ours."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: not readable ({error})") from None
    return parse(content, path)


def read_in(folder: Path) -> dict[str, Any] | None:
    """The record in a point's folder; None where there is none that can be read."""
    with contextlib.suppress(ValueError):
        return read(folder / FILE_NAME)
    return None


def parse(content: bytes, path: Path) -> dict[str, Any]:
    """The record that a file holds; raises ValueError that says why where it is none of ours."""
    try:
        record = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ValueError(f"{path}: not a benchkit record (no schema_version)")
    if record["schema_version"] not in READABLE_VERSIONS:
        allowed = ", ".join(map(str, READABLE_VERSIONS))
        raise ValueError(f"{path}: record version {record['schema_version']}, this benchkit reads {allowed}")
    return record


def by_number(path: Path) -> list[tuple[int, str]]:
    """Sorts paths so that the folder 2 comes before the folder 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in path.parts]


def shortage(folder: Path) -> str:
    """Why there is too little room for another point in a folder; "" where there is enough."""
    free = shutil.disk_usage(folder).free
    if free >= FREE_BYTES:
        return ""
    return f"{folder}: {free / 2**20:.1f} MiB of disk are free; a point needs {FREE_BYTES / 2**20:.0f} MiB"

"""Keeps what was derived from the records of a sweep in one file beside them.

The raw samples in the records remain what counts. An entry is used only for the file that it was
derived from: without reading the file where its size, its inode and the times at which its content
and its inode last changed are still the same, else where its content has the same digest. The
whole cache is used only by the code that wrote it. A cache that is damaged, foreign or not readable
is like none, and a folder that cannot be written to has none.
"""

import contextlib
import functools
import hashlib
import os
import time
from pathlib import Path

import msgspec
import numpy as np

from analysis.records.derive import Derived
from benchkit.record.files import write_whole

FILE_NAME = ".analysis_cache"
SETTLED_NS = 2 * 10**9
"""A file that changed less than this before it was read may change again without another time."""
SOURCES = (
    "analysis/records", "benchkit/api/details.py", "benchkit/errors.py", "benchkit/record",
    "benchkit/statistics", "benchkit/version.py",
)  # fmt: skip
"""All code that figures are derived by."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """Tells a file from any other, and from itself after a change."""

    size: int
    inode: int
    modified_ns: int
    changed_ns: int

    @staticmethod
    def of(status: os.stat_result) -> "Stamp | None":
        """Return the stamp of a file that is about to be read; None where it changed just now."""
        if time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns) < SETTLED_NS:
            return None
        return Stamp(status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What was derived from one file; the stamp is None where only its digest tells it."""

    stamp: Stamp | None
    derived: Derived


decode = msgspec.msgpack.Decoder(list[tuple[bytes, Entry]]).decode


class Cache:
    """The entries of the records of one sweep, by the names of their files below its folder."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "")
        self._path = Path(folder, FILE_NAME)
        self._before = self._read()
        self._now: dict[bytes, Entry] = {}
        self._is_changed = False

    def entry_of(self, path: str) -> Entry | None:
        """Return what is known of a file; it may have changed since."""
        return self._before.get(self._name_of(path))

    def keep(self, path: str, entry: Entry | None) -> None:
        """Keep what is known of a file as it is now; None where it is no record."""
        name = self._name_of(path)
        self._is_changed |= self._before.pop(name, None) is not entry
        if entry is not None:
            self._now[name] = entry

    def store(self) -> None:
        """Write the file, if anything in it has changed and the folder can be written to."""
        if not self._is_changed:
            return
        others = [
            (name, entry)
            for name, entry in self._before.items()
            if os.path.exists(os.fsencode(self._folder) + name)
        ]
        content = msgspec.msgpack.encode([*self._now.items(), *others])
        head = fingerprint() + hashlib.sha256(content).digest()
        with contextlib.suppress(OSError):
            write_whole(self._path, head + content, durable=False)

    def _name_of(self, path: str) -> bytes:
        return os.fsencode(path.removeprefix(self._folder))

    def _read(self) -> dict[bytes, Entry]:
        with contextlib.suppress(OSError, ValueError):
            found = self._path.read_bytes()
            if found.startswith(fingerprint()):
                digest, content = found[32:64], memoryview(found)[64:]
                if hashlib.sha256(content).digest() == digest:
                    return dict(decode(content))
        return {}


@functools.cache
def fingerprint() -> bytes:
    """Return 32 bytes that change with the code by which figures are derived."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256(np.__version__.encode())
    for source in (root / name for name in SOURCES):
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            found.update(path.read_bytes())
    return found.digest()

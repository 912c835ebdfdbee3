"""Keeps what was derived from the records of a sweep in the cache folder of this user.

An entry holds for the content that it was derived from and for nothing else: the digest of a
record's file is compared each time. What lies in a folder of records is never believed, because it
may come from anyone; so the cache is in a folder that only this user may open, or there is none.
The raw samples in the records remain what counts: a cache that is damaged, of other code or not
readable is like none.
"""

import contextlib
import functools
import hashlib
import os
import stat
from pathlib import Path

import msgspec
import numpy as np

from analysis.records.derive import Derived
from benchkit.record import files

MOST_BYTES = 2**28
"""Of all sweeps in the cache, which is enough for 100,000 records."""
SOURCES = (
    "analysis/records", "benchkit/api/details.py", "benchkit/errors.py", "benchkit/record",
    "benchkit/statistics", "benchkit/version.py",
)  # fmt: skip
"""All code that figures are derived by."""
decode = msgspec.msgpack.Decoder(list[tuple[bytes, Derived]]).decode


class Cache:
    """What is known of the records of one sweep, by the names of their files below its folder."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "")
        self._name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self._before = self._read()
        self._now: dict[bytes, Derived] = {}
        self._is_changed = False

    def known(self, path: str) -> Derived | None:
        """Return what was derived from a file when it was last read; its content may be another."""
        return self._before.get(self._name_of(path))

    def keep(self, path: str, derived: Derived | None) -> None:
        """Keep what a file holds now; None where it is no record."""
        name = self._name_of(path)
        self._is_changed |= self._before.pop(name, None) is not derived
        if derived is not None:
            self._now[name] = derived

    def store(self) -> None:
        """Write what has changed, if this user has a cache folder."""
        if not self._is_changed:
            return
        others = [
            (name, derived)
            for name, derived in self._before.items()
            if os.path.exists(os.fsencode(self._folder) + name)
        ]
        content = msgspec.msgpack.encode([*self._now.items(), *others])
        head = fingerprint() + hashlib.sha256(content).digest()
        with contextlib.suppress(OSError):
            cache_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
            place = private_folder()
            files.write_whole(place / self._name, head + content, durable=False)
            make_room(place)

    def _name_of(self, path: str) -> bytes:
        return os.fsencode(path.removeprefix(self._folder))

    def _read(self) -> dict[bytes, Derived]:
        with contextlib.suppress(OSError, ValueError):
            path = private_folder() / self._name
            found = files.read_regular(path)
            if found.startswith(fingerprint()):
                digest, content = found[32:64], memoryview(found)[64:]
                if hashlib.sha256(content).digest() == digest:
                    os.utime(path)  # `make_room` keeps what was used last
                    return dict(decode(content))
        return {}


def cache_folder() -> Path:
    """Return where the cache is: $XDG_CACHE_HOME/benchkit/figures, or in ~/.cache.

    Raises:
        OSError: the user has no home.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = configured if os.path.isabs(configured) else os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise OSError("the user has no home")
    return Path(base, "benchkit", "figures")


def private_folder() -> Path:
    """Return the folder of the cache once it is known that only this user may open it.

    Raises:
        OSError: it is not there, or others may open it.
    """
    folder = cache_folder()
    status = folder.lstat()
    is_open = status.st_mode & 0o077
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or is_open:
        raise PermissionError(f"{folder}: allowed is a folder that only its user may open")
    return folder


def make_room(folder: Path) -> None:
    """Remove the sweeps that were not used for the longest time, beyond MOST_BYTES."""
    found = [(path, path.stat()) for path in folder.iterdir()]
    room = MOST_BYTES
    for path, status in sorted(found, key=lambda each: each[1].st_mtime, reverse=True):
        room -= status.st_size
        if room < 0:
            path.unlink(missing_ok=True)


@functools.cache
def fingerprint() -> bytes:
    """Return 32 bytes that change with the code by which figures are derived."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256(np.__version__.encode())
    for source in (root / name for name in SOURCES):
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            found.update(path.read_bytes())
    return found.digest()

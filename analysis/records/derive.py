"""Derive the metrics of record files, in several processes and with a cache.

Each process is a fresh interpreter without pandas and matplotlib, started in a folder where no file
of the user or of a stranger is named like a module. `multiprocessing` would start it in the working
directory, run the main module of this process again, and leave it behind if this process is killed.

The cache has one file per sweep, which maps the SHA-256 of a record to its result. A folder of
records may come from anyone, so the cache lies in a folder that only this user may open; without
one there is no cache. A cache that is damaged, unreadable or made by other code is ignored.
"""

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from analysis.records.environments import environment_of
from analysis.records.paths import RunFolders, one_line
from analysis.records.per_rank import derive_ranks
from analysis.records.results import RecordResult, encode, plain_cells
from analysis.records.rows import RecordSettings, derive_cases
from analysis.records.validate import validate
from benchkit.record import files
from benchkit.record.record import Record
from launch import trust


class DerivedRecord(msgspec.Struct, frozen=True, array_like=True):
    """The result of deriving one file.

    Attributes:
        digest: SHA-256 of its content.
        figures: `RecordResult`, encoded; empty if the file is no record.
        fault: why it is no record.
    """

    digest: bytes
    figures: bytes
    fault: str = ""


def derive(path: str) -> DerivedRecord:
    """Read a file and derive its result."""
    try:
        content = files.read_regular(path)
        record = files.parse(content, Path(path))
        try:
            validate(record)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return DerivedRecord(hashlib.sha256(content).digest(), encode(derive_result(record)))
    except (ValueError, OSError) as error:
        return DerivedRecord(b"", b"", one_line(error))


def derive_result(record: Record) -> RecordResult:
    shared = RecordSettings(record)
    return RecordResult(
        repetition=record.repetition,
        settings=plain_cells(shared.settings),
        provenance=plain_cells(shared.provenance),
        cases=derive_cases(record, shared),
        ranks=encode(derive_ranks(record, shared)),
        facts=encode(plain_cells(environment_of(record))),
    )


FEWEST_BYTES = 50 * 10**6
"""Fewer bytes of records are read in this process: starting others takes longer."""
MOST_PROCESSES = 8


def usable_processes() -> int:
    cores = os.cpu_count() or 1
    with contextlib.suppress(AttributeError, OSError):  # not on Linux, or refused
        cores = len(os.sched_getaffinity(0))
    return min(cores, MOST_PROCESSES)


def derive_all(paths: Sequence[str], processes: int) -> dict[str, DerivedRecord]:
    """Derive files in a number of processes; return the results by path."""
    if processes < 2:
        return {path: derive(path) for path in paths}
    # Records of one sweep may get larger along it, so each process takes every n-th.
    shares = [paths[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(processes) as threads:
        parts = threads.map(derive_in_subprocess, shares)
    pairs = (zip(share, part, strict=True) for share, part in zip(shares, parts, strict=True))
    return dict(chain.from_iterable(pairs))


def derive_in_subprocess(paths: Sequence[str]) -> list[DerivedRecord]:
    """Derive files in another process; if that fails, in this one."""
    command = [sys.executable, "-m", "analysis.records.derive"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=msgspec.msgpack.encode(list(map(os.fsencode, paths))),
            stdout=subprocess.PIPE,
            check=True,
            env=environment,
            cwd=Path(__file__).parents[2],  # where no folder of the user is named analysis
        )
        return decode_all(done.stdout)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return list(map(derive, paths))


decode_all = msgspec.msgpack.Decoder(list[DerivedRecord]).decode


def main() -> None:
    """Derive the files named on stdin, and write the results to stdout."""
    paths = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[bytes])
    sys.stdout.buffer.write(msgspec.msgpack.encode([derive(os.fsdecode(path)) for path in paths]))


MOST_BYTES = 2**28
"""Size of the whole cache, enough for 100,000 records."""
SOURCES = (
    "analysis/records", "benchkit/api/case.py", "benchkit/api/regions.py", "benchkit/errors.py",
    "benchkit/record", "benchkit/statistics", "benchkit/version.py", "launch/trust.py",
)  # fmt: skip
"""All code that results depend on."""
Cache = dict[bytes, bytes]
"""Of one sweep: SHA-256 of a record to its `RecordResult`, encoded."""
decode_cache = msgspec.msgpack.Decoder(Cache).decode


def read_cache(folder: str) -> Cache:
    """Return the cache of the sweep in a folder; empty without one."""
    with contextlib.suppress(ValueError):
        return decode_cache(read_cache_file(name_of(folder), fingerprint))
    return {}


def name_of(folder: str) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]


def read_cache_file(name: str, maker: Callable[[], bytes]) -> memoryview:
    """Return the content of a cache file if it is intact and of this maker; else nothing.

    Args:
        maker: returns 32 bytes that identify the code that makes the content.
    """
    with contextlib.suppress(OSError, ValueError):
        path = cache_folder() / name
        trust.require_folder(path.parent, private=True)
        stored = memoryview(files.read_regular(path))
        content = stored[64:]
        if stored[:64] == maker() + hashlib.sha256(content).digest():
            os.utime(path)  # so that `make_room` keeps it
            return content
    return memoryview(b"")


def write_cache(name: str, maker: bytes, content: bytes) -> None:
    """Write a file of the cache, if there can be one."""
    with contextlib.suppress(OSError):
        folder = cache_folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        trust.make_private_folder(folder)
        head = maker + hashlib.sha256(content).digest()
        files.write_atomically(folder / name, head + content, durable=False)
        make_room(folder)


def cache_folder() -> Path:
    """Return the folder of the cache: $XDG_CACHE_HOME/benchkit/figures, or in ~/.cache.

    Raises:
        OSError: the user has no home.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = configured if os.path.isabs(configured) else os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise OSError("the user has no home")
    return Path(base, "benchkit", "figures")


def make_room(folder: Path) -> None:
    """Remove the least recently used sweeps beyond MOST_BYTES."""
    entries = [(path, path.stat()) for path in folder.iterdir()]
    room = MOST_BYTES
    for path, status in sorted(entries, key=lambda entry: entry[1].st_mtime, reverse=True):
        room -= status.st_size
        if room < 0:
            path.unlink(missing_ok=True)


@functools.cache
def fingerprint() -> bytes:
    """Return a hash of the code that derives results, in 32 bytes."""
    root = Path(__file__).parents[2]
    sha256 = hashlib.sha256(np.__version__.encode())
    for source in (root / name for name in SOURCES):
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            sha256.update(path.read_bytes())
    return sha256.digest()


WORTH_BYTES = 8 * 10**6
"""Fewer bytes of records are not cached, because that would hardly save time."""


@dataclass
class RecordSource:
    """A file with the name of a record.

    Attributes:
        folder: of its sweep.
    """

    path: str
    folder: str
    derived: DerivedRecord


def read_sources(paths: Sequence[str], processes: int) -> list[RecordSource]:
    """Derive files, in order, or look them up in the cache; write it where that saves time."""
    run_folders = RunFolders()
    folders = [run_folders.folder_of(path) for path in paths]
    caches = {folder: read_cache(folder) for folder in dict.fromkeys(folders)}
    with ThreadPoolExecutor(processes) as threads:
        cached = list(threads.map(look_up, paths, map(caches.get, folders)))
    unread = [path for path, derived in zip(paths, cached, strict=True) if derived is None]
    num_bytes = sum(map(size_of, unread))
    fresh = derive_all(unread, processes if num_bytes >= FEWEST_BYTES else 1)
    sources = [
        RecordSource(path, folder, derived or fresh[path])
        for path, folder, derived in zip(paths, folders, cached, strict=True)
    ]
    if num_bytes >= WORTH_BYTES:
        store(sources)
    return sources


def look_up(path: str, cache: Cache | None) -> DerivedRecord | None:
    """Look up the content of a file in a cache; None where it has to be derived."""
    if cache:
        with contextlib.suppress(ValueError, OSError):
            digest = hashlib.sha256(files.read_regular(path)).digest()
            if digest in cache:
                return DerivedRecord(digest, cache[digest])
    return None


def size_of(path: str) -> int:
    with contextlib.suppress(ValueError, OSError):
        return files.require_regular(path).st_size
    return 0


def store(sources: Sequence[RecordSource]) -> None:
    """Replace the cache of the sweeps of these files."""
    caches: dict[str, Cache] = {source.folder: {} for source in sources}
    for source in sources:
        if not source.derived.fault:
            caches[source.folder][source.derived.digest] = source.derived.figures
    for folder, cache in caches.items():
        write_cache(name_of(folder), fingerprint(), msgspec.msgpack.encode(cache))


if __name__ == "__main__":
    main()

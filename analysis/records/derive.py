"""Derive the figures of record files: in several processes, and only once, by a cache.

Each process is a fresh interpreter without pandas and matplotlib, started where no file of the user
or of a stranger is named like a module. `multiprocessing` would start it in the working directory,
run the main module of this process again, and leave it behind where this process is killed.

The cache has a file per sweep: what was derived from each content, by its SHA-256. A folder of
records may come from anyone, so the cache lies in a folder that only this user may open, or there
is none. A cache that is damaged, of other code or not readable is like none.
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
from analysis.records.results import RecordResult, encoded, plain_cells
from analysis.records.rows import RecordSettings, derive_cases
from analysis.records.validate import validate
from benchkit.record import files
from benchkit.record.record import Record
from launch import trust


class DerivedRecord(msgspec.Struct, frozen=True, array_like=True):
    """What was found in a file.

    Attributes:
        digest: SHA-256 of its content.
        figures: `RecordFigures`, encoded; empty where the file is no record.
        fault: why it is none.
    """

    digest: bytes
    figures: bytes
    fault: str = ""


def derive(path: str) -> DerivedRecord:
    """Read a file and derive its figures."""
    try:
        content = files.read_regular(path)
        record = files.parse(content, Path(path))
        try:
            validate(record)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return DerivedRecord(hashlib.sha256(content).digest(), encoded(derive_result(record)))
    except (ValueError, OSError) as error:
        return DerivedRecord(b"", b"", one_line(error))


def derive_result(record: Record) -> RecordResult:
    own = RecordSettings(record)
    return RecordResult(
        repetition=record.repetition,
        settings=plain_cells(own.settings),
        provenance=plain_cells(own.provenance),
        cases=derive_cases(record, own),
        ranks=encoded(derive_ranks(record, own)),
        facts=encoded(plain_cells(environment_of(record))),
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
    """Return what `derive` returns for each path, in so many processes."""
    if processes < 2:
        return {path: derive(path) for path in paths}
    # Records of one sweep may get larger along it, so each process takes every n-th.
    shares = [paths[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(processes) as threads:
        parts = threads.map(derive_elsewhere, shares)
    pairs = (zip(share, part, strict=True) for share, part in zip(shares, parts, strict=True))
    return dict(chain.from_iterable(pairs))


def derive_elsewhere(paths: Sequence[str]) -> list[DerivedRecord]:
    """Derive the figures of files in another process; in this one where that fails."""
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
    """Derive the figures of the files that stdin names, onto stdout."""
    paths = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[bytes])
    sys.stdout.buffer.write(msgspec.msgpack.encode([derive(os.fsdecode(path)) for path in paths]))


MOST_BYTES = 2**28
"""Of all sweeps in the cache, which is enough for 100,000 records."""
SOURCES = (
    "analysis/records", "benchkit/api/case.py", "benchkit/api/regions.py", "benchkit/errors.py",
    "benchkit/record", "benchkit/statistics", "benchkit/version.py", "launch/trust.py",
)  # fmt: skip
"""All code that figures are derived by."""
Cache = dict[bytes, bytes]
"""Of the records of a sweep: SHA-256 of the content, and its `RecordFigures`, encoded."""
decode_cache = msgspec.msgpack.Decoder(Cache).decode


def read_cache(folder: str) -> Cache:
    """Return what is kept of the sweep in a folder; nothing where there is none."""
    with contextlib.suppress(ValueError):
        return decode_cache(kept(name_of(folder), fingerprint))
    return {}


def name_of(folder: str) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]


def kept(name: str, maker: Callable[[], bytes]) -> memoryview:
    """Return what a file of the cache holds if it is whole, and made by this; else nothing.

    Args:
        maker: returns 32 bytes that change with what makes the content.
    """
    with contextlib.suppress(OSError, ValueError):
        path = cache_folder() / name
        trust.require_folder(path.parent, private=True)
        found = memoryview(files.read_regular(path))
        content = found[64:]
        if found[:64] == maker() + hashlib.sha256(content).digest():
            os.utime(path)  # `make_room` keeps what was used last
            return content
    return memoryview(b"")


def write_cache(name: str, maker: bytes, content: bytes) -> None:
    """Keep something in the cache, if there can be one."""
    with contextlib.suppress(OSError):
        place = cache_folder()
        place.parent.mkdir(parents=True, exist_ok=True)
        trust.make_private_folder(place)
        head = maker + hashlib.sha256(content).digest()
        files.write_atomically(place / name, head + content, durable=False)
        make_room(place)


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


WORTH_BYTES = 8 * 10**6
"""Fewer bytes of records are derived each time, because a cache would hardly save anything."""


@dataclass
class RecordSource:
    """A file that looks like a record.

    Attributes:
        folder: of its sweep.
    """

    path: str
    folder: str
    derived: DerivedRecord


def read_sources(paths: Sequence[str], processes: int) -> list[RecordSource]:
    """Return what is in some files, in order; keep it in the cache where that saves time."""
    run_folders = RunFolders()
    folders = [run_folders.folder_of(path) for path in paths]
    caches = {folder: read_cache(folder) for folder in dict.fromkeys(folders)}
    with ThreadPoolExecutor(processes) as threads:
        known = list(threads.map(look_up, paths, map(caches.get, folders)))
    unread = [path for path, derived in zip(paths, known, strict=True) if derived is None]
    num_bytes = sum(map(size_of, unread))
    fresh = derive_all(unread, processes if num_bytes >= FEWEST_BYTES else 1)
    sources = [
        RecordSource(path, folder, derived or fresh[path])
        for path, folder, derived in zip(paths, folders, known, strict=True)
    ]
    if num_bytes >= WORTH_BYTES:
        store(sources)
    return sources


def look_up(path: str, cache: Cache | None) -> DerivedRecord | None:
    """Return what is known of the content of a file; None where it has to be derived."""
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
    """Replace what the cache holds of the sweeps of these files."""
    caches: dict[str, Cache] = {source.folder: {} for source in sources}
    for source in sources:
        if not source.derived.fault:
            caches[source.folder][source.derived.digest] = source.derived.figures
    for folder, cache in caches.items():
        write_cache(name_of(folder), fingerprint(), msgspec.msgpack.encode(cache))


if __name__ == "__main__":
    main()

"""Derive the figures of record files: in several processes, and only once, by a cache.

Each process is a fresh interpreter without pandas and matplotlib. `multiprocessing` would import
this process's main module in each, or copy a process that has threads.

A cache entry holds for one content: the SHA-256 of the record's file is compared each time. A
folder of records may come from anyone, so the cache lies in a folder that only this user may open,
or there is none. A cache that is damaged, of other code or not readable is like none.
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
from itertools import chain, zip_longest
from pathlib import Path

import msgspec
import numpy as np

from analysis.records.environments import environment_of
from analysis.records.figures import RecordFigures, encoded, plain_cells
from analysis.records.paths import RunFolders, one_line
from analysis.records.per_rank import ranks_of
from analysis.records.rows import RecordSettings, cases_of
from analysis.records.validate import validate
from benchkit.record import files
from benchkit.record.record import Record
from launch import trust


class Derived(msgspec.Struct, frozen=True, array_like=True):
    """What was found in a file.

    Attributes:
        digest: SHA-256 of its content.
        figures: `RecordFigures`, encoded; empty where the file is no record.
        fault: why it is none.
    """

    digest: bytes
    figures: bytes
    fault: str = ""


def derive(path: str, known_digest: bytes = b"") -> Derived | None:
    """Read a file and derive its figures; None where its content still has the known digest."""
    try:
        content = files.read_regular(path)
        digest = hashlib.sha256(content).digest()
        if digest == known_digest:
            return None
        record = files.parse(content, Path(path))
        try:
            validate(record)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return Derived(digest, encoded(figures_of(record)))
    except (ValueError, OSError) as error:
        return Derived(b"", b"", one_line(error))


def figures_of(record: Record) -> RecordFigures:
    own = RecordSettings(record)
    return RecordFigures(
        repetition=record.repetition,
        settings=plain_cells(own.settings),
        provenance=plain_cells(own.provenance),
        cases=cases_of(record, own),
        ranks=encoded(ranks_of(record, own)),
        facts=encoded(plain_cells(environment_of(record))),
    )


FEWEST_BYTES = 50 * 10**6
"""Fewer bytes of records are read in this process: starting others takes longer."""
MOST_PROCESSES = 8

Job = tuple[str, bytes]
"""The arguments of `derive`: a path, and the digest of the content that is known."""
decode_derived = msgspec.msgpack.Decoder(list[Derived | None]).decode


def usable_processes() -> int:
    cores = os.cpu_count() or 1
    with contextlib.suppress(AttributeError, OSError):  # not on Linux, or refused
        cores = len(os.sched_getaffinity(0))
    return min(cores, MOST_PROCESSES)


def derive_all(jobs: Sequence[Job], num_bytes: int, processes: int) -> list[Derived | None]:
    """Return what `derive` returns for each job, in at most so many processes."""
    if processes < 2 or num_bytes < FEWEST_BYTES:
        return [derive(*job) for job in jobs]
    shares = [jobs[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(processes) as threads:
        found = list(threads.map(derive_elsewhere, shares))
    # Every n-th job is of one share; the first shares may be longer by one.
    rounds = chain.from_iterable(zip_longest(*found))
    return [derived for derived, _ in zip(rounds, jobs, strict=False)]


def derive_elsewhere(jobs: Sequence[Job]) -> list[Derived | None]:
    """Derive figures in another process; in this one where that fails."""
    content = msgspec.msgpack.encode([(os.fsencode(path), digest) for path, digest in jobs])
    command = [sys.executable, "-m", "analysis.records.derive"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=content,
            stdout=subprocess.PIPE,
            check=True,
            env=environment,
            cwd=Path(__file__).parents[2],  # where no folder of the user is named analysis
        )
        return decode_derived(done.stdout)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return [derive(*job) for job in jobs]


def main() -> None:
    """Derive the figures of the files that stdin names, onto stdout."""
    jobs = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[tuple[bytes, bytes]])
    found = [derive(os.fsdecode(path), digest) for path, digest in jobs]
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


MOST_BYTES = 2**28
"""Of all sweeps in the cache, which is enough for 100,000 records."""
SOURCES = (
    "analysis/records", "benchkit/api/case.py", "benchkit/api/regions.py", "benchkit/errors.py",
    "benchkit/record", "benchkit/statistics", "benchkit/version.py", "launch/trust.py",
)  # fmt: skip
"""All code that figures are derived by."""
decode_cached = msgspec.msgpack.Decoder(list[tuple[bytes, Derived]]).decode


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
        if not self._is_changed:
            return
        others = [
            (name, derived)
            for name, derived in self._before.items()
            if os.path.exists(os.fsencode(self._folder) + name)
        ]
        keep(self._name, fingerprint(), msgspec.msgpack.encode([*self._now.items(), *others]))

    def _name_of(self, path: str) -> bytes:
        return os.fsencode(path.removeprefix(self._folder))

    def _read(self) -> dict[bytes, Derived]:
        with contextlib.suppress(ValueError):
            return dict(decode_cached(kept(self._name, fingerprint)))
        return {}


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


def keep(name: str, maker: bytes, content: bytes) -> None:
    """Keep something in the cache, if there can be one."""
    with contextlib.suppress(OSError):
        place = cache_folder()
        place.parent.mkdir(parents=True, exist_ok=True)
        trust.make_private_folder(place)
        head = maker + hashlib.sha256(content).digest()
        files.write_whole(place / name, head + content, durable=False)
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
class Source:
    """A file that looks like a record.

    Attributes:
        folder: of its sweep.
        known: what was derived from an earlier content of it.
        derived: what is in it; None until that is known.
    """

    path: str
    folder: str
    num_bytes: int = 0
    known: Derived | None = None
    derived: Derived | None = None


def read_sources(paths: Sequence[str], processes: int) -> list[Source]:
    """Return what is in some files, in order; keep it in the cache where that saves time."""
    folders, caches = RunFolders(), dict[str, Cache]()
    sources = []
    for path in paths:
        folder = folders.folder_of(path)
        cache = caches.get(folder) or caches.setdefault(folder, Cache(folder))
        sources.append(looked_at(Source(path, folder, known=cache.known(path))))
    unread = [source for source in sources if source.derived is None]
    num_bytes = sum(source.num_bytes for source in unread)
    jobs = [(source.path, source.known.digest if source.known else b"") for source in unread]
    for source, derived in zip(unread, derive_all(jobs, num_bytes, processes), strict=True):
        source.derived = derived or source.known
    if num_bytes >= WORTH_BYTES:
        for source in sources:
            is_record = source.derived and not source.derived.fault
            caches[source.folder].keep(source.path, source.derived if is_record else None)
        for cache in caches.values():
            cache.store()
    return sources


def looked_at(source: Source) -> Source:
    """Return a source with its size, or with why it cannot be read."""
    try:
        source.num_bytes = files.require_regular(source.path).st_size
    except (ValueError, OSError) as error:
        source.derived = Derived(b"", b"", one_line(error))
    return source


if __name__ == "__main__":
    main()

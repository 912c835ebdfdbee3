"""Gets the figures of record files: from the cache where they are known, else from the samples."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.records.cache import Cache, Entry, Stamp
from analysis.records.derive import Derived
from analysis.records.paths import RunFolders, one_line, require_regular
from analysis.records.workers import derive_all

WORTH_BYTES = 8 * 10**6
"""Fewer bytes of records are read each time, because a cache would hardly save anything."""


@dataclass
class Source:
    """A file that looks like a record.

    Attributes:
        path: of the file.
        folder: of the sweep that it belongs to.
        num_bytes: of the file.
        stamp: of the file; None where it does not tell whether the file changes.
        known: its entry in the cache, which may be of other content; None without one.
        derived: what is in it; None until that is known.
    """

    path: str
    folder: str
    num_bytes: int = 0
    stamp: Stamp | None = None
    known: Entry | None = None
    derived: Derived | None = None

    @property
    def known_digest(self) -> bytes:
        return self.known.derived.digest if self.known else b""

    def entry(self) -> Entry | None:
        """Return what the cache keeps of it; None where it is no record."""
        if self.derived is None or self.derived.fault:
            return None
        known = self.known
        if known and known.derived is self.derived and known.stamp == self.stamp:
            return known
        return Entry(self.stamp, self.derived)


def read_sources(paths: Sequence[str], processes: int) -> list[Source]:
    """Find out what is in some files, and keep it beside them where that saves time.

    Args:
        paths: of the files.
        processes: the most that may read at once.

    Returns:
        One source per file, with what is in it.
    """
    folders, caches = RunFolders(), dict[str, Cache]()
    sources = []
    for path in paths:
        folder = folders.folder_of(path)
        cache = caches.get(folder) or caches.setdefault(folder, Cache(folder))
        sources.append(look_up(path, folder, cache))
    unread = [source for source in sources if source.derived is None]
    num_bytes = sum(source.num_bytes for source in unread)
    jobs = [(source.path, source.known_digest) for source in unread]
    for source, derived in zip(unread, derive_all(jobs, num_bytes, processes), strict=True):
        source.derived = source.known.derived if derived is None and source.known else derived
    if num_bytes >= WORTH_BYTES:
        for source in sources:
            caches[source.folder].keep(source.path, source.entry())
        for cache in caches.values():
            cache.store()
    return sources


def look_up(path: str, folder: str, cache: Cache) -> Source:
    """Return a source with what is known of it without reading the file."""
    source = Source(path, folder, known=cache.entry_of(path))
    try:
        status = require_regular(path)
    except (ValueError, OSError) as error:
        source.derived = Derived(b"", b"", one_line(error))
        return source
    source.num_bytes, source.stamp = status.st_size, Stamp.of(status)
    if source.known and source.stamp and source.known.stamp == source.stamp:
        source.derived = source.known.derived
    return source

"""Gets the figures of record files: from the cache where their content is known, else from them."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.records.cache import Cache
from analysis.records.derive import Derived
from analysis.records.paths import RunFolders, one_line
from analysis.records.workers import derive_all
from benchkit.record import files

WORTH_BYTES = 8 * 10**6
"""Fewer bytes of records are derived each time, because a cache would hardly save anything."""


@dataclass
class Source:
    """A file that looks like a record.

    Attributes:
        path: of the file.
        folder: of the sweep that it belongs to.
        num_bytes: of the file.
        known: what was derived from it before, when its content may have been another.
        derived: what is in it; None until that is known.
    """

    path: str
    folder: str
    num_bytes: int = 0
    known: Derived | None = None
    derived: Derived | None = None


def read_sources(paths: Sequence[str], processes: int) -> list[Source]:
    """Find out what is in some files, and keep it where that saves time.

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

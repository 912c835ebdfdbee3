"""The points of a sweep as its manifest lists them: their identity and their folders.

A point is identified by its key, the digest of its configuration, and by its occurrence: `seed=1,1`
is two points with one key.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchkit import record
from benchkit.errors import ConfigError


@dataclass(frozen=True)
class Entry:
    """One point of a sweep.

    Attributes:
        key: digest of its configuration without volatile keys; `world_size: auto` stays `auto`.
        occurrence: 0 for the first point with this key, 1 for the second.
        folder: relative to the sweep's folder.
        overrides: as the record stores them.
    """

    key: str
    occurrence: int
    folder: str
    overrides: list[str]

    @property
    def identity(self) -> tuple[str, int]:
        return self.key, self.occurrence


def entries(
    keys: Sequence[str], folders: Sequence[str], overrides: Sequence[list[str]]
) -> list[Entry]:
    """Returns the points of a sweep, numbering those with the same key."""
    seen: Counter[str] = Counter()
    found = []
    for key, folder, own_overrides in zip(keys, folders, overrides, strict=True):
        found.append(Entry(key, seen[key], folder, own_overrides))
        seen[key] += 1
    return found


def key_of(config: dict[str, Any]) -> str:
    """Returns the key of a point from its configuration, be it of a record or a command line."""
    try:
        return record.digest(record.without_volatile(config))
    except TypeError as error:
        raise ConfigError(f"a value of the configuration cannot be stored: {error}") from None


def merged(before: Iterable[Entry], now: Sequence[Entry]) -> list[Entry]:
    """Returns the points of a command line: known ones in their old folders, others in new ones.

    Args:
        before: points that the sweep already has.
        now: points of the command line.
    """
    known = {entry.identity: entry for entry in before}
    taken = {entry.folder for entry in known.values()}
    found = []
    for entry in now:
        if entry.identity in known:
            found.append(known[entry.identity])
            continue
        folder = entry.folder if entry.folder not in taken else free_folder(taken)
        taken.add(folder)
        found.append(Entry(entry.key, entry.occurrence, folder, entry.overrides))
    return found


def free_folder(taken: set[str]) -> str:
    """Returns the number after the highest one that is taken."""
    return str(1 + max((int(name) for name in taken if name.isdecimal()), default=-1))


def is_below(folder: str) -> bool:
    """Tells whether a path stays below the folder that it is relative to."""
    return not Path(folder).is_absolute() and ".." not in Path(folder).parts


def require_folders_of_their_own(entries: Sequence[Entry]) -> None:
    """Raises ConfigError if two points share a folder, or if one is outside the sweep's folder."""
    seen: dict[Path, Entry] = {}
    for entry in entries:
        if not is_below(entry.folder):
            raise ConfigError(
                f"hydra.sweep.subdir: {entry.folder}: allowed is a folder below hydra.sweep.dir"
            )
        other = seen.setdefault(Path(entry.folder), entry)
        if other is not entry:
            raise ConfigError(
                f"hydra.sweep.subdir: the points {' '.join(other.overrides)} and "
                f"{' '.join(entry.overrides)} would share the folder {entry.folder}; "
                "allowed is e.g. ${hydra.job.num}"
            )

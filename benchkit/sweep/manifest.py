"""sweep.json: what a sweep was to measure, written before its first point, so that it can go on after an interruption.

Written by agent 0 alone. A point is known by its key, the digest of its configuration, and its occurrence: `seed=1,1`
is two points with one key.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from benchkit import record
from benchkit.errors import ConfigError

FILE_NAME = "sweep.json"
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One point of a sweep.

    Attributes:
        key: digest of its configuration without volatile keys; `world_size: auto` stays `auto`.
        occurrence: 0 for the first point with this key, 1 for the second.
        folder: below the sweep's.
        overrides: as the record stores them.
    """

    key: str
    occurrence: int
    folder: str
    overrides: list[str]

    @property
    def identity(self) -> tuple[str, int]:
        return self.key, self.occurrence


@dataclass(frozen=True)
class Submitted:
    """A job of Slurm's: its number as squeue prints it, its messages, and its points' folders below the sweep's."""

    job_id: str
    output: str
    folders: list[str]


@dataclass
class Manifest:
    """All points of a sweep, in order, and what they were to run with.

    Attributes:
        arguments: of the command line.
        made_with: software, hosts and launcher, by name.
    """

    arguments: list[str]
    made_with: dict[str, str]
    points: list[Entry]
    jobs: list[Submitted] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Writes the manifest into the sweep's folder; a reader sees the old one or the new one."""
        record.write_whole(
            folder / FILE_NAME, orjson.dumps({"version": VERSION, **asdict(self)}, option=orjson.OPT_INDENT_2)
        )


def entries(keys: Sequence[str], folders: Sequence[str], overrides: Sequence[list[str]]) -> list[Entry]:
    """The points of a sweep, each with its occurrence among those with the same key."""
    seen: Counter[str] = Counter()
    found = []
    for key, folder, given in zip(keys, folders, overrides, strict=True):
        found.append(Entry(key, seen[key], folder, given))
        seen[key] += 1
    return found


def key_of(config: dict[str, Any]) -> str:
    """The key of a point with this configuration, as a record or a command line has it."""
    try:
        return record.digest(record.without_volatile(config))
    except TypeError as error:
        raise ConfigError(f"a value of the configuration cannot be stored: {error}") from None


def read(folder: Path) -> Manifest:
    """The manifest in a sweep's folder; where there is none, one made from the records of an older sweep.

    Raises:
        ConfigError: the folder holds no sweep, or a manifest that is not readable.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return from_records(folder)
    try:
        require_ours(path)
        content = orjson.loads(path.read_bytes())
        if content.pop("version") != VERSION:
            raise ValueError("another version")
        content["points"] = [Entry(**each) for each in content["points"]]
        content["jobs"] = [Submitted(**each) for each in content["jobs"]]
        found = Manifest(**content)
        require_sound(found)
        return found
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{path}: not a sweep's manifest ({error})") from None


def require_ours(path: Path) -> None:
    """Raises ValueError where another user may have written a manifest: what it says is run."""
    told = path.stat()
    if told.st_uid not in (os.getuid(), 0) or told.st_mode & 0o002:
        raise ValueError("it is another user's, or others may write it; allowed is one of your own")


def require_sound(found: Manifest) -> None:
    """Raises ValueError where a manifest's values are not of their types, or a folder lies outside the sweep's."""
    texts = [*found.arguments, *found.made_with.values()]
    for entry in found.points:
        texts += [entry.key, entry.folder, *entry.overrides]
        if not isinstance(entry.occurrence, int) or not is_below(entry.folder):
            raise ValueError(f"point {entry.folder}: allowed is a folder below the sweep's")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is none")


def is_below(folder: str) -> bool:
    """Whether a path stays below the folder that it is relative to."""
    return not Path(folder).is_absolute() and ".." not in Path(folder).parts


def from_records(folder: Path) -> Manifest:
    """What the records below a folder tell of their sweep; raises ConfigError where there is none."""
    contents: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob(f"*/{record.FILE_NAME}"), key=record.by_number):
        try:
            content = record.read(path)
            contents[path.parent.name] = {"key": key_of(content["config"]), "overrides": list(content["overrides"])}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    if not contents:
        raise ConfigError(f"{folder}: holds no sweep; allowed is the folder of one, such as outputs/latest")
    return Manifest(
        arguments=[],
        made_with={},
        points=entries(
            [each["key"] for each in contents.values()],
            list(contents),
            [each["overrides"] for each in contents.values()],
        ),
    )


def merged(before: Iterable[Entry], now: Sequence[Entry]) -> list[Entry]:
    """The points of a command: those that the sweep already has in their old folders, others in new ones."""
    there = {entry.identity: entry for entry in before}
    taken = {entry.folder for entry in there.values()}
    found = []
    for entry in now:
        if entry.identity in there:
            found.append(there[entry.identity])
            continue
        folder = entry.folder if entry.folder not in taken else free_folder(taken)
        taken.add(folder)
        found.append(Entry(entry.key, entry.occurrence, folder, entry.overrides))
    return found


def free_folder(taken: set[str]) -> str:
    """The number after the highest that is taken."""
    return str(1 + max((int(name) for name in taken if name.isdecimal()), default=-1))


def require_folders_of_their_own(entries: Sequence[Entry]) -> None:
    """Raises ConfigError where two points would write their records into one folder, or one outside of the sweep's."""
    seen: dict[Path, Entry] = {}
    for entry in entries:
        if not is_below(entry.folder):
            raise ConfigError(f"hydra.sweep.subdir: {entry.folder}: allowed is a folder below hydra.sweep.dir")
        other = seen.setdefault(Path(entry.folder), entry)
        if other is not entry:
            raise ConfigError(
                f"hydra.sweep.subdir: the points {' '.join(other.overrides)} and {' '.join(entry.overrides)} "
                f"would share the folder {entry.folder}; allowed is e.g. ${{hydra.job.num}}"
            )

"""sweep.json: the points of a sweep, so that it can be resumed.

A point is identified by its key, the digest of its configuration, and by its occurrence: `seed=1,1`
is two points with one key. Only agent 0 writes the file, before the first point.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import msgspec

from benchkit.config.identity import digest, identity_of
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.record import NumEarlier, PlainConfig, Record, RepetitionNumber, Version
from benchkit.secrets import HIDDEN, lacks_values


@dataclass(frozen=True)
class PointEntry:
    """One point of a sweep.

    Attributes:
        key: digest of what identifies its configuration; `world_size: auto` stays `auto`.
        occurrence: number among the points with this key, from 0.
        folder: relative to the sweep's folder.
        repetition: number among the runs of the point, from 0.
    """

    key: str
    occurrence: NumEarlier
    folder: str
    overrides: list[str]
    repetition: RepetitionNumber = 0

    @property
    def identity(self) -> tuple[str, int]:
        return self.key, self.occurrence


def entries(
    keys: Sequence[str], folders: Sequence[str], overrides: Sequence[list[str]]
) -> list[PointEntry]:
    seen: Counter[str] = Counter()
    points = []
    for key, folder, words in zip(keys, folders, overrides, strict=True):
        points.append(PointEntry(key, seen[key], folder, words))
        seen[key] += 1
    return points


def order_runs(
    points: Sequence[PointEntry], repeats: Sequence[int], seed: int
) -> list[tuple[int, PointEntry]]:
    """Return each run, with the position of its point, in the order in which they are measured.

    Every point runs once before any runs again. Each repetition has another order, so that no
    point always follows the same one. Without repetitions the order is that of the points. Later
    repetitions are in folders of their own.
    """
    same_key = Counter(entry.key for entry in points)
    runs = []
    for repetition in range(max(repeats)):
        positions = [number for number, count in enumerate(repeats) if count > repetition]
        if max(repeats) > 1:
            Random(f"{seed} {repetition}").shuffle(positions)
        for position in positions:
            point = points[position]
            occurrence = point.occurrence + repetition * same_key[point.key]
            folder = point.folder
            if folder == str(position):
                folder = str(repetition * len(points) + position)
            elif repetition:
                folder += f"_repetition_{repetition + 1}"
            runs.append(
                (position, PointEntry(point.key, occurrence, folder, point.overrides, repetition))
            )
    return runs


def key_of(config: PlainConfig) -> str:
    """Return the key of a point from its configuration, in a record or of a command line."""
    return digest(identity_of(config))


def key_in(record: Record) -> str:
    """Return the key of a record's point.

    If the configuration lacks secrets, it is the record's point_id, which was computed with them.
    With `world_size: auto` the two differ, and the point counts as not measured.
    """
    is_as_asked = record.config.get("world_size") == record.world_size
    return record.point_id if is_as_asked and lacks_values(record.config) else key_of(record.config)


def merge_entries(before: Iterable[PointEntry], now: Sequence[PointEntry]) -> list[PointEntry]:
    """Return the points of a command line: known ones in their old folders, others in new ones."""
    known = {entry.identity: entry for entry in before}
    taken = {entry.folder for entry in known.values()}
    merged = []
    for entry in now:
        if entry.identity in known:
            merged.append(known[entry.identity])
            continue
        folder = entry.folder if entry.folder not in taken else free_folder(taken)
        taken.add(folder)
        merged.append(replace(entry, folder=folder))
    return merged


def free_folder(taken: set[str]) -> str:
    return str(1 + max((int(name) for name in taken if name.isdecimal()), default=-1))


def is_below(folder: str) -> bool:
    return not Path(folder).is_absolute() and ".." not in Path(folder).parts


def require_folders_of_their_own(entries: Sequence[PointEntry]) -> None:
    seen: dict[Path, PointEntry] = {}
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


def require_one_secret(entries: Sequence[PointEntry]) -> None:
    """Raise ConfigError for points that differ only by secrets, which records lack."""
    seen: dict[tuple[str, ...], str] = {}
    for entry in entries:
        hidden = [text for text in entry.overrides if HIDDEN in text]
        if hidden and seen.setdefault(tuple(entry.overrides), entry.key) != entry.key:
            raise ConfigError(
                f"{' '.join(hidden)}: several values of a secret, which records do not "
                "distinguish; "
                "allowed is one in a sweep"
            )


FILE_NAME = "sweep.json"
STUDY = "study.json"  # in the folder that holds those of a study's sweeps
VERSION = 1


@dataclass(frozen=True)
class SubmittedJob:
    """A job in Slurm, and the folders of its points within the sweep's.

    `clusters` are the clusters that it was submitted to, separated by commas; "" for that of this
    host, None in files of older versions.
    """

    job_id: str
    output: str
    folders: list[str]
    clusters: str | None = None


@dataclass
class Manifest:
    """All points of a sweep, in order, and the conditions at its start.

    `arguments` are as typed in the folder `started_in`; `made_with` are software, hosts and
    launcher.
    """

    arguments: list[str]
    made_with: dict[str, str]
    points: list[PointEntry]
    jobs: list[SubmittedJob] = field(default_factory=list)
    started_in: str = ""
    version: Version = VERSION

    def write(self, folder: Path) -> None:
        content = msgspec.json.encode(self)
        files.write_atomically(folder / FILE_NAME, msgspec.json.format(content, indent=2))


def has_sweep(folder: Path) -> bool:
    """Return whether a folder holds a sweep: its manifest, or records without one."""
    return (folder / FILE_NAME).exists() or any(folder.glob(f"*/{files.FILE_NAME}"))


def read(folder: Path, is_run: bool = True) -> Manifest:
    """Read the manifest, or make one from records; raise ConfigError without a sweep.

    If its content `is_run`, only this user may have written it.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return from_records(folder)
    try:
        manifest = (files.read_trusted if is_run else files.read_json)(path, Manifest)
        if manifest.version != VERSION:
            raise ValueError("another version")
        require_sound(manifest)
        return manifest
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a sweep's manifest ({error})") from None


def require_sound(manifest: Manifest) -> None:
    for entry in manifest.points:
        if not is_below(entry.folder):
            raise ValueError(f"point {entry.folder}: allowed is a folder below the sweep's")


def from_records(folder: Path) -> Manifest:
    """Make a manifest from records; raise ConfigError if none is readable."""
    keys, folders, overrides = [], [], []
    for path in sorted(folder.glob(f"*/{files.FILE_NAME}"), key=files.numeric_sort_key):
        try:
            record = files.read(path)
        except ValueError:
            continue
        keys.append(key_in(record))
        folders.append(path.parent.name)
        overrides.append(record.overrides)
    if not keys:
        raise ConfigError(
            f"{folder}: holds no sweep; allowed is the folder of one, such as outputs/latest"
        )
    return Manifest([], {}, entries(keys, folders, overrides))

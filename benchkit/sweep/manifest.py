"""sweep.json: what a sweep is to measure, so that it can go on after an interruption.

Agent 0 alone writes it, before the first point.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.sweep.entries import Entry, entries, is_below, key_of

FILE_NAME = "sweep.json"
VERSION = 1


@dataclass(frozen=True)
class Submitted:
    """A job that was submitted to Slurm.

    Attributes:
        job_id: as squeue prints it.
        output: file of its messages.
        folders: of its points, relative to the sweep's folder.
    """

    job_id: str
    output: str
    folders: list[str]


@dataclass
class Manifest:
    """All points of a sweep, in order, and the conditions that it began under.

    Attributes:
        arguments: of the command line, as typed.
        made_with: software, hosts and launcher, by name.
        points: in the order of the sweep.
        jobs: that were submitted for them.
        started_in: working directory of the command line; "" if not known.
        version: of the file.
    """

    arguments: list[str]
    made_with: dict[str, str]
    points: list[Entry]
    jobs: list[Submitted] = field(default_factory=list)
    started_in: str = ""
    version: int = VERSION

    def write(self, folder: Path) -> None:
        """Writes the manifest to the sweep's folder; a reader sees the old one or the new one."""
        content = msgspec.json.encode(self)
        files.write_whole(folder / FILE_NAME, msgspec.json.format(content, indent=2))


def read(folder: Path) -> Manifest:
    """Reads the manifest of a sweep; makes one from the records of an older sweep without it.

    Raises:
        ConfigError: the folder holds no sweep, or a manifest that is not readable.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return from_records(folder)
    try:
        require_ours(path)
        found = files.read_json(path, Manifest)
        if found.version != VERSION:
            raise ValueError("another version")
        require_sound(found)
        return found
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a sweep's manifest ({error})") from None


def require_ours(path: Path) -> None:
    """Raises ValueError if another user may have written a manifest: its commands are run.

    A link or a pipe is refused, too.
    """
    status = files.require_regular(path)
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o002:
        raise ValueError("it is another user's, or others may write it; allowed is one of your own")


def require_sound(found: Manifest) -> None:
    """Raises ValueError if a folder lies outside the sweep's."""
    for entry in found.points:
        if not is_below(entry.folder):
            raise ValueError(f"point {entry.folder}: allowed is a folder below the sweep's")


def from_records(folder: Path) -> Manifest:
    """Makes a manifest from the records in the subfolders of a sweep's folder.

    Raises:
        ConfigError: there is no readable record.
    """
    keys, folders, overrides = [], [], []
    for path in sorted(folder.glob(f"*/{files.FILE_NAME}"), key=files.by_number):
        try:
            found = files.read(path)
        except ValueError:
            continue
        keys.append(key_of(found.config))
        folders.append(path.parent.name)
        overrides.append(found.overrides)
    if not keys:
        raise ConfigError(
            f"{folder}: holds no sweep; allowed is the folder of one, such as outputs/latest"
        )
    return Manifest([], {}, entries(keys, folders, overrides))

"""How long points took in earlier sweeps."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.sweep import manifest

MOST_SWEEPS = 50
"""Earlier sweeps that are looked through for the same points, from the newest on."""


class Timed(msgspec.Struct):
    """The part of a record that says how long its point took."""

    status: str
    phases_s: dict[str, float]


def earlier_seconds(wanted: set[str], outputs: Path) -> Mapping[str, float]:
    """Returns how long points with some keys took when they last succeeded, in seconds, by key."""
    found: dict[str, float] = {}
    for folder in newest_sweeps(outputs):
        try:
            entries = manifest.read(folder).points
        except ConfigError:
            continue
        for entry in entries:
            if entry.key not in wanted or entry.key in found:
                continue
            timed = read_timed(folder / entry.folder)
            if timed and timed.status == "ok" and "total" in timed.phases_s:
                found[entry.key] = timed.phases_s["total"]
    return found


def newest_sweeps(outputs: Path) -> Iterator[Path]:
    """Yields the folders of earlier sweeps, at most MOST_SWEEPS, the newest first."""
    if outputs.is_dir():
        folders = [path for path in outputs.iterdir() if (path / manifest.FILE_NAME).is_file()]
        own = [path for path in folders if not path.is_symlink()]
        newest = sorted(own, key=lambda path: path.stat().st_mtime, reverse=True)
        yield from itertools.islice(newest, MOST_SWEEPS)


def read_timed(folder: Path) -> Timed | None:
    try:
        return files.read_json(folder / files.FILE_NAME, Timed)
    except (OSError, ValueError):
        return None

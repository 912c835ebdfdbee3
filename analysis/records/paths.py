"""Find the files of records, and the folders and names of their runs."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.naming import escape_unprintable

PATTERN = "*record.json"
"""Matches renamed copies too, such as `gpu_record.json`."""
SWEEP_FILE = "multirun.yaml"
ARCHIVES = tuple(ending for _, endings, _ in shutil.get_unpack_formats() for ending in endings)


def require_there(places: Iterable[Path]) -> None:
    """Raise FileNotFoundError that names the first place that is not there, or not accessible.

    Raise ConfigError for an archive.
    """
    for place in places:
        try:
            exists = place.exists()
        except OSError as error:
            raise FileNotFoundError(f"{place}: {error.strerror}") from None
        if not exists:
            raise FileNotFoundError(f"{place}: no such folder or file")
        if place.name.lower().endswith(ARCHIVES) and place.is_file():
            raise ConfigError(f"{place}: an archive; unpack it, and name the folder")


def record_files(places: Iterable[Path]) -> list[str]:
    """List the record files at or below some places, each once, without symbolic links in its path.

    Those below one place are in the order of their folders' numbers.
    """
    paths: dict[str, None] = {}
    for place in places:
        top = os.path.realpath(place)
        paths |= dict.fromkeys(files_below(top) if os.path.isdir(top) else [top])
    return list(paths)


def files_below(top: str, ending: str = PATTERN[1:]) -> Iterator[str]:
    """Yield the files below a folder with a name's ending, in the order of `record_files`.

    A folder that cannot be read has no files. A link is followed only to files below the folder, so
    that a foreign link cannot show any others. `os.scandir` takes a tenth of the time of
    `pathlib`, which takes a second for ten thousand records.
    """
    waiting, below = entries_of(top), os.path.join(top, "")
    while waiting:
        entry = waiting.pop()
        if entry.name.endswith(ending):
            target = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
            yield target if target.startswith(below) else entry.path
        if entry.is_dir(follow_symlinks=False):
            waiting += entries_of(entry.path)


def entries_of(folder: str) -> list["os.DirEntry[str]"]:
    """Return the entries of a folder, the highest number first; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entries, key=lambda entry: files.numeric_sort_key(entry.name), reverse=True
            )
    except OSError:
        return []


class RunFolders:
    """Find the folder of a record's sweep; look into each folder once."""

    def __init__(self) -> None:
        self._above: dict[str, str | None] = {}

    def folder_of(self, path: str) -> str:
        """Return the nearest folder above a record that has the sweep's configuration.

        Where there is none, it is SWEEP of SWEEP/NUMBER/record.json.
        """
        parent = os.path.dirname(path)
        return self._sweep_at_or_above(parent) or os.path.dirname(parent)

    def _sweep_at_or_above(self, folder: str) -> str | None:
        if folder not in self._above:
            above = os.path.dirname(folder)
            if os.path.exists(os.path.join(folder, SWEEP_FILE)):
                self._above[folder] = folder
            else:
                self._above[folder] = None if above == folder else self._sweep_at_or_above(above)
        return self._above[folder]


def run_names(folders: Iterable[str]) -> dict[str, str]:
    """Name each folder, with as many parent folders as make its name unique."""
    unnamed = {folder: Path(folder).parts for folder in folders}
    every = list(unnamed.values())
    names: dict[str, str] = {}
    depth = 0
    while unnamed:
        depth += 1
        counts = Counter(parts[-depth:] for parts in every)
        for folder, parts in list(unnamed.items()):
            if counts[parts[-depth:]] == 1:
                names[folder] = str(Path(*parts[-depth:]))
                del unnamed[folder]
    return names


def run_of(sweep: str, repetition: int) -> str:
    """Name the run of a sweep: "SWEEP" of its first repetition, "SWEEP#2" of its second."""
    return f"{sweep}#{repetition + 1}" if repetition else sweep


def one_line(text: object) -> str:
    return escape_unprintable(" ".join(str(text).split()), keep="")

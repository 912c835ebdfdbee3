"""What agent 0 finds out before a sweep's first point: which points are open, in which folders, and that nobody else is
at it.
"""

import contextlib
import itertools
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import benchkit
from benchkit.checkout import checkout
from benchkit.errors import ConfigError
from benchkit.point.claim import claimed
from benchkit.sweep import manifest, resume
from benchkit.sweep.folder import require_unused
from benchkit.sweep.launchers import Launcher
from benchkit.sweep.manifest import Manifest
from benchkit.sweep.resume import Resume
from launch.agents.group import Agents
from launch.topology import LaunchContext

SHOWN = 20
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class Agenda:
    """What a sweep has to do.

    Attributes:
        folder: of the sweep.
        folders: of all points, below it.
        open: indexes of the points that are to be measured.
        statuses: of the others.
        resumed_with: what differs from what the sweep began with, as [then, now] by name.
    """

    folder: Path
    folders: list[str]
    open: list[int]
    statuses: list[str]
    resumed_with: dict[str, list[str]]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"folder": str(self.folder)}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Agenda":
        return cls(**told | {"folder": Path(told["folder"])})


def prepared(
    folder: Path,
    wanted: Manifest,
    world_sizes: Sequence[int | None],
    asked: Resume | None,
    held: contextlib.ExitStack,
) -> Agenda:
    """Takes the sweep's folder for this process, writes the manifest, and says what is to be done.

    Args:
        wanted: the points of this command line.
        world_sizes: per point the number of ranks that it would have now; None where that is not known.
        asked: what --resume asks for; None for a fresh sweep.
        held: takes the claim on the folder.

    Raises:
        ConfigError: the folder is in use, or does not suit the command line.
        OSError: the folder cannot be written to.
    """
    if not asked:
        folder.mkdir(parents=True, exist_ok=True)
    held.enter_context(claimed(folder))
    return resumed(folder, wanted, world_sizes, asked) if asked else fresh(folder, wanted)


def fresh(folder: Path, wanted: Manifest) -> Agenda:
    """What a sweep in an unused folder has to do: everything."""
    names = [entry.folder for entry in wanted.points]
    require_unused(folder, names)
    wanted.write(folder)
    return Agenda(folder, names, list(range(len(names))), [], {})


def resumed(folder: Path, wanted: Manifest, world_sizes: Sequence[int | None], asked: Resume) -> Agenda:
    """What is left to do of a sweep; points that its manifest does not have are added to it, none is removed."""
    before = manifest.read(folder)
    differing = resume.differences(before.made_with, wanted.made_with)
    if differing and not asked.force:
        raise ConfigError(
            f"{folder}: {resume.described(differing)}; --force goes on all the same, and keeps such rows apart"
        )
    points = manifest.merged(before.points, wanted.points)
    mentioned = {entry.identity for entry in points}
    others = [entry for entry in before.points if entry.identity not in mentioned]
    if others:
        named = ", ".join(entry.folder for entry in others[:SHOWN]) + (", …" if len(others) > SHOWN else "")
        log.warning("%d points of the sweep are not of this command line; their records stay: %s", len(others), named)
    began_with = before.made_with or wanted.made_with
    Manifest(before.arguments or wanted.arguments, began_with, points + others, before.jobs).write(folder)
    folders = [entry.folder for entry in points]
    statuses = [
        resume.settled_status(folder / name, asked.retry, world_size)
        for name, world_size in zip(folders, world_sizes, strict=True)
    ]
    is_open = [index for index, status in enumerate(statuses) if not status]
    return Agenda(folder, folders, is_open, list(filter(None, statuses)), differing)


def made_with(started: LaunchContext, agents: Agents, launcher: Launcher) -> dict[str, str]:
    """Software, hosts and launcher that a resumed sweep must share with its beginning."""
    known = checkout()
    runs_by = started.by if launcher.runs_here else type(launcher).__name__
    shared = {
        "benchkit": benchkit.__version__,
        "commit": "+".join(filter(None, (known["git_commit"], known["git_diff_hash"]))),
        "torch": metadata.version("torch"),
        "launcher": runs_by,
    }
    if not launcher.runs_here:  # the hosts are Slurm's to choose
        return shared
    hosts = " ".join(sorted({member.host for member in agents.members}))
    return {**shared, "hosts": hosts, "agents": str(started.count)}


def meeting_folder(naming: str) -> Path:
    """Where agents meet: the part of a sweep's folder that has no time stamp, which is the same for all of them."""
    return Path(*itertools.takewhile(lambda part: "${" not in part, Path(naming).parts))

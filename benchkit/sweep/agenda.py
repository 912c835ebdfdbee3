"""The agenda of a sweep: agent 0 claims the folder and determines the open points."""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from benchkit.api.keys import RunConfig
from benchkit.errors import ConfigError
from benchkit.point.point import Point
from benchkit.point.point_folder import claim_folder
from benchkit.record import files
from benchkit.record.naming import escape_unprintable
from benchkit.secrets import mask_words
from benchkit.sweep import manifest, resume
from benchkit.sweep.manifest import Manifest, PointEntry
from benchkit.sweep.resume import Resume
from benchkit.sweep.sweep_folder import LOG_FILE, require_unused
from launch import trust
from launch.agents.messages import SweepEnds

SHOWN = 20
log = logging.getLogger("benchkit")


Name = Annotated[str, Meta(pattern=r"\A(?!\.{1,2}\Z)[^/\0]+\Z")]
"""Name of a file or folder in a known folder."""
Below = Annotated[str, Meta(pattern=r"\A(?!\.{1,2}(/|\Z))[^/\0]+(/(?!\.{1,2}(/|\Z))[^/\0]+)*\Z")]
"""Path of a folder, relative to a known folder above it."""


@dataclass(frozen=True)
class AgendaMessage:
    """Agent 0's message on its agenda; `names` are trailing parts of the sweep's folder."""

    names: Sequence[Name]
    folders: list[Below]
    open: list[Annotated[int, Meta(ge=0)]]


@dataclass(frozen=True)
class Agenda:
    """The points of a sweep, and which of them are open.

    Attributes:
        folders: folders of all points, relative to the sweep's folder.
        open_indexes: indexes of the points to measure.
        statuses: statuses of the points that are measured already.
        resumed_with: conditions that differ from the sweep's start, as [then, now] by name.
    """

    folder: Path
    folders: list[str]
    open_indexes: list[int]
    statuses: list[str]
    resumed_with: dict[str, list[str]]

    def message(self, parent: Path) -> AgendaMessage:
        """Return the message to the other agents, which know the folder's `parent`."""
        return AgendaMessage(self.folder.relative_to(parent).parts, self.folders, self.open_indexes)

    def open_points(
        self,
        configs: Sequence[RunConfig],
        entries: Sequence[PointEntry],
        num_agents: int,
        typed: Sequence[Mapping[str, str]] = (),
    ) -> list[Point]:
        """Return the points to measure; `typed` has Composed.interpolations of each point."""
        return [
            Point(
                configs[index],
                (self.folder / self.folders[index]).absolute(),
                entries[index].overrides,
                num_agents,
                self.resumed_with,
                entries[index].repetition,
                typed[index] if typed else {},
            )
            for index in self.open_indexes
        ]

    @classmethod
    def from_message(
        cls, message: AgendaMessage, folder: Path, parent: Path, num_points: int
    ) -> "Agenda":
        """Return agent 0's agenda on another agent, which has named its own `folder`.

        The message has the names below `parent`, such as a time stamp. Raise SweepEnds for another
        number of points.
        """
        num_names = len(folder.relative_to(parent).parts)
        if (len(message.names), len(message.folders)) != (num_names, num_points):
            raise SweepEnds("agent 0 tells an agenda of another sweep")
        if any(index >= num_points for index in message.open):
            raise SweepEnds("agent 0 tells points that there are not")
        return cls(parent.joinpath(*message.names), message.folders, message.open, [], {})


def prepare_agenda(
    folder: Path,
    wanted: Manifest,
    world_sizes: Sequence[int | None],
    resume_options: Resume | None,
    exit_stack: contextlib.ExitStack,
) -> Agenda:
    """Claim the sweep's folder for this process, write the manifest, and return the agenda.

    Raise ConfigError if the folder is in use, or does not suit the command line.

    Args:
        world_sizes: ranks of each point now; None if unknown.
        exit_stack: receives the claim on the folder.
    """
    trust.make_folder(folder)
    exit_stack.enter_context(claim_folder(folder))
    if resume_options and manifest.has_sweep(folder):
        return resume_agenda(folder, wanted, world_sizes, resume_options)
    return new_agenda(folder, wanted)


def new_agenda(folder: Path, wanted: Manifest) -> Agenda:
    """Return the agenda of a sweep in an unused folder: every point is open."""
    names = [entry.folder for entry in wanted.points]
    require_unused(folder, names)
    require_no_links(folder, wanted.points)
    wanted.write(folder)
    return Agenda(folder, names, list(range(len(names))), [], {})


def resume_agenda(
    folder: Path, wanted: Manifest, world_sizes: Sequence[int | None], resume_options: Resume
) -> Agenda:
    """Return the agenda of an earlier sweep, after adding the points that it lacks.

    Raise ConfigError if software, hosts or launcher differ from its start, without --force.
    """
    before = manifest.read(folder)
    differing = resume.differences(before.made_with, wanted.made_with)
    if differing and not resume_options.force:
        raise ConfigError(
            f"{folder}: {resume.format_differences(differing)}; "
            "--force goes on all the same, and keeps such rows apart"
        )
    points = manifest.merge_entries(before.points, wanted.points)
    require_no_links(folder, points)
    identities = {entry.identity for entry in points}
    other_entries = [entry for entry in before.points if entry.identity not in identities]
    if other_entries:
        warn_of_others(other_entries)
    Manifest(
        arguments=mask_words(before.arguments) or wanted.arguments,
        made_with=before.made_with or wanted.made_with,
        points=[
            replace(entry, overrides=mask_words(entry.overrides))
            for entry in points + other_entries
        ],
        jobs=before.jobs,
        started_in=before.started_in if before.arguments else wanted.started_in,
    ).write(folder)
    return agenda_of(folder, points, world_sizes, resume_options.retry, differing)


def require_no_links(folder: Path, points: Sequence[PointEntry]) -> None:
    """Raise ConfigError if a log or a trace would be written through a link or pipe."""
    folders = (part for point in points for part in Path(point.folder).parts[:1])
    for name in dict.fromkeys((LOG_FILE, *folders)):
        for path in files.find_special_files(folder / name):
            raise ConfigError(f"{path}: neither a file nor a folder; allowed in a sweep are these")


def agenda_of(
    folder: Path,
    points: Sequence[PointEntry],
    world_sizes: Sequence[int | None],
    retry: str = "none",
    differing: dict[str, list[str]] | None = None,
) -> Agenda:
    """Return the agenda of a sweep whose points may have records; write nothing."""
    folders = [entry.folder for entry in points]
    statuses = [
        resume.settled_status(folder / name, retry, world_size)
        for name, world_size in zip(folders, world_sizes, strict=True)
    ]
    open_indexes = [index for index, status in enumerate(statuses) if not status]
    settled = [status for status in statuses if status]
    return Agenda(folder, folders, open_indexes, settled, differing or {})


def warn_of_others(entries: Sequence[PointEntry]) -> None:
    names = ", ".join(escape_unprintable(entry.folder, keep="") for entry in entries[:SHOWN])
    if len(entries) > SHOWN:
        names += ", …"
    log.warning(
        "%d points of the sweep are not of this command line; their records stay: %s",
        len(entries),
        names,
    )

"""`--dry-run`: the points of a sweep with what is known of them before any rank starts."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchkit.api.case import shortage
from benchkit.api.memory import host_available_bytes
from benchkit.errors import ConfigError
from benchkit.point.agents import AgentGroup
from benchkit.point.forming import gather_facts
from benchkit.point.placement import Placement, place_ranks
from benchkit.point.point import Point
from benchkit.point.recording import new_record
from benchkit.record import files
from benchkit.record.naming import readable
from benchkit.sweep import manifest
from benchkit.sweep.agenda import Agenda, agenda_of
from benchkit.sweep.entries import Entry, merged
from benchkit.sweep.folder import require_unused
from benchkit.sweep.point_lines import duration, point_head
from benchkit.sweep.resume import Resume
from launch.agents.group import alone

MOST_SWEEPS = 50
"""Earlier sweeps that are looked through for the same points, from the newest on."""


class Timed(msgspec.Struct):
    """The part of a record that says how long its point took."""

    status: str
    phases_s: dict[str, float]


@dataclass(frozen=True)
class Forecast:
    """What is known of a point before it runs.

    Attributes:
        head: what is measured, where, and with which settings.
        needed: the memory that its ranks need, in words; "" where only they will know.
        status: ok; unavailable or skipped if it could not run.
        problem: why it could not run; "" if nothing is known against it.
        seconds: how long the same point took earlier; None if it is not known.
        per_case_s: the most that a case is timed, with its warm-up, in seconds.
    """

    head: str
    needed: str
    status: str
    problem: str
    seconds: float | None
    per_case_s: float

    def __str__(self) -> str:
        if self.problem:
            return f"{self.head}  {self.status.upper()}: {self.problem}"
        time = f"up to {duration(self.per_case_s)} per case"
        if self.seconds is not None:
            time = f"about {duration(self.seconds)}, as before"
        return f"{self.head}  {', '.join(filter(None, (time, self.needed)))}"


def agenda(folder: Path, points: Sequence[Entry], asked: Resume | None) -> Agenda:
    """Returns which points of a command line are still to be measured; writes nothing.

    Raises:
        ConfigError: the folder holds no sweep to go on with, or records of another one.
    """
    if asked is None:
        require_unused(folder, [entry.folder for entry in points])
        return agenda_of(folder, points, [None] * len(points))
    known = merged(manifest.read(folder).points, points)
    return agenda_of(folder, known, [None] * len(known), asked.retry)


def forecasts(
    points: Sequence[Point], keys: Sequence[str], outputs: Path, runs_here: bool
) -> list[Forecast]:
    """Forecasts points without starting ranks or writing files.

    Args:
        points: composed and checked.
        keys: of their configurations.
        outputs: folder with the folders of earlier sweeps.
        runs_here: whether the points would run on this host, whose devices and memory then count.
    """
    earlier = earlier_seconds(set(keys), outputs)
    agents = alone()
    group = AgentGroup(agents, gather_facts(agents)) if runs_here else None
    free_bytes = host_available_bytes()
    found = []
    for point, key in zip(points, keys, strict=True):
        plan = place_ranks(point.config, group) if group else point.unplaced()
        measure = point.config.measure
        needed_bytes = point.config.needed_bytes(plan.world_size)
        status, problem = obstacle(point, plan, needed_bytes, free_bytes if runs_here else None)
        found.append(
            Forecast(
                point_head(new_record(point, plan)),
                needed_text(plan.world_size, needed_bytes),
                status,
                problem,
                earlier.get(key),
                measure.max_seconds + measure.max_warmup_seconds,
            )
        )
    return found


def needed_text(world_size: int, needed_bytes: float | None) -> str:
    """Returns the memory of all ranks in words: "2 x 20 MiB"; "" if it is not known."""
    return f"{world_size} x {readable(needed_bytes)}" if needed_bytes else ""


def obstacle(
    point: Point, plan: Placement, needed_bytes: float | None, free_bytes: int | None
) -> tuple[str, str]:
    """Returns the status that a point would end with and why; ("ok", "") if it could run."""
    if plan.problem:
        return "unavailable", plan.problem
    if needed_bytes and free_bytes is not None and point.config.hardware.device == "cpu":
        lack = shortage(needed_bytes, plan.world_size, free_bytes)
        return ("skipped", lack) if lack else ("ok", "")
    return "ok", ""


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
        return msgspec.json.decode((folder / files.FILE_NAME).read_bytes(), type=Timed)
    except (OSError, ValueError):
        return None


def described(found: Sequence[Forecast], num_settled: int) -> list[str]:
    """Returns a line per point and one about all of them.

    Args:
        found: of the points to measure.
        num_settled: points of the sweep that are measured already.
    """
    width = len(str(len(found)))
    lines = [f"[{i:>{width}}/{len(found)}] {point}" for i, point in enumerate(found, 1)]
    counts = Counter(point.status for point in found)
    parts = [f"{counts['ok']} of {len(found)} points can run"] if found else []
    parts += [f"{counts[name]} {name}" for name in ("unavailable", "skipped") if counts[name]]
    if num_settled:
        parts.append(f"{num_settled} measured already")
    known = [each.seconds for each in found if each.status == "ok" and each.seconds is not None]
    new = [each.per_case_s for each in found if each.status == "ok" and each.seconds is None]
    if known:
        parts.append(f"{len(known)} took {duration(sum(known))} together before")
    if new:
        ones = "one" if len(new) == 1 else "ones"
        parts.append(f"{len(new)} new {ones}, up to {duration(sum(new))} for one case of each")
    return [*lines, "", "; ".join(parts), "Nothing was run (--dry-run)."]

"""`python -m benchkit status [DIR]`: print the progress of a sweep, wherever it runs."""

import datetime
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchkit.errors import ConfigError
from benchkit.point.point_folder import FILE_NAME as CLAIM_FILE
from benchkit.point.point_folder import Owner, is_alive, owner_of
from benchkit.record import files
from benchkit.record.naming import escape_unprintable
from benchkit.record.record import HARMLESS, UNFINISHED, Seconds
from benchkit.sweep import manifest
from benchkit.sweep.manifest import PointEntry
from benchkit.sweep.tally import PROGRESS_FILE
from launch.host import node_name

LATEST = Path("outputs") / "latest"
SHOWN = 20


def exit_code(statuses: Sequence[str]) -> int:
    """Return 1 where a point failed, or where points ran and none was measured; else 0."""
    failed = any(status not in HARMLESS for status in statuses)
    return 1 if failed or (statuses and "ok" not in statuses) else 0


class Brief(msgspec.Struct):
    """The part of a record with the outcome of its point; samples are not read."""

    status: str
    started_at: str
    error: dict[str, object] | None = None

    @property
    def reason(self) -> str:
        lines = str((self.error or {}).get("message", "")).splitlines()
        return lines[0] if lines else "no reason given"


class TimeLeft(msgspec.Struct):
    seconds_left: Seconds


def main(arguments: list[str]) -> int:
    """Print the progress of a sweep, or of each of a study; return 1 if a point failed, else 0."""
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        raise ConfigError(f"status {' '.join(arguments)}: allowed is one folder, or none: {LATEST}")
    folder = Path(arguments[0]) if arguments else LATEST
    if not folder.is_dir():
        raise ConfigError(f"status {folder}: no such folder")
    return max(map(report, sweeps_in(folder)))


def sweeps_in(folder: Path) -> list[Path]:
    """Return the folder of a sweep, or those of a study's sweeps in the order of their start.

    Raise ConfigError if none has begun.
    """
    if not (folder / manifest.STUDY).exists():
        return [folder]
    begun = sorted(folder.glob(f"*/{manifest.FILE_NAME}"), key=lambda path: path.stat().st_mtime)
    if not begun:
        raise ConfigError(f"status {folder}: no sweep of this study has begun")
    return [path.parent for path in begun]


def report(folder: Path) -> int:
    sweep = manifest.read(folder, is_run=False)
    points = sweep.points
    briefs = [brief(folder / point.folder) for point in points]
    ended = [item for item in briefs if item and item.status not in UNFINISHED]
    failed = [item for item in ended if item.status not in HARMLESS]
    jobs = sweep.jobs if len(ended) < len(points) else []
    for line in describe(folder, points, briefs, queue_text(jobs)):
        print(escape_unprintable(line, keep=""))
    return int(bool(failed))


def queue_text(jobs: list[manifest.SubmittedJob]) -> str:
    """Return the states of a sweep's Slurm jobs as text; "" if none is pending or running."""
    from benchkit.sweep.job_queues import SlurmQueue  # it imports all that a job runs

    return SlurmQueue(None, [], jobs).to_text() if jobs else ""


def brief(folder: Path) -> Brief | None:
    """Return the outcome of the point in a folder; None without a readable record."""
    try:
        return files.read_json(folder / files.FILE_NAME, Brief)
    except (OSError, ValueError):
        return None


def describe(
    folder: Path, points: list[PointEntry], briefs: list[Brief | None], queued: str = ""
) -> list[str]:
    """Return the lines about a sweep: counts, its owner, the time left, failed points."""
    statuses = Counter(item.status for item in briefs if item)
    num_ended = sum(count for name, count in statuses.items() if name not in UNFINISHED)
    counts = ", ".join(f"{count} {name}" for name, count in statuses.most_common())
    lines = [f"{folder}: {num_ended} of {len(points)} points have ended ({counts or 'none begun'})"]
    owner = owner_of(folder / CLAIM_FILE)
    if num_ended < len(points):
        lines += owner_lines(folder, owner, queued)
    pairs = list(zip(points, briefs, strict=True))
    running = [(point, item) for point, item in pairs if item and item.status == "running"]
    if queued or (owner and is_owner_alive(owner)):
        lines += [
            f"running: {point_text(point)}, since {item.started_at}" for point, item in running
        ]
    bad = [(point, item) for point, item in pairs if item and item.status not in ("ok", "running")]
    lines += [f"{item.status}: {point_text(point)}: {item.reason}" for point, item in bad[:SHOWN]]
    if len(bad) > SHOWN:
        lines.append(f"and {len(bad) - SHOWN} more points that are not ok")
    return lines


def owner_lines(folder: Path, owner: Owner | None, queued: str) -> list[str]:
    """Return the owner of a sweep and its expected end, or how to resume it."""
    if owner is None or not is_owner_alive(owner):
        if queued:
            return [queued, f"`python -m benchkit --resume {folder}` waits for it again"]
        return [f"no process works on it; `python -m benchkit --resume {folder}` measures the rest"]
    lines = [queued] if queued else []
    try:
        left_s = files.read_json(folder / PROGRESS_FILE, TimeLeft).seconds_left
    except (OSError, ValueError):
        return [f"{owner} works on it", *lines]
    end = datetime.datetime.now() + datetime.timedelta(seconds=left_s)
    left = datetime.timedelta(seconds=round(left_s))
    return [f"{owner} works on it; about {left} left, until {end:%Y-%m-%d %H:%M}", *lines]


def is_owner_alive(owner: Owner) -> bool:
    """Return whether an owner is alive; on another host it counts as alive."""
    return is_alive(owner) or owner.host != node_name()


def point_text(point: PointEntry) -> str:
    overrides = " ".join(point.overrides)
    return f"folder {point.folder} ({overrides})" if overrides else f"folder {point.folder}"

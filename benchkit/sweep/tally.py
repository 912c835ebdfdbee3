"""Count the points of a sweep as they end, and estimate how long the rest will take."""

import contextlib
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean

import msgspec

from benchkit.errors import ConfigError
from benchkit.point.point import Point
from benchkit.record import files
from benchkit.record.record import HARMLESS, UNFINISHED
from benchkit.sweep import manifest
from launch.agents.channel import SweepEnds

MOST_SWEEPS = 50  # earlier sweeps that are searched for the same points, newest first


class Timed(msgspec.Struct):
    """The part of a record that says how long its point took."""

    status: str
    phases_s: dict[str, float]


def earlier_seconds(wanted: set[str], outputs: Path) -> Mapping[str, float]:
    """Return how long points took when they last succeeded, in seconds, by key."""
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
    """Yield the folders of earlier sweeps, at most MOST_SWEEPS, the newest first."""
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


PROGRESS_FILE = "progress.json"


@dataclass(frozen=True)
class Prospect:
    """What is known of a point before it is measured.

    `needed_bytes` are those of all ranks, 0 if unknown; `earlier_s` the time in an earlier sweep.
    """

    suite: str
    needed_bytes: float = 0.0
    earlier_s: float | None = None

    def distance(self, other: "Prospect") -> float:
        """Return how far apart the sizes of two points are, in powers of two."""
        return abs(math.log2(1 + self.needed_bytes) - math.log2(1 + other.needed_bytes))


def prospects(points: Sequence[Point], keys: Sequence[str], outputs: Path) -> list[Prospect]:
    """Return what is known of points; earlier sweeps are read only for several."""
    earlier = earlier_seconds(set(keys), outputs) if len(points) > 1 else {}
    found = []
    for point, key in zip(points, keys, strict=True):
        world_size = point.unplaced().world_size
        needed_bytes = world_size * (point.config.needed_bytes(world_size) or 0.0)
        found.append(Prospect(point.config.suite, needed_bytes, earlier.get(key)))
    return found


class Tally:
    """Count the points of a sweep as they end, and keep progress.json in its folder."""

    def __init__(
        self,
        folder: Path,
        statuses_before: list[str],
        points: Sequence[Prospect],
        max_failures: int | None,
    ) -> None:
        self.statuses = list(statuses_before)
        self._folder = folder
        self._points = points
        self._num_open = len(points)
        self._before = len(statuses_before)
        self._max_failures = max_failures
        self._failed_in_row = 0
        self._last_s = time.monotonic()
        self._taken_s: list[float] = []
        self._write()

    @property
    def num_left(self) -> int:
        """The points that --resume would measure: not begun yet, or cut off."""
        cut_off = sum(status in UNFINISHED for status in self.statuses)
        return self._before + self._num_open - len(self.statuses) + cut_off

    def add(self, status: str) -> None:
        """Count one more point; raise SweepEnds if too many have failed one after another."""
        self.statuses.append(status)
        now_s = time.monotonic()
        self._taken_s.append(now_s - self._last_s)
        self._last_s = now_s
        if status not in UNFINISHED:
            self._failed_in_row = 0 if status in HARMLESS else self._failed_in_row + 1
        self._write()
        if self._max_failures and self._failed_in_row >= self._max_failures:
            in_row = self._failed_in_row
            points = "1 point" if in_row == 1 else f"{in_row} points in a row"
            raise SweepEnds(f"{points} failed (max_failures={self._max_failures})")

    def seconds_left(self) -> float | None:
        """Estimate the seconds for the remaining points; None before the first has ended.

        A point takes its time in an earlier sweep. Without one, it takes that of the ended points
        whose size is nearest, of its suite if there are any.
        """
        if not self._taken_s:
            return None
        return sum(map(self._expected_s, self._points[len(self._taken_s) :]))

    def _expected_s(self, point: Prospect) -> float:
        if point.earlier_s is not None:
            return point.earlier_s
        ended = list(zip(self._points, self._taken_s, strict=False))
        alike = [each for each in ended if each[0].suite == point.suite] or ended
        nearest = min(point.distance(other) for other, _ in alike)
        return fmean(seconds for other, seconds in alike if point.distance(other) == nearest)

    def _write(self) -> None:
        left_s = self.seconds_left()
        now = datetime.now(timezone.utc)
        content = {
            "points": self._before + self._num_open,
            "ended": len(self.statuses),
            "statuses": Counter(self.statuses),
            "seconds_left": None if left_s is None else round(left_s, 1),
            "written_at": now.isoformat(timespec="seconds"),
        }
        with contextlib.suppress(OSError):  # a convenience: the records say the same
            path = self._folder / PROGRESS_FILE
            files.write_whole(path, msgspec.json.encode(content), durable=False)

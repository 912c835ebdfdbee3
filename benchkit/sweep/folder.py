"""What agent 0 writes into a sweep's folder beside the points: log, progress and final table."""

import contextlib
import datetime
import logging
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.statuses import HARMLESS, UNFINISHED
from benchkit.selftest import lookup
from benchkit.sweep import manifest, resume
from launch.agents.member import SweepEnds

PROGRESS_FILE = "progress.json"
ON_END_S = 600.0
"""Seconds that the command of on_end may take."""
log = logging.getLogger("benchkit")


class QuietFileHandler(logging.FileHandler):
    """Drops a line when the disk is full, instead of printing a traceback for each."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Does nothing; logging calls it when a line cannot be written."""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class Tally:
    """Counts the points of a sweep as they end, and keeps progress.json in its folder.

    Attributes:
        statuses: of all points that have ended, those measured before among them.
    """

    def __init__(
        self, folder: Path, statuses_before: list[str], num_open: int, max_failures: int | None
    ) -> None:
        """Begins with the points that are measured already.

        Args:
            folder: of the sweep.
            statuses_before: of the points that are measured already.
            num_open: points that are still to be measured.
            max_failures: points that may fail one after another; None: any number.
        """
        self.statuses = list(statuses_before)
        self._folder = folder
        self._num_open = num_open
        self._before = len(statuses_before)
        self._max_failures = max_failures
        self._failed_in_row = 0
        self._began_s = time.monotonic()
        self._write()

    @property
    def num_left(self) -> int:
        """The points that --resume would measure: not begun yet, or cut off."""
        cut_off = sum(status in UNFINISHED for status in self.statuses)
        return self._before + self._num_open - len(self.statuses) + cut_off

    def add(self, status: str) -> None:
        """Counts one more point; raises SweepEnds if too many have failed one after another."""
        self.statuses.append(status)
        if status not in UNFINISHED:
            self._failed_in_row = 0 if status in HARMLESS else self._failed_in_row + 1
        self._write()
        if self._max_failures and self._failed_in_row >= self._max_failures:
            in_row = self._failed_in_row
            points = "1 point" if in_row == 1 else f"{in_row} points in a row"
            raise SweepEnds(f"{points} failed (max_failures={self._max_failures})")

    def seconds_left(self) -> float | None:
        """Estimates the time for the remaining points from the mean time of those that have ended.

        Returns:
            Seconds; None before the first point has ended.
        """
        ended = len(self.statuses) - self._before
        if not ended:
            return None
        return (time.monotonic() - self._began_s) / ended * (self._num_open - ended)

    def _write(self) -> None:
        left_s = self.seconds_left()
        now = datetime.datetime.now(datetime.timezone.utc)
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


@contextlib.contextmanager
def logged(folder: Path) -> Iterator[None]:
    """Copies benchkit's log to the sweep's folder, and prints the table however the sweep ends."""
    remember_latest(folder)
    lines = QuietFileHandler(folder / "benchkit.log")
    log.addHandler(lines)
    try:
        yield
    finally:
        print_table(folder)
        log.removeHandler(lines)
        lines.close()


def remember_latest(folder: Path) -> None:
    """Links `latest` beside the folder to it, so that `python -m analysis outputs/latest` works."""
    link = folder.parent / "latest"
    fresh = folder.parent / f".latest-{os.getpid()}"
    try:
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    except OSError:
        # The file system has no links, or there is a folder of that name: only a convenience.
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def print_table(folder: Path) -> None:
    """Prints the combined table of all records below the sweep's folder."""
    from analysis.records.harvest import harvest
    from analysis.repetitions import over_repetitions
    from analysis.run_spread import describe_floor
    from analysis.table import combine
    from analysis.terminal import as_text

    found = harvest([folder])
    for line in found.remarks():
        log.warning(line)
    if problem := lookup.problem():
        log.warning(problem)
    if found.rows:
        table = combine(found.rows)
        if floor := describe_floor(table):
            floor = f"\n\n{floor}"
        log.info(
            "\n%s%s\n\nrecords: %s   tables and plots: python -m analysis %s",
            as_text(over_repetitions(table)),
            floor,
            folder,
            folder,
        )


def run_at_end(command: str, folder: Path, statuses: list[str], num_left: int) -> None:
    """Runs the command of `on_end`; its environment says how the sweep ended."""
    failed = sum(status not in HARMLESS for status in statuses)
    environment = os.environ | {
        "BENCHKIT_SWEEP": str(folder.absolute()),
        "BENCHKIT_FAILED": str(failed),
        "BENCHKIT_LEFT": str(num_left),
    }
    try:
        done = subprocess.run(["sh", "-c", command], env=environment, timeout=ON_END_S, check=False)
        problem = f"exit code {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        log.warning("on_end=%s: %s", command, problem)


def require_unused(folder: Path, subfolders: list[str]) -> None:
    """Raises ConfigError if the records of a fresh sweep would overwrite others."""
    if (folder / manifest.FILE_NAME).exists():
        points = manifest.read(folder).points
        num_open = sum(not resume.settled_status(folder / point.folder) for point in points)
        if num_open:
            raise ConfigError(
                f"hydra.sweep.dir={folder}: holds a sweep with {num_open} of {len(points)} points "
                f"to be measured; `python -m benchkit --resume {folder}` goes on with it, "
                "else choose another folder"
            )
        raise ConfigError(
            f"hydra.sweep.dir={folder}: holds a sweep already; allowed is a folder without"
        )
    named = (folder / name / files.FILE_NAME for name in subfolders)
    if any(folder.glob(f"*/{files.FILE_NAME}")) or any(path.exists() for path in named):
        raise ConfigError(
            f"hydra.sweep.dir={folder}: holds records already; allowed is a folder without"
        )

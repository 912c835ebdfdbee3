"""Counts the points of a sweep as they end, and estimates how long the rest will take."""

import contextlib
import datetime
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from benchkit.record import files
from benchkit.record.statuses import HARMLESS, UNFINISHED
from launch.agents.member import SweepEnds

PROGRESS_FILE = "progress.json"


class Tally:
    """Counts the points of a sweep as they end, and keeps progress.json in its folder.

    Attributes:
        statuses: of all points that have ended, those measured before among them.
    """

    def __init__(
        self,
        folder: Path,
        statuses_before: list[str],
        suites: Sequence[str],
        max_failures: int | None,
    ) -> None:
        """Begins with the points that are measured already.

        Args:
            folder: of the sweep.
            statuses_before: of the points that are measured already.
            suites: of the points that are still to be measured, in order.
            max_failures: points that may fail one after another; None: any number.
        """
        self.statuses = list(statuses_before)
        self._folder = folder
        self._suites = suites
        self._num_open = len(suites)
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
        """Counts one more point; raises SweepEnds if too many have failed one after another."""
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
        """Estimates the time for the remaining points from those that have ended.

        A point takes as long as the mean of its suite; of a suite none of whose points has ended,
        as long as the mean of all.

        Returns:
            Seconds; None before the first point has ended.
        """
        if not self._taken_s:
            return None
        by_suite: dict[str, list[float]] = {}
        for suite, seconds in zip(self._suites, self._taken_s, strict=False):
            by_suite.setdefault(suite, []).append(seconds)
        left = self._suites[len(self._taken_s) :]
        return sum(fmean(by_suite.get(suite, self._taken_s)) for suite in left)

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

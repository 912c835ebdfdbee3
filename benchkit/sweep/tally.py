"""Count the points of a sweep as they end, and estimate how long the rest will take."""

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from benchkit.record import files
from benchkit.record.record import HARMLESS, UNFINISHED
from launch.agents.messages import SweepEnds

PROGRESS_FILE = "progress.json"


class Tally:
    """Count the points of a sweep as they end, and keep progress.json in its folder.

    `expected_s` has the expected seconds of each open point, in the order in which they end.
    """

    def __init__(
        self,
        folder: Path,
        statuses_before: list[str],
        expected_s: Sequence[float],
        max_failures: int | None,
    ) -> None:
        self.statuses = list(statuses_before)
        self._folder = folder
        self._expected_s = expected_s
        self._num_open = len(expected_s)
        self._before = len(statuses_before)
        self._max_failures = max_failures
        self._failed_in_row = 0
        self._began_s = time.monotonic()
        self._write()

    @property
    def num_left(self) -> int:
        """Number of points that --resume would measure: not begun yet, or cut off."""
        cut_off = sum(status in UNFINISHED for status in self.statuses)
        return self._before + self._num_open - len(self.statuses) + cut_off

    def add(self, status: str) -> None:
        """Count one more point; raise SweepEnds if too many have failed one after another."""
        self.statuses.append(status)
        if status not in UNFINISHED:
            self._failed_in_row = 0 if status in HARMLESS else self._failed_in_row + 1
        self._write()
        if self._max_failures and self._failed_in_row >= self._max_failures:
            in_row = self._failed_in_row
            points = "1 point" if in_row == 1 else f"{in_row} points in a row"
            raise SweepEnds(f"{points} failed (max_failures={self._max_failures})")

    def seconds_left(self) -> float:
        """Return the seconds expected for the remaining points.

        Their forecast is scaled by elapsed over expected seconds of the finished points.
        """
        num_ended = len(self.statuses) - self._before
        ended_s, left_s = (sum(self._expected_s[:num_ended]), sum(self._expected_s[num_ended:]))
        if not ended_s:
            return left_s
        return left_s * (time.monotonic() - self._began_s) / ended_s

    def _write(self) -> None:
        left_s = self.seconds_left()
        now = datetime.now(timezone.utc)
        content = {
            "points": self._before + self._num_open,
            "ended": len(self.statuses),
            "statuses": Counter(self.statuses),
            "seconds_left": round(left_s, 1),
            "written_at": now.isoformat(timespec="seconds"),
        }
        with contextlib.suppress(OSError):  # only a convenience: the records have the same
            path = self._folder / PROGRESS_FILE
            files.write_atomically(path, msgspec.json.encode(content), durable=False)

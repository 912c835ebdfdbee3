"""Reads clocks, power and temperature of this rank's GPU as cases take turns, outside the clock."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchkit.api.case import Case
from benchkit.rank.devices import Devices
from benchkit.rank.gpu_warnings import Seen, gpu_warnings
from benchkit.record.gpu_state import FIELDS, READINGS

FRESH_S = 0.1
"""A younger reading is used again: NVML renews its values no more often, and a call takes time."""
AFTER_MHZ = FIELDS.index("gpu_sm_mhz_after")
Exchange = Callable[[list[float]], list[list[float]]]


@dataclass
class GpuWatch:
    """The readings of this rank's GPU around the turns of each case.

    Attributes:
        devices: of all ranks.
        now: seconds on a monotonic clock.
        warnings: what readers of all figures of the point must know, once end() has run.
    """

    devices: Devices
    now: Callable[[], float] = time.monotonic
    warnings: list[str] = field(default_factory=list)
    _before: dict[Case, list[float]] = field(default_factory=dict)
    _after: dict[Case, list[float]] = field(default_factory=dict)
    _reasons: dict[Case, int] = field(default_factory=dict)
    _running: Case | None = None
    _last: tuple[float, list[float]] = (float("-inf"), [])
    _strangers: int = 0

    def turn_to(self, case: Case | None) -> None:
        """Takes the reading after the case that had the turn, and before the one that gets it."""
        gpu = self.devices.gpu
        if gpu is None:
            return
        if case is None or not self._before:  # at both ends of all turns
            found = gpu.strangers(self.devices.pids, self.devices.num_processes)
            self._strangers = max(self._strangers, found)
        read_at, values = self._last
        if self.now() - read_at >= FRESH_S:
            values = gpu.reading()
            self._last = (self.now(), values)
        *state, reasons = values
        if self._running is not None:
            self._after[self._running] = state
            self._reasons[self._running] = self._reasons.get(self._running, 0) | int(reasons)
        if case is not None:
            self._before.setdefault(case, state)
        self._running = case

    def end(self, cases: Sequence[Case], exchange: Exchange) -> list[dict[str, list[float]]]:
        """Ends the last turn; all ranks call this together.

        Returns:
            For each case FIELDS with one number per rank, 0 where it is not known; {} where no rank
            has any.
        """
        self.turn_to(None)
        own = [float(self.devices.is_unread), float(self._strangers)]
        for case in cases:
            own += self._values(case)
        rows = exchange(own)
        width = len(FIELDS)
        starts = range(2, len(own), width)
        tables = [[row[start : start + width] for row in rows] for start in starts]
        seen = [
            Seen(
                is_unread=bool(row[0]),
                strangers=int(row[1]),
                reasons=[int(table[rank][-1]) for table in tables],
                sm_mhz=[table[rank][AFTER_MHZ] for table in tables],
            )
            for rank, row in enumerate(rows)
        ]
        self.warnings = gpu_warnings(seen)
        return [by_field(table) for table in tables]

    def _values(self, case: Case) -> list[float]:
        """Returns FIELDS of this rank; 0 where nothing was read."""
        unknown = [0.0] * len(READINGS)
        before, after = (of.get(case, unknown) for of in (self._before, self._after))
        return [*before, *after, float(self._reasons.get(case, 0))]


def by_field(table: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """Returns the values [rank][field] of a case as [rank] by name; {} if all are 0."""
    if not any(map(any, table)):
        return {}
    return dict(zip(FIELDS, map(list, zip(*table, strict=True)), strict=True))

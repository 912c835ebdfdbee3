"""What a verdict judges: a table of measurements, and what may be slow in it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.suites.acceptance.findings import Finding, Ranks, cause_of, named
from benchkit.statistics.faults.cells import Fault, Limits
from benchkit.statistics.faults.explain import detectable
from benchkit.statistics.faults.peers import Peers
from benchkit.statistics.intervals import Array

LARGEST = 10.0
"""A table in which no smaller ratio is found does not tell whether all are alike."""
STEADY = 2.0
"""How many times the change from half to half a difference between only two must be."""
TRUSTED_SD = 3.0
"""How many standard deviations of noise such a difference must be."""
MAD_TO_SD = 1.4826
"""Standard deviation over the median deviation, of normal values."""


@dataclass(frozen=True)
class Table:
    """What is judged.

    Attributes:
        name: of the measurement.
        halves: logarithm of the median time of each cell over the first and over the second half
            of the samples, or of the runs: [2][cell].
        peers: of the cells, and what may be slow; the first family has a candidate per cell.
    """

    name: str
    halves: Array
    peers: Peers

    @property
    def changes(self) -> Array:
        """How the logarithm of each cell changed from the first half to the second: [cell]."""
        return np.asarray(self.halves[1] - self.halves[0])

    def least_found(self, limits: Limits) -> float:
        """Return from which ratio on a cell is found nine times in ten; infinite without peers."""
        return detectable(self.halves, self.peers, limits) or math.inf

    def share_of(self, faults: Sequence[Fault]) -> float:
        """Return the share of the cells of faults among all cells of their kinds."""
        families = {each.name: each for each in self.peers.families}
        of_faults = [
            families[fault.family].cells[families[fault.family].subjects == fault.subject].ravel()
            for fault in faults
        ]
        every = np.unique(np.concatenate([np.array([-1]), *of_faults]))[1:]
        is_alike = np.isin(self.peers.kinds, self.peers.kinds[every])
        return len(every) / max(1, int(is_alike.sum()))

    def finding_of(self, cell: int, ratio: float, ranks: Ranks) -> Finding:
        """Return a cell and its ratio to others in the form of a finding."""
        single = self.peers.families[0]
        [position] = np.flatnonzero(single.cells[:, 0] == cell)
        fault = Fault(single.name, int(single.subjects[position]), ratio, math.nan, 1)
        return Finding(cause_of(fault, ranks), {single.name}, {self.name: ratio})


def two_of_a_kind(tables: Sequence[Table], limits: Limits, ranks: Ranks) -> Iterator[str]:
    """Say which of only two of a kind is slower, where both halves show it alike."""
    noise = TRUSTED_SD * math.sqrt(2) * max(limits.floor, noise_of(tables))
    for table in tables:
        for kind in np.unique(table.peers.kinds):
            cells = np.flatnonzero(table.peers.kinds == kind)
            if len(cells) != 2:
                continue
            first, second = table.halves[:, cells[0]] - table.halves[:, cells[1]]
            least = min(abs(first), abs(second))
            limit = max(math.log1p(limits.tolerance), noise, STEADY * abs(first - second))
            if first * second > 0 and least >= limit:
                slow = int(cells[0] if first > 0 else cells[1])
                ratio = math.exp(abs(first + second) / 2)
                name = named(table.finding_of(slow, ratio, ranks), ranks)
                yield f"{name} takes {ratio:.2f} times as long as its only peer: {table.name}."


def noise_of(tables: Sequence[Table]) -> float:
    """Return the standard deviation of a cell's logarithm in a half, by its changes in all tables.

    Two values alone do not tell how much they vary.
    """
    own = np.concatenate([table.changes - np.median(table.changes) for table in tables])
    return MAD_TO_SD * float(np.median(np.abs(own))) / math.sqrt(2)

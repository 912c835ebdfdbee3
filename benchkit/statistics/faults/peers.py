"""What is compared with what: cells with their kind, candidates with the rest of each kind."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchkit.statistics.faults.cells import Family, Ints
from benchkit.statistics.faults.healthy import HALF
from benchkit.statistics.intervals import Array

MOST_SHARE = 0.75
"""A candidate with a larger share of the cells of a kind leaves it without peers."""


@dataclass(frozen=True)
class Peers:
    """Cells that are alike, and the candidates among them.

    Attributes:
        kinds: number of the kind of each cell; only cells of one kind are compared: [cell].
        families: of candidates.
    """

    kinds: Ints
    families: Sequence[Family]

    @property
    def healthy_shares(self) -> Array:
        """The share of cells of each kind that is healthy where one candidate is slow: [kind]."""
        return self.compared[0]

    @property
    def judged(self) -> Sequence[Family]:
        """The families, judged by those cells that have peers.

        Where a candidate has nearly all cells of a kind, too few others are left to compare with.
        """
        return self.compared[1]

    @cached_property
    def compared(self) -> tuple[Array, Sequence[Family]]:
        """The healthy shares and the judged families; both follow from the share of each kind."""
        total = np.bincount(self.kinds)
        most, judged = np.full(len(total), HALF), []
        for each in self.families:
            if each.cells.shape[1] < 2:
                judged.append(each)
                continue
            candidate, place = np.nonzero(each.cells >= 0)
            owned = candidate * len(total) + self.kinds[each.cells[candidate, place]]
            found, counts = np.unique(owned, return_counts=True)
            shares = counts / total[found % len(total)]
            has_peers = shares <= MOST_SHARE
            np.maximum.at(most, found[has_peers] % len(total), shares[has_peers])
            if not has_peers.all():
                alone = np.isin(owned, found[~has_peers])
                shows = each.shows.copy()
                shows[candidate[alone], place[alone]] = -1
                each = replace(each, shows=shows)
            judged.append(each)
        return 1.0 - most, judged

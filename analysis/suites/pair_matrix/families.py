"""What may be slow in a matrix of pairs: a link, a rank, a node, a group of nodes at a switch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchkit.statistics.faults.cells import Family, family

Ints = npt.NDArray[np.int64]
ONE_WAY, LINK = "one way", "link"
RANK_SENDS, RANK_RECEIVES, RANK = "rank sends", "rank receives", "rank"
SENDS, RECEIVES, NETWORK, WHOLE = "sends", "receives", "network", "whole"
BETWEEN_ONE_WAY, BETWEEN = "between one way", "between"
"""Parts of the names of families of groups; the name of the grouping stands before them."""
NODE, SWITCH = "node", "switch"
"""Groupings of ranks."""
INSIDE, ACROSS_SOCKETS, ACROSS, ACROSS_RAILS = range(4)
"""Kinds of pairs, which are only compared among themselves."""


@dataclass(frozen=True)
class Grouping:
    """Groups of ranks.

    Attributes:
        name: NODE or SWITCH.
        of_rank: number of the group of each rank: [rank].
    """

    name: str
    of_rank: Ints

    @property
    def is_telling(self) -> bool:
        """Whether there are several groups, and one with several ranks."""
        groups = int(self.of_rank.max()) + 1
        return 1 < groups < len(self.of_rank)


def families_of(sender: Ints, receiver: Ints, *groupings: Grouping) -> list[Family]:
    """Return what may be slow, from small to large; of equal explanations the first is taken.

    Args:
        sender, receiver: ranks of each cell: [cell].
        groupings: nodes, then switches; one that tells nothing is left out.
    """
    ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
    found = [
        family(ONE_WAY, one_way(sender, receiver, ranks)),
        family(LINK, both_ways(sender, receiver, ranks)),
        family(RANK_SENDS, sender),
        family(RANK_RECEIVES, receiver),
        family(RANK, sender, receiver),
    ]
    for grouping in groupings:
        if grouping.is_telling:
            found += of_groups(grouping, sender, receiver)
    return found


def of_groups(grouping: Grouping, sender: Ints, receiver: Ints) -> list[Family]:
    """Return the families of a grouping: of each group, and of each two groups."""
    groups = int(grouping.of_rank.max()) + 1
    here, there = grouping.of_rank[sender], grouping.of_rank[receiver]
    outward, inward = (np.where(here != there, ends, -1) for ends in (here, there))
    found: list[tuple[str, tuple[Ints, ...]]] = [
        (SENDS, (outward,)),
        (RECEIVES, (inward,)),
        (NETWORK, (outward, inward)),
        (WHOLE, (here, inward)),
    ]
    if groups > 2:  # of two groups, what is between them is all that leaves either
        crosses = here != there
        found += [
            (BETWEEN_ONE_WAY, (np.where(crosses, one_way(here, there, groups), -1),)),
            (BETWEEN, (np.where(crosses, both_ways(here, there, groups), -1),)),
        ]
    return [family(f"{grouping.name} {part}", *keys) for part, keys in found]


def one_way(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Return a number for each direction between two of `count`."""
    return np.asarray(sender * count + receiver)


def both_ways(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Return a number for each two of `count`, whoever sends."""
    return np.asarray(np.minimum(sender, receiver) * count + np.maximum(sender, receiver))


def kinds_of(sender: Ints, receiver: Ints, node: Ints, part: Ints, rail: Ints | None) -> Ints:
    """Return the kind of each pair: [cell].

    Args:
        sender, receiver: ranks of each cell.
        node: of each rank.
        part: NUMA node of each rank; pairs of one node differ where these do.
        rail: place of each rank on its node, where each place has a network card; pairs across
            nodes then differ in whether they stay on their rail. None where that does not matter.
    """
    inside = node[sender] == node[receiver]
    sockets = np.where(part[sender] == part[receiver], INSIDE, ACROSS_SOCKETS)
    across = np.full(len(sender), ACROSS)
    if rail is not None:
        across = np.where(rail[sender] == rail[receiver], ACROSS, ACROSS_RAILS)
    return np.asarray(np.where(inside, sockets, across))

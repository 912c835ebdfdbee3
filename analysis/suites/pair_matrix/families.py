"""What may be slow in a matrix of pairs: a link, a rank, a node, a group of nodes at a switch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.suites.pair_matrix.sharing import Uplinks
from benchkit.statistics.faults.cells import Family, Ints, Mask, family

ONE_WAY, LINK = "one way", "link"
RANK_SENDS, RANK_RECEIVES, RANK = "rank sends", "rank receives", "rank"
RANK_NETWORK = "rank network"
SENDS, RECEIVES, NETWORK, WHOLE = "sends", "receives", "network", "whole"
INSIDE, NEAR = "inside", "near"
BETWEEN_ONE_WAY, BETWEEN = "between one way", "between"
"""Parts of the names of families of groups; the name of the grouping stands before them."""
NODE, SWITCH = "node", "switch"
"""Groupings of ranks."""
STEPS = 32
"""Steps of the share of an uplink per doubling: pairs of one step are alike."""


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
        return 1 < self.count < len(self.of_rank)

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.of_rank.max()) + 1


def families_of(
    sender: Ints,
    receiver: Ints,
    node: Grouping,
    switch: Grouping | None = None,
    uplinks: Uplinks | None = None,
) -> list[Family]:
    """Return what may be slow, from small to large; of equal explanations the first is taken.

    Args:
        sender, receiver: ranks of each cell: [cell].
        node: of each rank.
        switch, uplinks: None where switches are not known.
    """
    ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
    found = [
        family(ONE_WAY, one_way(sender, receiver, ranks)),
        family(LINK, both_ways(sender, receiver, ranks)),
        family(RANK_SENDS, sender),
        family(RANK_RECEIVES, receiver),
        family(RANK, sender, receiver),
    ]
    if node.is_telling:
        crosses = node.of_rank[sender] != node.of_rank[receiver]
        own = (np.where(crosses, ends, -1) for ends in (sender, receiver))
        found += [family(RANK_NETWORK, *own), *of_groups(node, sender, receiver)]
    if switch and uplinks and switch.is_telling:
        found += of_groups(switch, sender, receiver, uplinks.busy())
        if node.count > switch.count:
            found.append(family(f"{NODE} {NEAR}", *near(node, switch, sender, receiver)))
    return [each for each in found if len(each.subjects)]


def of_groups(
    grouping: Grouping, sender: Ints, receiver: Ints, busy: Sequence[Mask] = ()
) -> list[Family]:
    """Return the families of a grouping: of each group, and of each two groups.

    What leaves one of two groups enters the other one, so that only its direction has a peer.

    Args:
        grouping: of ranks.
        sender, receiver: ranks of each cell: [cell].
        busy: which cells show what a group sends, and what it receives; all by default: [cell].
    """
    groups = grouping.count
    here, there = grouping.of_rank[sender], grouping.of_rank[receiver]
    crosses = here != there
    outward, inward = (np.where(crosses, ends, -1) for ends in (here, there))
    found: list[tuple[str, tuple[Ints, ...], Sequence[Mask]]] = [
        (INSIDE, (np.where(crosses, -1, here),), ()),
        (BETWEEN_ONE_WAY, (np.where(crosses, one_way(here, there, groups), -1),), ()),
    ]
    if groups > 2:
        found += [
            (SENDS, (outward,), busy[:1]),
            (RECEIVES, (inward,), busy[1:]),
            (NETWORK, (outward, inward), busy),
            (WHOLE, (here, inward), ()),
            (BETWEEN, (np.where(crosses, both_ways(here, there, groups), -1),), ()),
        ]
    return [family(f"{grouping.name} {part}", *keys, shows=shows) for part, keys, shows in found]


def near(node: Grouping, switch: Grouping, sender: Ints, receiver: Ints) -> Iterator[Ints]:
    """Yield the nodes of both ends of each pair across nodes at one switch, -1 for other pairs."""
    here, there = node.of_rank[sender], node.of_rank[receiver]
    is_near = (here != there) & (switch.of_rank[sender] == switch.of_rank[receiver])
    for ends in (here, there):
        yield np.where(is_near, ends, -1)


def one_way(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Return a number for each direction between two of `count`."""
    return np.asarray(sender * count + receiver)


def both_ways(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Return a number for each two of `count`, whoever sends."""
    return np.asarray(np.minimum(sender, receiver) * count + np.maximum(sender, receiver))


@dataclass(frozen=True)
class Layout:
    """What makes pairs of ranks comparable, a number per rank: [rank].

    Attributes:
        node: of each rank.
        part: its NUMA node; pairs on one node differ where these do.
        device: its kind of device.
        rail: its place on its node, where each place has a network card; pairs across nodes then
            differ in whether they stay on their rail. None where that does not matter.
    """

    node: Ints
    part: Ints
    device: Ints
    rail: Ints | None = None

    def kinds(self, sender: Ints, receiver: Ints, uplinks: Uplinks | None = None) -> Ints:
        """Return the kind of each pair, which is only compared with its like: [cell].

        Args:
            sender, receiver: ranks of each cell.
            uplinks: that the messages pass; None where switches are not known.
        """
        crosses = self.node[sender] != self.node[receiver]
        is_far = self.part[sender] != self.part[receiver]
        if self.rail is not None:
            is_far = np.where(crosses, self.rail[sender] != self.rail[receiver], is_far)
        else:
            is_far = is_far & ~crosses
        found = np.zeros(len(sender), dtype=np.int64)
        for trait in (crosses, is_far, self.device[sender], self.device[receiver]):
            found = divided(found, trait)
        if uplinks:
            found = divided(found, np.rint(STEPS * np.log2(uplinks.rates)))
        return found


def divided(kinds: Ints, trait: npt.NDArray[Any]) -> Ints:
    """Return numbers of kinds that also differ by a trait: [cell]."""
    _, numbers = np.unique(trait, return_inverse=True)
    _, found = np.unique(kinds * (numbers.max(initial=0) + 1) + numbers, return_inverse=True)
    return np.asarray(found)

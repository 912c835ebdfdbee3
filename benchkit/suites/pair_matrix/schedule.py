"""The rounds of all pairs of ranks: disjoint pairs, each once, inside nodes or across them.

It is a round-robin tournament by the circle method: n - 1 rounds for an even number n, and n rounds
with one idle player each for an odd one. Across nodes, nodes play the tournament; while two nodes
are paired, each rank of one is paired with each rank of the other, in as many rounds as the largest
node has ranks.
Nodes of unequal size need more rounds, in which ranks of the smaller ones are idle, and some rounds
are empty. A tournament of all ranks would need fewer, but the number of messages that leave a node
at a time would differ from round to round, and with it the time of healthy pairs.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from benchkit.suites.pair_matrix.suite import IDLE

Ints = npt.NDArray[np.int64]


def num_rounds(players: int) -> int:
    return players - 1 + players % 2 if players > 1 else 0


def partners_of(players: int, number: int) -> Ints:
    """Return the partner of each player in a round of their tournament: [player], IDLE for none.

    In the circle method players i and j with i + j = 2 r modulo the odd number of seats are
    partners in round r. The one player who would be its own partner gets the last player of an even
    number.
    """
    seats = players - 1 + players % 2
    partners = (2 * number - np.arange(seats)) % seats
    unpaired = number % seats
    if players % 2:
        partners[unpaired] = IDLE
        return partners
    partners[unpaired] = players - 1
    return np.append(partners, unpaired)


def group_by_label(labels: Sequence[Any]) -> list[list[int]]:
    positions: dict[Any, list[int]] = {}
    for position, label in enumerate(labels):
        positions.setdefault(label, []).append(position)
    return list(positions.values())


@dataclass(frozen=True)
class Schedule:
    """All rounds of a job whose ranks are on these hosts: [rank]."""

    hosts: Sequence[str]

    @cached_property
    def members(self) -> Ints:
        """Ranks of each node, padded by IDLE: [node][place]."""
        nodes = group_by_label(self.hosts)
        members = np.full((len(nodes), max(map(len, nodes))), IDLE)
        for row, ranks in zip(members, nodes, strict=True):
            row[: len(ranks)] = ranks
        return members

    @property
    def num_inside(self) -> int:
        return num_rounds(int(self.members.shape[1]))

    @property
    def num_rounds(self) -> int:
        nodes, places = self.members.shape
        return self.num_inside + num_rounds(int(nodes)) * int(places)

    def peers(self, number: int) -> Ints:
        nodes, places = self.members.shape
        if number < self.num_inside:
            partners = self.members[:, partners_of(places, number)]
            partners[:, partners_of(places, number) == IDLE] = IDLE
            return self.by_rank(self.members, partners)
        pairing, shift = divmod(number - self.num_inside, places)
        partner = partners_of(nodes, pairing)
        first = np.flatnonzero(partner > np.arange(nodes))  # each pairing of two nodes once
        left = self.members[first]
        right = np.roll(self.members[partner[first]], -shift, axis=1)
        return self.by_rank(np.append(left, right), np.append(right, left))

    def by_rank(self, ranks: Ints, partners: Ints) -> Ints:
        peers = np.full(len(self.hosts), IDLE)
        both = (ranks != IDLE) & (partners != IDLE)
        peers[ranks[both]] = partners[both]
        return peers

    def num_pairs(self, number: int) -> int:
        return int((self.peers(number) != IDLE).sum()) // 2

    @property
    def fullest(self) -> int:
        """Number of a round with most pairs, across nodes where there are several."""
        places = self.members.shape[1]
        firsts = range(self.num_inside, self.num_rounds, places) or range(self.num_inside)
        return max(firsts, key=self.num_pairs) if IDLE in self.members else firsts[0]

    def choose_rounds(self, wanted: int, seed: int) -> list[int]:
        """Return some rounds: a sample of those inside nodes and one of those across.

        The two kinds are judged separately: each gets half of the rounds, or all that it has. Among
        nodes of one size every rank has the same number of partners in each round, so ranks stay
        comparable. A single round is across nodes. `seed` is equal on all ranks.
        """
        inside, across = range(self.num_inside), range(self.num_inside, self.num_rounds)
        draw = random.Random(seed)
        most_across = wanted - min(len(inside), wanted // 2)
        full = filter(self.num_pairs, draw.sample(across, len(across)))
        chosen = list(islice(full, most_across))
        chosen += draw.sample(inside, min(len(inside), wanted - len(chosen)))
        return sorted(chosen)


def sends_to(peers: Ints, ascending: bool) -> Ints:
    """Return the rank that each rank sends to in one direction: [rank], or IDLE."""
    ranks = np.arange(len(peers))
    has_peer = peers != IDLE
    return np.where(has_peer & ((peers > ranks) == ascending), peers, IDLE)

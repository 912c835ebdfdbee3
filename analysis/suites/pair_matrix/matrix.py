"""Reads records of pair_matrix into one table of pairs per message size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.records.halves import log_halves
from analysis.records.places import Place, numbered, places_of
from analysis.suites.pair_matrix.families import NODE, Grouping, Layout, families_of
from analysis.suites.pair_matrix.sharing import Uplinks
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.faults.cells import Ints, family
from benchkit.statistics.faults.peers import Peers
from benchkit.statistics.intervals import Array
from benchkit.suites.pair_matrix.names import (
    DESCENDING,
    DIRECTION,
    GROUP,
    GROUP_OF,
    IDLE,
    ROUND,
    SENDS_TO,
)

SUITE = "pair_matrix"
SIZE = "data_size"
Cell = tuple[int, int, int]
"""Sender, receiver and turn."""


@dataclass(frozen=True)
class Matrix:
    """All pairs at one size.

    Attributes:
        size_mib: of a message.
        sender, receiver: ranks of each cell: [cell].
        halves: logarithm of the median seconds over the first and over the second half of the
            samples, or of the runs where there are several: [2][cell].
        turn: number of the round and the direction of each cell, whose messages are under way
            together: [cell].
        places: of the ranks.
    """

    size_mib: float
    sender: Ints
    receiver: Ints
    halves: Array
    turn: Ints
    places: Sequence[Place]

    @cached_property
    def node(self) -> Ints:
        """Number of the node of each rank: [rank]."""
        return np.array(numbered([place.host for place in self.places]))

    def peers(self, switch: Grouping | None = None) -> Peers:
        """Return the kind of each pair, and what may be slow."""
        sender, receiver, uplinks = self.sender, self.receiver, None
        if switch:
            uplinks = Uplinks(switch.of_rank[sender], switch.of_rank[receiver], self.turn)
        node = Grouping(NODE, self.node)
        return Peers(self.kinds(uplinks), families_of(sender, receiver, node, switch, uplinks))

    def kinds(self, uplinks: Uplinks | None = None) -> Ints:
        """Return the kind of each pair, which is only compared with its like: [cell]."""
        on_gpus = any(place.uuid for place in self.places)
        layout = Layout(
            node=self.node,
            part=np.array(numbered([(place.host, place.numa) for place in self.places])),
            device=np.array(numbered([place.device for place in self.places])),
            rail=rails(self.node) if on_gpus else None,
        )
        return layout.kinds(self.sender, self.receiver, uplinks)

    @property
    def share(self) -> float:
        """Share of all pairs, in each direction, that was measured."""
        return len(self.sender) / max(1, len(self.places) * (len(self.places) - 1))

    @property
    def lacks_network(self) -> bool:
        """Whether no pair across nodes was measured, where there are several."""
        across = self.node[self.sender] != self.node[self.receiver]
        return bool(self.node.max() > 0 and not across.any())

    def seconds(self) -> Array:
        """Return the median times, NaN where a pair was not measured: [sender][receiver]."""
        return self.table(np.exp(self.halves.mean(axis=0)))

    def ratios(self) -> Array:
        """Return the times over the median of all pairs of their kind: [sender][receiver]."""
        logs, kinds = self.halves.mean(axis=0), self.kinds()
        for kind in np.unique(kinds):
            logs[kinds == kind] -= np.median(logs[kinds == kind])
        return self.table(np.exp(logs))

    def table(self, values: Array) -> Array:
        """Return the values of all cells by rank, NaN where a pair was not measured."""
        table = np.full((len(self.places), len(self.places)), np.nan)
        table[self.sender, self.receiver] = values
        return table


def rails(node: Ints) -> Ints:
    """Return the place of each rank among the ranks of its node: [rank]."""
    found = np.zeros_like(node)
    for number in np.unique(node):
        ranks = np.flatnonzero(node == number)
        found[ranks] = np.arange(len(ranks))
    return found


def matrices(records: Sequence[Record]) -> list[Matrix]:
    """Return the table of each size, from records of the same ranks in order of time."""
    samples: dict[float, dict[Cell, list[list[float]]]] = {}
    for record in records:
        for case in cases_with(ROUND, SENDS_TO, record):
            of_size = samples.setdefault(float(case.labels[SIZE] or 0), {})
            turn = 2 * int(case.labels[ROUND] or 0) + (case.labels.get(DIRECTION) == DESCENDING)
            for sender, receiver in enumerate(case.details[SENDS_TO]):
                if receiver != IDLE:
                    cell = sender, receiver, turn
                    of_size.setdefault(cell, []).append(case.samples_s[sender])
    places = places_of(records[0]) if records else []
    return [matrix_of(size, samples[size], places) for size in sorted(samples)]


def cases_with(label: str, detail: str, record: Record) -> Iterable[CaseRecord]:
    """Return the measured cases that have a label, and a detail with an entry per rank."""
    return (
        case
        for case in record.cases
        if label in case.labels
        and case.samples_s
        and len(case.details.get(detail, ())) == len(case.samples_s)
    )


def matrix_of(
    size: float, samples: dict[Cell, list[list[float]]], places: Sequence[Place]
) -> Matrix:
    """Return the table of one size."""
    sender, receiver, turn = np.array(list(samples), dtype=np.int64).reshape(-1, 3).T
    halves = np.array([log_halves(runs) for runs in samples.values()]).T
    return Matrix(size, sender, receiver, halves.reshape(2, -1), turn, places)


@dataclass(frozen=True)
class Level:
    """A level of nested groups.

    Attributes:
        name: of the level.
        group_of: number of each rank's group: [rank].
        halves: as for pairs, of each group's all-reduce: [2][group].
    """

    name: str
    group_of: list[int]
    halves: Array

    @property
    def seconds(self) -> list[float]:
        """Median time of each group's all-reduce: [group]."""
        return [float(each) for each in np.exp(self.halves.mean(axis=0))]

    def peers(self) -> Peers:
        """Return the kind of each group, which is its size, and what may be slow: a group."""
        groups = family(f"{self.name} {GROUP}", np.arange(self.halves.shape[1]))
        return Peers(np.bincount(self.group_of), [groups])


def levels(records: Sequence[Record]) -> list[Level]:
    """Return the levels of nested groups, from small groups to large ones."""
    samples: dict[str, tuple[list[int], list[Array]]] = {}
    for record in records:
        for case in cases_with(GROUP, GROUP_OF, record):
            name = str(case.labels[GROUP])
            group_of = [int(number) for number in case.details[GROUP_OF]]
            samples.setdefault(name, (group_of, []))[1].append(np.asarray(case.samples_s))
    return [level_of(name, group_of, runs) for name, (group_of, runs) in samples.items()]


def level_of(name: str, group_of: list[int], runs: Sequence[Array]) -> Level:
    """Return a level; a group is as slow as the slowest of its ranks."""
    members = np.array(group_of)
    halves = [
        log_halves([run[members == number].max(axis=0).tolist() for run in runs])
        for number in range(int(members.max()) + 1)
    ]
    return Level(name, group_of, np.array(halves).T)

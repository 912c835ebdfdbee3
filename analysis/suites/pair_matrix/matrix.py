"""Records of pair_matrix as tables of pairs per message size, and what may be slow in them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.records.doubts import log_halves
from analysis.records.places import RankPlace, number_labels, places_of
from benchkit.record.naming import format_bytes
from benchkit.record.record import CaseRecord, Record
from benchkit.statistics.faults import Family, Ints, Mask, PeerGroups, make_family
from benchkit.statistics.intervals import Array
from benchkit.suites.pair_matrix.suite import (
    BOTH,
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
Cell = tuple[int, int, int]  # sender, receiver and turn
BUSY = 0.9
"""An uplink is busy in turns in which it carries at least this share of its most messages."""
ONE_WAY, LINK = "one way", "link"
RANK_SENDS, RANK_RECEIVES, RANK = "rank sends", "rank receives", "rank"
RANK_NETWORK = "rank network"
SENDS, RECEIVES, NETWORK, WHOLE = "sends", "receives", "network", "whole"
INSIDE, NEAR = "inside", "near"
BETWEEN_ONE_WAY, BETWEEN = "between one way", "between"
OF_A_DIRECTION = (ONE_WAY, RANK_SENDS, RANK_RECEIVES, BETWEEN_ONE_WAY, SENDS, RECEIVES)
"""Parts of the names of families of groups; the name of the grouping stands before them."""
NODE, SWITCH = "node", "switch"  # groupings of ranks
STEPS = 32  # steps of the share of an uplink per doubling: pairs of one step are alike


def max_min(resources: Ints, capacity: Array, count: Ints | None = None) -> Array:
    """Return the max-min fair rate of each flow: [flow].

    All rates rise together until a resource is full; its flows keep their rate, and the others rise
    on (progressive filling; Bertsekas and Gallager, Data Networks, 1992). A resource is filled as
    soon as no other one limits any of its flows further.

    Args:
        resources: that each flow uses, -1 for none: [flow][place].
        capacity: of each resource: [resource].
        count: how many flows use the same, one by default: [flow].
    """
    rates = np.zeros(len(resources))
    weights = np.ones(len(resources)) if count is None else count.astype(np.float64)
    left = np.append(capacity.astype(np.float64), np.inf)  # -1 is the last, which is never full
    places = resources % len(left)
    rising = np.ones(len(resources), dtype=bool)

    def total(each: Array, flows: Mask) -> Array:
        """Return the sum over some flows at each resource."""
        passed = np.repeat(each[flows], places.shape[1])
        return np.bincount(places[flows].ravel(), passed, len(left)).astype(np.float64)

    while rising.any():
        used = total(weights, rising)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(used > 0, left / used, np.inf)
        share[-1] = np.inf
        allowed = share[places].min(axis=1)
        lowest = np.full_like(share, np.inf)
        np.minimum.at(lowest, places[rising], allowed[rising, None])
        full = rising & (share <= lowest)[places].any(axis=1)
        rates[full] = allowed[full]
        left = np.maximum(left - total(weights * rates, full), 0.0)
        rising &= ~full
    return rates


@dataclass(frozen=True)
class Uplinks:
    """The messages that pass the uplinks of switches.

    Attributes:
        here, there: switches of sender and receiver of each message: [cell].
        turn: of each message; those of one turn are under way together: [cell].
    """

    here: Ints
    there: Ints
    turn: Ints

    @cached_property
    def crosses(self) -> Mask:
        """Which messages leave their switch: [cell]."""
        return np.asarray(self.here != self.there)

    @cached_property
    def turns(self) -> Ints:
        return np.unique(self.turn, return_inverse=True)[1].ravel()

    @cached_property
    def rates(self) -> Array:
        """The rate of each message over that of an uplink, were uplinks all that limits it: [cell].

        A limit that all messages share, such as that of network cards, changes no rate below it, so
        messages of equal rate stay alike at any oversubscription. All uplinks are taken to be
        equally fast. The rate is infinite for what stays at its switch.
        """
        ends = np.stack([self.turns, self.here, self.there], axis=1)[self.crosses]
        flows, of_flow, count = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
        found = np.full(len(self.here), np.inf)
        if len(flows):
            size = int(flows.max()) + 1
            number = flows[:, :1] * size + flows[:, 1:]  # of each switch in each turn
            number[:, 1] += size**2  # what enters it
            used, resources = np.unique(number, return_inverse=True)
            rates = max_min(resources.reshape(-1, 2), np.ones(len(used)), count)
            found[self.crosses] = rates[of_flow.ravel()]
        return found

    def busy(self) -> tuple[Mask, Mask]:
        """Return which messages leave, and which enter, a switch in one of its busiest turns.

        A slow uplink is only seen where it is full.
        """
        return self.busiest(self.here), self.busiest(self.there)

    def busiest(self, ends: Ints) -> Mask:
        """Return which messages are in a busy turn of the switch at one of their ends: [cell]."""
        size = int(self.turns.max(initial=0)) + 1
        uplink = ends * size + self.turns  # of each switch in each turn
        load = np.bincount(uplink, self.crosses)[uplink]
        most = np.zeros(int(ends.max(initial=0)) + 1)
        np.maximum.at(most, ends, load)
        return np.asarray(self.crosses & (load >= BUSY * most[ends]))


@dataclass(frozen=True)
class Grouping:
    """Groups of ranks: nodes or switches, with the number of each rank's group, [rank]."""

    name: str
    of_rank: Ints

    @property
    def is_telling(self) -> bool:
        """Whether there are several groups, and one with several ranks."""
        return 1 < self.count < len(self.of_rank)

    @property
    def count(self) -> int:
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
        switch, uplinks: None where switches are not known.
    """
    ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
    found = [
        make_family(ONE_WAY, one_way(sender, receiver, ranks)),
        make_family(LINK, number_pairs(sender, receiver, ranks)),
        make_family(RANK_SENDS, sender),
        make_family(RANK_RECEIVES, receiver),
        make_family(RANK, sender, receiver),
    ]
    if node.is_telling:
        crosses = node.of_rank[sender] != node.of_rank[receiver]
        ends_across = (np.where(crosses, ends, -1) for ends in (sender, receiver))
        found += [make_family(RANK_NETWORK, *ends_across), *group_families(node, sender, receiver)]
    if switch and uplinks and switch.is_telling:
        found += group_families(switch, sender, receiver, uplinks.busy())
        if node.count > switch.count:
            found.append(make_family(f"{NODE} {NEAR}", *near_keys(node, switch, sender, receiver)))
    return [each for each in found if len(each.subjects)]


def group_families(
    grouping: Grouping, sender: Ints, receiver: Ints, busy: Sequence[Mask] = ()
) -> list[Family]:
    """Return the families of a grouping: of each group, and of each two groups.

    What leaves one of two groups enters the other one, so that only its direction has a peer.

    Args:
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
            (BETWEEN, (np.where(crosses, number_pairs(here, there, groups), -1),), ()),
        ]
    return [
        make_family(f"{grouping.name} {part}", *keys, shows=shows) for part, keys, shows in found
    ]


def near_keys(node: Grouping, switch: Grouping, sender: Ints, receiver: Ints) -> Iterator[Ints]:
    """Yield the nodes of both ends of each pair across nodes at one switch, -1 for other pairs."""
    here, there = node.of_rank[sender], node.of_rank[receiver]
    is_near = (here != there) & (switch.of_rank[sender] == switch.of_rank[receiver])
    for ends in (here, there):
        yield np.where(is_near, ends, -1)


def one_way(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Number each direction between two of `count`."""
    return np.asarray(sender * count + receiver)


def number_pairs(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Number each two of `count`, whoever sends."""
    return np.asarray(np.minimum(sender, receiver) * count + np.maximum(sender, receiver))


def split_kinds(kinds: Ints, trait: npt.NDArray[Any]) -> Ints:
    """Return numbers of kinds that also differ by a trait: [cell]."""
    _, numbers = np.unique(trait, return_inverse=True)
    _, found = np.unique(kinds * (numbers.max(initial=0) + 1) + numbers, return_inverse=True)
    return np.asarray(found)


@dataclass(frozen=True)
class PairTimes:
    """All pairs at one size, of messages one way or of both ways at once.

    Attributes:
        sender, receiver: ranks of each cell, each pair once if `at_once`: [cell].
        halves: logarithm of the median seconds over the first and over the second half of the
            samples, or of the runs where there are several: [2][cell].
        time_slot: number of the round and the direction of each cell, whose messages are under way
            together: [cell].
    """

    size_mib: float
    sender: Ints
    receiver: Ints
    halves: Array
    time_slot: Ints
    places: Sequence[RankPlace]
    at_once: bool = False

    @property
    def key(self) -> tuple[float, bool]:
        return self.size_mib, self.at_once

    @property
    def name(self) -> str:
        return format_bytes(self.size_mib * 2**20) + (" both ways at once" if self.at_once else "")

    @cached_property
    def node(self) -> Ints:
        """Number of the node of each rank: [rank]."""
        return np.array(number_labels([place.host for place in self.places]))

    def peers(self, switch: Grouping | None = None) -> PeerGroups:
        """Return kinds and families; one exchange tells nothing of a direction or an uplink."""
        sender, receiver, uplinks = self.sender, self.receiver, None
        if switch and not self.at_once:
            uplinks = Uplinks(switch.of_rank[sender], switch.of_rank[receiver], self.time_slot)
        node = Grouping(NODE, self.node)
        families = families_of(sender, receiver, node, switch, uplinks)
        if self.at_once:
            one_way = (*OF_A_DIRECTION, *(f"{NODE} {part}" for part in OF_A_DIRECTION))
            families = [each for each in families if each.name not in one_way]
        return PeerGroups(self.kinds(uplinks), families)

    def kinds(self, uplinks: Uplinks | None = None) -> Ints:
        """Return the kind of each pair, which is only compared with its like: [cell].

        Pairs on one node differ in whether they leave their NUMA node. Pairs across nodes of GPUs,
        each of which is taken to have a network card of its own, differ in whether they leave their
        rail: the GPUs of one place on each node.
        """
        sender, receiver = self.sender, self.receiver
        device = np.array(number_labels([place.device for place in self.places]))
        part = np.array(number_labels([(place.host, place.numa) for place in self.places]))
        crosses = self.node[sender] != self.node[receiver]
        is_far = ~crosses & (part[sender] != part[receiver])
        if any(place.uuid for place in self.places):
            rail = rails(self.node)
            is_far |= crosses & (rail[sender] != rail[receiver])
        found = np.zeros(len(sender), dtype=np.int64)
        for trait in (crosses, is_far, device[sender], device[receiver]):
            found = split_kinds(found, trait)
        if uplinks:
            found = split_kinds(found, np.rint(STEPS * np.log2(uplinks.rates)))
        return found

    @property
    def share(self) -> float:
        """Share of all pairs, in each direction, that was measured."""
        pairs = len(self.places) * (len(self.places) - 1) / (2 if self.at_once else 1)
        return len(self.sender) / max(1, pairs)

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
        table = np.full((len(self.places), len(self.places)), np.nan)
        table[self.sender, self.receiver] = values
        if self.at_once:
            table[self.receiver, self.sender] = values
        return table


def rails(node: Ints) -> Ints:
    """Return the place of each rank among the ranks of its node: [rank]."""
    found = np.zeros_like(node)
    for number in np.unique(node):
        ranks = np.flatnonzero(node == number)
        found[ranks] = np.arange(len(ranks))
    return found


def matrices(records: Sequence[Record]) -> list[PairTimes]:
    """Return the tables of each size, from records of the same ranks in order of time.

    Records of other suites are passed over.
    """
    records = [record for record in records if record.suite == SUITE]
    samples: dict[tuple[float, bool], dict[Cell, list[list[float]]]] = {}
    for record in records:
        for case in cases_with(ROUND, SENDS_TO, record):
            direction = case.labels.get(DIRECTION)
            is_exchange = direction == BOTH
            key = float(case.labels[SIZE] or 0), is_exchange
            turn = 2 * int(case.labels[ROUND] or 0) + (direction == DESCENDING)
            cells = samples.setdefault(key, {})
            for sender, receiver in enumerate(case.details[SENDS_TO]):
                if receiver == IDLE or (is_exchange and receiver < sender):
                    continue
                times_s = case.samples_s[sender]
                if is_exchange:  # both ranks timed it
                    times_s = np.mean([times_s, case.samples_s[receiver]], axis=0).tolist()
                cells.setdefault((sender, receiver, turn), []).append(times_s)
    places = places_of(records[0]) if records else []
    return [matrix_of(*key, samples[key], places) for key in sorted(samples)]


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
    size_mib: float,
    at_once: bool,
    samples: dict[Cell, list[list[float]]],
    places: Sequence[RankPlace],
) -> PairTimes:
    sender, receiver, turn = np.array(list(samples), dtype=np.int64).reshape(-1, 3).T
    halves = np.array([log_halves(runs) for runs in samples.values()]).T
    halves = halves.reshape(2, -1)
    return PairTimes(size_mib, sender, receiver, halves, turn, places, at_once)


@dataclass(frozen=True)
class Level:
    """A level of nested groups.

    Attributes:
        group_of: number of each rank's group: [rank].
        halves: as for pairs, of each group's all-reduce: [2][group].
    """

    name: str
    group_of: list[int]
    halves: Array

    @property
    def seconds(self) -> list[float]:
        return [float(each) for each in np.exp(self.halves.mean(axis=0))]

    def peers(self) -> PeerGroups:
        """Return the groups, each of the kind of its size, and what may be slow: a group."""
        groups = make_family(f"{self.name} {GROUP}", np.arange(self.halves.shape[1]))
        return PeerGroups(np.bincount(self.group_of), [groups])


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

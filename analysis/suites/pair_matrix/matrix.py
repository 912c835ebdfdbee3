"""Records of pair_matrix as tables of pairs per message size, with the families of their faults."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.records.doubts import log_halves
from analysis.records.places import RankMapping, number_labels, places_of
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
Cell = tuple[int, int, int]  # sender, receiver and time slot
BUSY = 0.9
"""An uplink is busy in time slots with at least this share of its largest number of messages."""
ONE_WAY, LINK = "one way", "link"
RANK_SENDS, RANK_RECEIVES, RANK = "rank sends", "rank receives", "rank"
RANK_NETWORK = "rank network"
SENDS, RECEIVES, NETWORK, WHOLE = "sends", "receives", "network", "whole"
INSIDE, NEAR = "inside", "near"
BETWEEN_ONE_WAY, BETWEEN = "between one way", "between"
OF_A_DIRECTION = (ONE_WAY, RANK_SENDS, RANK_RECEIVES, BETWEEN_ONE_WAY, SENDS, RECEIVES)
"""Families that depend on the direction; for groups, the grouping's name precedes them."""
NODE, SWITCH = "node", "switch"  # groupings of ranks
STEPS = 32  # steps per doubling of the share of an uplink; pairs of one step are peers


def max_min(resources: Ints, capacity: Array, count: Ints | None = None) -> Array:
    """Return the max-min fair rate of each flow: [flow].

    Progressive filling: all rates rise together until a resource is full; its flows keep their
    rate, and the others go on rising (Bertsekas and Gallager, Data Networks, 1992). Fill a resource
    as soon as no other one limits its flows more.

    Args:
        resources: indexes of the resources of each flow, -1 for none: [flow][place].
        capacity: capacity of each resource: [resource].
        count: multiplicity of each flow, 1 by default: [flow].
    """
    rates = np.zeros(len(resources))
    weights = np.ones(len(resources)) if count is None else count.astype(np.float64)
    left = np.append(capacity.astype(np.float64), np.inf)  # the last one, for -1, is never full
    places = resources % len(left)
    rising = np.ones(len(resources), dtype=bool)

    def total(values: Array, flows: Mask) -> Array:
        """Return the sum of values over some flows at each resource: [resource]."""
        repeated = np.repeat(values[flows], places.shape[1])
        return np.bincount(places[flows].ravel(), repeated, len(left)).astype(np.float64)

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
    """Messages over the uplinks of switches.

    Attributes:
        here, there: switches of sender and receiver of each message: [cell].
        time_slot: time slot of each message; those of one slot are concurrent: [cell].
    """

    here: Ints
    there: Ints
    time_slot: Ints

    @cached_property
    def crosses(self) -> Mask:
        """Mask of the messages that leave their switch: [cell]."""
        return np.asarray(self.here != self.there)

    @cached_property
    def slots(self) -> Ints:
        return np.unique(self.time_slot, return_inverse=True)[1].ravel()

    @cached_property
    def rates(self) -> Array:
        """Rate of each message relative to an uplink, if only uplinks limit it: [cell].

        A common limit of all messages, such as that of network cards, changes no rate below it, so
        messages of equal rate are peers at any oversubscription. All uplinks are assumed to be
        equally fast. The rate is infinite for messages within a switch.
        """
        ends = np.stack([self.slots, self.here, self.there], axis=1)[self.crosses]
        flows, of_flow, count = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
        relative = np.full(len(self.here), np.inf)
        if len(flows):
            size = int(flows.max()) + 1
            number = flows[:, :1] * size + flows[:, 1:]  # uplink of each switch in each slot
            number[:, 1] += size**2  # the ingress of the switch
            used, resources = np.unique(number, return_inverse=True)
            rates = max_min(resources.reshape(-1, 2), np.ones(len(used)), count)
            relative[self.crosses] = rates[of_flow.ravel()]
        return relative

    def busy(self) -> tuple[Mask, Mask]:
        """Return masks of the messages that leave, and that enter, a switch in a busy time slot.

        A slow uplink is only visible when it is full.
        """
        return self.busiest(self.here), self.busiest(self.there)

    def busiest(self, ends: Ints) -> Mask:
        """Return a mask of the messages in a busy time slot of their switch in `ends`: [cell]."""
        size = int(self.slots.max(initial=0)) + 1
        uplink = ends * size + self.slots  # of each switch in each slot
        load = np.bincount(uplink, self.crosses)[uplink]
        most = np.zeros(int(ends.max(initial=0)) + 1)
        np.maximum.at(most, ends, load)
        return np.asarray(self.crosses & (load >= BUSY * most[ends]))


@dataclass(frozen=True)
class Grouping:
    """Groups of ranks: nodes or switches. `of_rank` is the number of each rank's group: [rank]."""

    name: str
    of_rank: Ints

    @property
    def has_peers(self) -> bool:
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
    """Return the families of possible faults, from small to large; of equal ones the first counts.

    Args:
        sender, receiver: ranks of each cell: [cell].
        switch, uplinks: None if switches are unknown.
    """
    ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
    families = [
        make_family(ONE_WAY, number_directions(sender, receiver, ranks)),
        make_family(LINK, number_pairs(sender, receiver, ranks)),
        make_family(RANK_SENDS, sender),
        make_family(RANK_RECEIVES, receiver),
        make_family(RANK, sender, receiver),
    ]
    if node.has_peers:
        crosses = node.of_rank[sender] != node.of_rank[receiver]
        ends_across = (np.where(crosses, ends, -1) for ends in (sender, receiver))
        families += [
            make_family(RANK_NETWORK, *ends_across),
            *group_families(node, sender, receiver),
        ]
    if switch and uplinks and switch.has_peers:
        families += group_families(switch, sender, receiver, uplinks.busy())
        if node.count > switch.count:
            families.append(
                make_family(f"{NODE} {NEAR}", *near_keys(node, switch, sender, receiver))
            )
    return [family for family in families if len(family.subjects)]


def group_families(
    grouping: Grouping, sender: Ints, receiver: Ints, busy: Sequence[Mask] = ()
) -> list[Family]:
    """Return the families of a grouping: of single groups, and of pairs of groups.

    With two groups, what leaves one enters the other, so that only directions have peers.

    Args:
        busy: masks of the cells that show what a group sends, and receives; all by default: [cell].
    """
    groups = grouping.count
    here, there = grouping.of_rank[sender], grouping.of_rank[receiver]
    crosses = here != there
    outward, inward = (np.where(crosses, ends, -1) for ends in (here, there))
    parts: list[tuple[str, tuple[Ints, ...], Sequence[Mask]]] = [
        (INSIDE, (np.where(crosses, -1, here),), ()),
        (BETWEEN_ONE_WAY, (np.where(crosses, number_directions(here, there, groups), -1),), ()),
    ]
    if groups > 2:
        parts += [
            (SENDS, (outward,), busy[:1]),
            (RECEIVES, (inward,), busy[1:]),
            (NETWORK, (outward, inward), busy),
            (WHOLE, (here, inward), ()),
            (BETWEEN, (np.where(crosses, number_pairs(here, there, groups), -1),), ()),
        ]
    return [
        make_family(f"{grouping.name} {part}", *keys, shows=shows) for part, keys, shows in parts
    ]


def near_keys(node: Grouping, switch: Grouping, sender: Ints, receiver: Ints) -> Iterator[Ints]:
    """Yield the nodes of sender and receiver of pairs across nodes at one switch, -1 for others."""
    here, there = node.of_rank[sender], node.of_rank[receiver]
    is_near = (here != there) & (switch.of_rank[sender] == switch.of_rank[receiver])
    for ends in (here, there):
        yield np.where(is_near, ends, -1)


def number_directions(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Number the ordered pairs of `count` members: [cell]."""
    return np.asarray(sender * count + receiver)


def number_pairs(sender: Ints, receiver: Ints, count: int) -> Ints:
    """Number the unordered pairs of `count` members: [cell]."""
    return np.asarray(np.minimum(sender, receiver) * count + np.maximum(sender, receiver))


def split_kinds(kinds: Ints, trait: npt.NDArray[Any]) -> Ints:
    """Split kinds by a trait; return their numbers: [cell]."""
    _, numbers = np.unique(trait, return_inverse=True)
    _, split_numbers = np.unique(
        kinds * (numbers.max(initial=0) + 1) + numbers, return_inverse=True
    )
    return np.asarray(split_numbers)


@dataclass(frozen=True)
class PairTimes:
    """Times of all pairs at one size, of messages in one direction or in both at once.

    Attributes:
        sender, receiver: ranks of each cell, each pair once if `at_once`: [cell].
        halves: logarithm of the median seconds of the first and of the second half of the samples,
            or of the runs if there are several: [2][cell].
        time_slot: number of the round and direction of each cell; messages of one slot are
            concurrent: [cell].
    """

    size_mib: float
    sender: Ints
    receiver: Ints
    halves: Array
    time_slot: Ints
    places: Sequence[RankMapping]
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
        """Return kinds and families; without directions and uplinks for an exchange `at_once`."""
        sender, receiver, uplinks = self.sender, self.receiver, None
        if switch and not self.at_once:
            uplinks = Uplinks(switch.of_rank[sender], switch.of_rank[receiver], self.time_slot)
        node = Grouping(NODE, self.node)
        families = families_of(sender, receiver, node, switch, uplinks)
        if self.at_once:
            directed = (*OF_A_DIRECTION, *(f"{NODE} {part}" for part in OF_A_DIRECTION))
            families = [each for each in families if each.name not in directed]
        return PeerGroups(self.kinds(uplinks), families)

    def kinds(self, uplinks: Uplinks | None = None) -> Ints:
        """Return the kind of each pair; only pairs of one kind are peers: [cell].

        Pairs on one node differ in whether they cross NUMA nodes. Pairs of GPUs across nodes differ
        in whether they leave their rail, the GPUs at one position on each node; each GPU is assumed
        to have its own network card.
        """
        sender, receiver = self.sender, self.receiver
        device = np.array(number_labels([place.device for place in self.places]))
        numa_node = np.array(number_labels([(place.host, place.numa) for place in self.places]))
        crosses = self.node[sender] != self.node[receiver]
        is_far = ~crosses & (numa_node[sender] != numa_node[receiver])
        if any(place.uuid for place in self.places):
            rail = rails(self.node)
            is_far |= crosses & (rail[sender] != rail[receiver])
        kind = np.zeros(len(sender), dtype=np.int64)
        for trait in (crosses, is_far, device[sender], device[receiver]):
            kind = split_kinds(kind, trait)
        if uplinks:
            kind = split_kinds(kind, np.rint(STEPS * np.log2(uplinks.rates)))
        return kind

    @property
    def share(self) -> float:
        """Measured share of all pairs, counted per direction."""
        pairs = len(self.places) * (len(self.places) - 1) / (2 if self.at_once else 1)
        return len(self.sender) / max(1, pairs)

    @property
    def lacks_network(self) -> bool:
        """Whether there are several nodes, but no measured pair across nodes."""
        across = self.node[self.sender] != self.node[self.receiver]
        return bool(self.node.max() > 0 and not across.any())

    def seconds(self) -> Array:
        """Return the median times in seconds, NaN for pairs not measured: [sender][receiver]."""
        return self.table(np.exp(self.halves.mean(axis=0)))

    def ratios(self) -> Array:
        """Return the times relative to the median of their kind: [sender][receiver]."""
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
    """Return the position of each rank among the ranks of its node: [rank]."""
    rail = np.zeros_like(node)
    for number in np.unique(node):
        ranks = np.flatnonzero(node == number)
        rail[ranks] = np.arange(len(ranks))
    return rail


def matrices(records: Sequence[Record]) -> list[PairTimes]:
    """Return the tables of each size, from records of the same ranks in order of time.

    Records of other suites are skipped.
    """
    records = [record for record in records if record.suite == SUITE]
    samples: dict[tuple[float, bool], dict[Cell, list[list[float]]]] = {}
    for record in records:
        for case in cases_with(ROUND, SENDS_TO, record):
            direction = case.labels.get(DIRECTION)
            is_exchange = direction == BOTH
            key = float(case.labels[SIZE] or 0), is_exchange
            time_slot = 2 * int(case.labels[ROUND] or 0) + (direction == DESCENDING)
            cells = samples.setdefault(key, {})
            for sender, receiver in enumerate(case.details[SENDS_TO]):
                if receiver == IDLE or (is_exchange and receiver < sender):
                    continue
                times_s = case.samples_s[sender]
                if is_exchange:  # both ranks timed it
                    times_s = np.mean([times_s, case.samples_s[receiver]], axis=0).tolist()
                cells.setdefault((sender, receiver, time_slot), []).append(times_s)
    places = places_of(records[0]) if records else []
    return [matrix_of(*key, samples[key], places) for key in sorted(samples)]


def cases_with(label: str, detail: str, record: Record) -> Iterable[CaseRecord]:
    """Return the measured cases with a label, and with a detail that has an entry per rank."""
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
    places: Sequence[RankMapping],
) -> PairTimes:
    sender, receiver, time_slot = np.array(list(samples), dtype=np.int64).reshape(-1, 3).T
    halves = np.array([log_halves(runs) for runs in samples.values()]).T
    halves = halves.reshape(2, -1)
    return PairTimes(size_mib, sender, receiver, halves, time_slot, places, at_once)


@dataclass(frozen=True)
class Level:
    """A level of nested groups.

    Attributes:
        group_of: number of each rank's group: [rank].
        halves: logarithm of the median seconds of each group's all-reduce, see `PairTimes`:
            [2][group].
    """

    name: str
    group_of: list[int]
    halves: Array

    @property
    def seconds(self) -> list[float]:
        return [float(time_s) for time_s in np.exp(self.halves.mean(axis=0))]

    def peers(self) -> PeerGroups:
        """Return the groups with their size as kind, and the family of faults: a group."""
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
    """Return a level; the time of a group is that of its slowest rank."""
    members = np.array(group_of)
    halves = [
        log_halves([run[members == number].max(axis=0).tolist() for run in runs])
        for number in range(int(members.max()) + 1)
    ]
    return Level(name, group_of, np.array(halves).T)

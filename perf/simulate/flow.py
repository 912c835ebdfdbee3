"""Rates of messages that share ports, cards and uplinks: max-min fair shares."""

import numpy as np
from analysis.suites.pair_matrix.matrix import max_min
from benchkit.statistics.faults import Ints
from benchkit.statistics.intervals import Array

from perf.simulate.topology import (
    LEAF,
    LINK,
    NIC,
    ONE_WAY,
    RANK,
    SENDS,
    Broken,
    Topology,
)  # fmt: skip


def seconds_of(topology: Topology, sender: Ints, receiver: Ints) -> Array:
    """Return the time of each message of a round, all under way together: [pair]."""
    resources, capacity = resources_of(topology, sender, receiver)
    rates = max_min(resources, capacity)
    seconds = topology.latency_us * 1e-6 + topology.size_mib * 2**20 / (rates * 1e9)
    for fault in topology.faults:
        seconds = np.where(suffers(fault, sender, receiver), seconds * fault.slower, seconds)
    return np.asarray(seconds)


def suffers(fault: Broken, sender: Ints, receiver: Ints) -> Ints:
    """Return which messages a fault of a rank or of a link slows: [pair]."""
    if fault.kind == RANK:
        return np.asarray((sender == fault.at[0]) | (receiver == fault.at[0]))
    if fault.kind == SENDS:
        return np.asarray(sender == fault.at[0])
    there = (sender == fault.at[0]) & (receiver == fault.at[-1])
    back = (receiver == fault.at[0]) & (sender == fault.at[-1])
    if fault.kind == ONE_WAY:
        return np.asarray(there)
    return np.asarray(there | back if fault.kind == LINK else np.zeros_like(there))


def resources_of(topology: Topology, sender: Ints, receiver: Ints) -> tuple[Ints, Array]:
    """Return what each message of a round passes, and the GB/s of all that.

    A message inside a node passes the ports of both ranks; one across passes both cards, and the
    uplinks of both leaf switches if these differ.
    """
    ranks = topology.num_ranks
    cards = int(topology.card_of(np.array([ranks - 1]))[0]) + 1
    card, uplink = np.full(cards, topology.card_gb_per_s), np.ones(topology.num_leaves)
    at_leaf = topology.nodes_per_leaf * min(topology.rails, topology.ranks_per_node)
    uplink *= at_leaf * topology.card_gb_per_s / topology.oversubscription
    for fault in topology.faults:
        if fault.kind == NIC:
            own = cards // topology.nodes
            card[fault.at[0] * own : (fault.at[0] + 1) * own] /= fault.slower
        elif fault.kind == LEAF:
            uplink[fault.at[0]] /= fault.slower
    port = np.full(ranks, topology.inside_gb_per_s)
    capacity = np.concatenate([port, port, card, card, uplink, uplink])
    starts = np.cumsum([0, ranks, ranks, cards, cards, len(uplink)])
    inside = topology.node_of(sender) == topology.node_of(receiver)
    same_leaf = topology.leaf_of(sender) == topology.leaf_of(receiver)
    passed = [
        (inside, sender), (inside, receiver),
        (~inside, topology.card_of(sender)), (~inside, topology.card_of(receiver)),
        (~same_leaf, topology.leaf_of(sender)), (~same_leaf, topology.leaf_of(receiver)),
    ]  # fmt: skip
    columns = [np.where(passes, number + start, -1) for (passes, number), start in zip(passed, starts, strict=True)]
    return np.stack(columns, axis=1), capacity

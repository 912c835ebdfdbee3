"""Simulates the pairs of an acceptance, and judges them as measured ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from analysis.acceptance.findings import GroupedRanks
from analysis.acceptance.verdict import AcceptanceVerdict, judge_tables
from analysis.suites.pair_matrix import matrix
from analysis.suites.pair_matrix.matrix import PairTimes
from benchkit.statistics.faults import FaultLimits, Ints
from benchkit.statistics.intervals import Array
from benchkit.suites.pair_matrix.schedule import Schedule, sends_to
from benchkit.suites.pair_matrix.suite import IDLE

from perf.simulate.flow import seconds_of
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

AROUND_S = 0.001
"""Seconds around a sample for the barrier and the exchange of samples, per doubling of the ranks;
an assumption."""
MOST_CELLS = 2**19
"""More pairs take more than seconds and a gigabyte to judge."""
SAMPLES = 20
RUNS = 2
SPREAD_OF_MEDIAN = np.sqrt(np.pi / 2 / SAMPLES)
"""Spread of the median of the samples of a run, over that of a sample."""


FAMILIES = {
    RANK: matrix.RANK,
    SENDS: matrix.RANK_SENDS,
    LINK: matrix.LINK,
    ONE_WAY: matrix.ONE_WAY,
    NIC: f"{matrix.NODE} {matrix.NETWORK}",
    LEAF: f"{matrix.SWITCH} {matrix.NETWORK}",
}
"""The family that names each kind of fault."""


Messages = tuple[Ints, Ints, Ints, Array]
"""Sender, receiver, turn and seconds of each message under way at the same time."""


@dataclass(frozen=True)
class Rounds:
    """The rounds that are measured, without noise.

    Attributes:
        sender, receiver: of each message: [cell].
        turn: number of the round and the direction of each message: [cell].
        seconds: of each message: [cell].
        minutes: of measuring all.
        share: of all pairs that are measured.
    """

    sender: Ints
    receiver: Ints
    turn: Ints
    seconds: Array
    minutes: float
    share: float


def rounds_of(topology: Topology, minutes: float, seed: int) -> Rounds:
    """Return the messages of as many rounds as the time allows, at least one.

    As in the suite, the time of a round with most pairs tells how many that are.

    Args:
        topology: the cluster.
        minutes: for all rounds, both directions, all samples and runs.
        seed: of the choice of rounds.
    """
    schedule = Schedule([place.host for place in topology.ranks().places])
    timed = messages_of(topology, schedule, schedule.fullest)
    fitting = 60 * minutes / cost_s(topology, timed)
    storable = MOST_CELLS // sum(len(each[0]) for each in timed)
    chosen = schedule.choose_rounds(max(1, int(min(fitting, storable))), seed)
    parts = [part for number in chosen for part in messages_of(topology, schedule, number)]
    sender, receiver, turn, seconds = map(np.concatenate, zip(*parts, strict=True))
    share = len(chosen) / schedule.num_rounds
    return Rounds(sender, receiver, turn, seconds, cost_s(topology, parts) / 60, share)


def messages_of(topology: Topology, schedule: Schedule, number: int) -> list[Messages]:
    """Return the messages of both directions of a round."""
    directions = []
    for ascending in (True, False):
        target = sends_to(schedule.peers(number), ascending)
        sender = np.flatnonzero(target != IDLE)
        seconds = seconds_of(topology, sender, target[sender])
        turn = np.full(len(sender), 2 * number + (not ascending))
        directions.append((sender, target[sender], turn, seconds))
    return directions


def cost_s(topology: Topology, directions: Sequence[Messages]) -> float:
    """Return the time of all samples and runs of directions of rounds, in seconds."""
    around_s = AROUND_S * math.log2(topology.num_ranks)
    return sum(RUNS * SAMPLES * (float(seconds.max()) + around_s) for *_, seconds in directions)


def judge_rounds(topology: Topology, rounds: Rounds, ranks: GroupedRanks, noise: float, seed: int) -> AcceptanceVerdict:
    """Return the verdict on rounds with noise.

    Args:
        topology: the cluster.
        rounds: of it.
        ranks: of it.
        noise: standard deviation of the logarithm of a sample. A tenth of the samples have spikes
            of three times that.
        seed: of the noise.
    """
    rng = np.random.default_rng(seed)
    spread = SPREAD_OF_MEDIAN * noise * np.where(rng.random((2, len(rounds.seconds))) < 0.1, 3, 1)
    halves = np.log(rounds.seconds) + spread * rng.standard_normal((2, len(rounds.seconds)))
    pairs = PairTimes(topology.size_mib, rounds.sender, rounds.receiver, halves, rounds.turn, ranks.places)
    return judge_tables([pairs], [], ranks, FaultLimits())


def is_named(verdict: AcceptanceVerdict, fault: Broken, topology: Topology) -> bool:
    """Return whether a finding names a fault: what is slow, and in which direction.

    Where a node has one rank, or a switch one node, the smaller one may be named.
    """
    wanted = {FAMILIES[fault.kind]}
    if fault.kind == NIC and topology.ranks_per_node == 1:
        wanted.add(matrix.RANK)
    if fault.kind == NIC:  # behind busy uplinks, only what stays at its switch is slower
        wanted.add(f"{matrix.NODE} {matrix.NEAR}")
    if fault.kind == LEAF and topology.nodes_per_leaf == 1:
        wanted.add(FAMILIES[NIC])
    at = set(fault.at)
    return any(set(finding.cause.numbers) == at and finding.parts & wanted for finding in verdict.findings)


def with_fault(topology: Topology, fault: Broken) -> Topology:
    return msgspec.structs.replace(topology, faults=[fault])

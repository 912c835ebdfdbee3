"""What verdicts call out of line, and what they may not call alike."""

import numpy as np
import pytest
from analysis.acceptance.verdict import judge_tables, ranks_of, with_levels
from analysis.records.places import RankMapping
from analysis.suites.pair_matrix.matrix import Level, PairTimes
from analysis.suites.rank_speed.speeds import Speeds
from benchkit.statistics.faults import FaultLimits
from perf.simulate.acceptance import judge_rounds, rounds_of
from perf.simulate.topology import Broken, Topology

TOLERANCE = 0.1


def one(*_):
    return 1.0


def at(hosts, devices=None):
    devices = devices or [""] * len(hosts)
    return [RankMapping(rank, host, device) for rank, (host, device) in enumerate(zip(hosts, devices, strict=True))]


def pairs(places, slow, later=None, sd=0.02):
    """All pairs: 1 ms on a node, 3 ms across, times `slow(sender, receiver)`, in the second half times `later`."""
    sender, receiver = np.array([(i, j) for i in range(len(places)) for j in range(len(places)) if i != j]).T
    inside = [places[i].host == places[j].host for i, j in zip(sender, receiver, strict=True)]
    halves = [np.log([each(i, j) for i, j in zip(sender, receiver, strict=True)]) for each in (slow, later or slow)]
    noise = sd * np.random.default_rng(0).standard_normal((2, len(sender)))
    halves = np.log(np.where(inside, 1e-3, 3e-3)) + np.array(halves) + noise
    return PairTimes(4.0, sender, receiver, halves, np.zeros(len(sender), int), places)


def speeds(places, slow, later=None, test="copy"):
    halves = np.log([[1e-3 * each(rank) for rank in range(len(places))] for each in (slow, later or slow)])
    halves += 0.01 * np.random.default_rng(1).standard_normal(halves.shape)
    return Speeds(test, "", halves, 1e6, False, places, {})


def lines(places, matrices=(), tests=(), levels=()):
    ranks = with_levels(ranks_of(places, {}), levels)
    return judge_tables(list(matrices), list(tests), ranks, FaultLimits(), levels).lines(TOLERANCE)


def findings(*args, **kwargs):
    return [line for line in lines(*args, **kwargs) if line.startswith("- ")]


def nodes(count, ranks):
    return at([f"n{rank // ranks}" for rank in range(count * ranks)])


def kind(told):
    """Of a verdict, as its first line begins."""
    return told[0].split(":")[0]


def slow_if(holds, ratio=2.0):
    return lambda *at: ratio if holds(*at) else 1.0


def first_half(rank):
    return {2: 1.5, 6: 3.0}.get(rank, 1.0)


THREE, TWO_OF_FOUR, FOUR = nodes(3, 4), nodes(2, 4), nodes(4, 4)
CASES = {
    # It is in two thirds of all pairs across nodes.
    "node of three": (THREE, [pairs(THREE, slow_if(lambda i, j: (i // 4 == 1) != (j // 4 == 1)))], []),
    # A slow disk hides no other fault.
    "disk, product and link": (
        FOUR,
        [pairs(FOUR, slow_if(lambda i, j: {i, j} == {5, 12}, 3.0))],
        [
            speeds(FOUR, slow_if(lambda rank: rank // 4 == 1), test="disk_write"),
            speeds(FOUR, slow_if(lambda rank: rank == 5), test="matmul"),
        ],
    ),
    "inside a node": (TWO_OF_FOUR, [pairs(TWO_OF_FOUR, slow_if(lambda i, j: i // 4 == j // 4 == 1))], []),
    "a rank to other nodes": (
        TWO_OF_FOUR, [pairs(TWO_OF_FOUR, slow_if(lambda i, j: i // 4 != j // 4 and 1 in (i, j)))], [],
    ),
    "one way": (TWO_OF_FOUR, [pairs(TWO_OF_FOUR, slow_if(lambda i, j: (i // 4, j // 4) == (0, 1)))], []),
    # What passes hides no lasting fault.
    "first half only": (
        TWO_OF_FOUR, [], [speeds(TWO_OF_FOUR, first_half, later=slow_if(lambda rank: rank == 2, 1.5))],
    ),
}  # fmt: skip
"""Places, matrices and tests of ranks in which something is slower than its peers."""


def test_what_is_slow_is_named(golden):
    told = {name: lines(*case) for name, case in CASES.items()}
    assert {kind(each) for each in told.values()} == {"OUT OF LINE"}
    golden("\n".join(f"{name}:\n" + "\n".join(each) for name, each in told.items()))


@pytest.mark.parametrize(
    ("places", "slow_pair", "slow_rank"),
    [
        (nodes(3, 1), slow_if(lambda i, j: 1 in (i, j), 3.0), one),
        (nodes(4, 8), one, slow_if(lambda rank: rank >= 12)),
        (nodes(8, 1), slow_if(lambda i, j: {1, 2, 3} & {i, j}), one),
    ],
    ids=["one of three", "a quarter", "three of eight"],
)
def test_majority_that_is_slow_is_not_alike(places, slow_pair, slow_rank, golden):
    told = lines(places, [pairs(places, slow_pair)], [speeds(places, slow_rank)])
    assert kind(told) == "UNLIKE"
    golden("\n".join(told[:2]))


def test_single_fast_link_is_told_and_alike(golden):
    """Two GPUs joined by a bridge are no fault of the others."""
    places = nodes(1, 8)
    told = lines(places, [pairs(places, slow_if(lambda i, j: {i, j} == {2, 3}, 0.3))])
    assert kind(told) == "ALL ALIKE"
    golden("\n".join(told))


@pytest.mark.parametrize("who", [0, 1])
def test_slower_one_of_two_is_named(who):
    places = at(["a", "b"])
    told = lines(places, [], [speeds(places, slow_if(lambda rank: rank == who, 1.25))])
    assert kind(told) == "UNLIKE"
    assert told[1].startswith(f"- rank {who} on {'ab'[who]}")


def test_few_that_differ_once_or_by_noise_are_not_judged():
    """Of noise the other tests tell, of the same two ranks: how much a figure varies."""
    places, slower = at(["a", "b"]), slow_if(lambda rank: rank == 1, 1.25)
    assert kind(lines(places, [], [speeds(places, one, later=slower)])) == "NOT JUDGED"
    noisy = [
        speeds(places, one, later=slow_if(lambda rank: rank == 1, size), test=f"test {size}")
        for size in (0.6, 0.8, 1.3, 1.6)
    ]
    assert kind(lines(places, [], [speeds(places, slower), *noisy])) == "NOT JUDGED"
    three = nodes(3, 1)
    assert kind(lines(three, [], [speeds(three, slow_if(lambda rank: rank == 1, 3.0))])) == "NOT JUDGED"


def test_nodes_of_other_devices_are_other_kinds():
    places = at([f"n{rank // 4}" for rank in range(16)], ["H100"] * 12 + ["A100"] * 4)
    slower = pairs(places, lambda i, j: 1.5 if 3 in (i // 4, j // 4) else 1.0)
    assert kind(lines(places, [slower])) == "ALL ALIKE"


def test_rare_kind_does_not_blind_the_others():
    places = at(["a", "a", "b", "b", *(f"n{rank}" for rank in range(20))])
    [found] = findings(places, [pairs(places, lambda i, j: 1.5 if 9 in (i, j) else 1.0)])
    assert found.startswith("- rank 9")


def test_slow_group_is_named_where_nothing_in_it_is(golden):
    places = nodes(2, 8)
    halves = np.log([[1e-3, 1e-3, 5e-3, 1e-3]] * 2) + 0.01 * np.random.default_rng(2).standard_normal((2, 4))
    level = Level("quarters", [rank // 4 for rank in range(16)], halves)
    [found] = findings(places, [pairs(places, one)], levels=[level])
    golden(found)
    slow_rank = pairs(places, lambda i, j: 2.0 if 9 in (i, j) else 1.0)
    [cause] = findings(places, [slow_rank], levels=[level])
    assert cause.startswith("- rank 9")


@pytest.mark.parametrize(("count", "per_leaf", "oversubscription"), [(8, 4, 4.0), (8, 2, 2.0), (40, 8, 2.0)])
def test_uplinks_that_more_messages_share_are_no_fault(count, per_leaf, oversubscription):
    cluster = Topology(
        nodes=count, ranks_per_node=2, rails=2, nodes_per_leaf=per_leaf, oversubscription=oversubscription
    )
    verdict = judge_rounds(cluster, rounds_of(cluster, 4.0, 0), cluster.ranks(), 0.05, 0)
    assert verdict.findings == []
    assert verdict.is_alike


def test_slow_cards_show_behind_busy_uplinks():
    """Half of all messages of the node wait for the uplinks anyway."""
    cluster, broken = (
        Topology(nodes=12, ranks_per_node=4, rails=4, nodes_per_leaf=4, oversubscription=2.0, faults=faults)
        for faults in ([], [Broken("node", [5], 2.0)])
    )
    verdict = judge_rounds(broken, rounds_of(broken, 4.0, 0), cluster.ranks(), 0.05, 0)
    assert [finding.cause.numbers for finding in verdict.findings] == [(5,)]

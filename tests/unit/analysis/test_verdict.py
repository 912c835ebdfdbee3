"""What verdicts call out of line, and what they may not call alike."""

import numpy as np
import pytest
from analysis.records.places import Place
from analysis.suites.acceptance.verdict import judge_tables, ranks_of, with_levels
from analysis.suites.pair_matrix.matrix import Level, Matrix
from analysis.suites.rank_speed.speeds import Speeds
from benchkit.statistics.faults.cells import Limits
from perf.simulate.acceptance import judged, rounds_of
from perf.simulate.topology import Broken, Topology

TOLERANCE = 0.1


def one(*_):
    return 1.0


def at(hosts, devices=None):
    devices = devices or [""] * len(hosts)
    return [Place(rank, host, device) for rank, (host, device) in enumerate(zip(hosts, devices, strict=True))]


def pairs(places, slow, later=None, sd=0.02):
    """All pairs: 1 ms on a node, 3 ms across, times `slow(sender, receiver)`, in the second half times `later`."""
    sender, receiver = np.array([(i, j) for i in range(len(places)) for j in range(len(places)) if i != j]).T
    inside = [places[i].host == places[j].host for i, j in zip(sender, receiver, strict=True)]
    halves = [np.log([each(i, j) for i, j in zip(sender, receiver, strict=True)]) for each in (slow, later or slow)]
    noise = sd * np.random.default_rng(0).standard_normal((2, len(sender)))
    halves = np.log(np.where(inside, 1e-3, 3e-3)) + np.array(halves) + noise
    return Matrix(4.0, sender, receiver, halves, np.zeros(len(sender), int), places)


def speeds(places, slow, later=None, test="copy"):
    halves = np.log([[1e-3 * each(rank) for rank in range(len(places))] for each in (slow, later or slow)])
    halves += 0.01 * np.random.default_rng(1).standard_normal(halves.shape)
    return Speeds(test, "", halves, 1e6, False, places, {})


def lines(places, matrices=(), tests=(), levels=()):
    ranks = with_levels(ranks_of(places, {}), levels)
    return judge_tables(list(matrices), list(tests), ranks, Limits(), levels).lines(TOLERANCE)


def findings(*args, **kwargs):
    return [line for line in lines(*args, **kwargs) if line.startswith("- ")]


def nodes(count, ranks):
    return at([f"n{rank // ranks}" for rank in range(count * ranks)])


def kind(told):
    """Of a verdict, as its first line begins."""
    return told[0].split(":")[0]


def test_slow_node_of_three_is_named(golden):
    """It is in two thirds of all pairs across nodes."""
    places = nodes(3, 4)
    [found] = findings(places, [pairs(places, lambda i, j: 2.0 if (i // 4 == 1) != (j // 4 == 1) else 1.0)])
    golden(found)


@pytest.mark.parametrize(
    ("places", "slow_pair", "slow_rank"),
    [
        (nodes(3, 1), lambda i, j: 3.0 if 1 in (i, j) else 1.0, one),
        (nodes(4, 8), one, lambda rank: 2.0 if rank >= 12 else 1.0),
        (nodes(8, 1), lambda i, j: 2.0 if {1, 2, 3} & {i, j} else 1.0, one),
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
    told = lines(places, [pairs(places, lambda i, j: 0.3 if {i, j} == {2, 3} else 1.0)])
    assert kind(told) == "ALL ALIKE"
    golden("\n".join(told))


@pytest.mark.parametrize("who", [0, 1])
def test_slower_one_of_two_is_named(who, golden):
    places = at(["a", "b"])
    told = lines(places, [], [speeds(places, lambda rank: 1.25 if rank == who else 1.0)])
    assert kind(told) == "UNLIKE"
    golden(told[1])


def test_two_that_differ_once_or_by_noise_are_not_judged():
    """Of noise the other tests tell, of the same two ranks: how much a figure varies."""
    places = at(["a", "b"])
    assert kind(lines(places, [], [speeds(places, one, later=lambda rank: 1.25 if rank else 1.0)])) == "NOT JUDGED"
    noisy = [
        speeds(places, one, later=lambda rank, size=size: size if rank else 1.0, test=f"test {size}")
        for size in (0.6, 0.8, 1.3, 1.6)
    ]
    told = lines(places, [], [speeds(places, lambda rank: 1.25 if rank else 1.0), *noisy])
    assert kind(told) == "NOT JUDGED"


def test_three_ranks_are_too_few_to_be_alike(golden):
    places = nodes(3, 1)
    told = lines(places, [], [speeds(places, lambda rank: 3.0 if rank == 1 else 1.0)])
    assert kind(told) == "NOT JUDGED"
    golden("\n".join(told))


def test_what_passes_hides_no_lasting_fault(golden):
    places = nodes(2, 4)

    def first(rank):
        return {2: 1.5, 6: 3.0}.get(rank, 1.0)

    told = lines(places, [], [speeds(places, first, later=lambda rank: 1.5 if rank == 2 else 1.0)])
    assert [line for line in told if line.startswith("- ")] == [told[1]]
    golden("\n".join(told))


def test_slow_disk_hides_no_other_fault(golden):
    places = nodes(4, 4)
    disk = speeds(places, lambda rank: 2.0 if rank // 4 == 1 else 1.0, test="disk_write")
    product = speeds(places, lambda rank: 2.0 if rank == 5 else 1.0, test="matmul")
    link = pairs(places, lambda i, j: 3.0 if {i, j} == {5, 12} else 1.0)
    found = findings(places, [link], [disk, product])
    assert len(found) == 3
    golden("\n".join(found))


def test_part_of_one_of_two_nodes_is_named(golden):
    places, told = nodes(2, 4), []
    for slow in (
        lambda i, j: i // 4 == j // 4 == 1,
        lambda i, j: i // 4 != j // 4 and 1 in (i, j),
        lambda i, j: (i // 4, j // 4) == (0, 1),
    ):
        told += findings(places, [pairs(places, lambda i, j, slow=slow: 2.0 if slow(i, j) else 1.0)])
    assert len(told) == 3
    golden("\n".join(told))


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
    verdict = judged(cluster, rounds_of(cluster, 4.0, 0), cluster.ranks(), 0.05, 0)
    assert verdict.findings == []
    assert verdict.is_alike


def test_slow_cards_show_behind_busy_uplinks():
    """Half of all messages of the node wait for the uplinks anyway."""
    cluster, broken = (
        Topology(nodes=12, ranks_per_node=4, rails=4, nodes_per_leaf=4, oversubscription=2.0, faults=faults)
        for faults in ([], [Broken("node", [5], 2.0)])
    )
    verdict = judged(broken, rounds_of(broken, 4.0, 0), cluster.ranks(), 0.05, 0)
    assert [finding.cause.numbers for finding in verdict.findings] == [(5,)]

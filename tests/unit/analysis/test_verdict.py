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


def test_slow_node_of_three_is_named():
    """It is in two thirds of all pairs across nodes."""
    places = nodes(3, 4)
    [found] = findings(places, [pairs(places, lambda i, j: 2.0 if (i // 4 == 1) != (j // 4 == 1) else 1.0)])
    assert found.startswith("- node n1 (ranks 4, 5, 6, 7), in what it exchanges with others")


@pytest.mark.parametrize(
    ("places", "slow_pair", "slow_rank"),
    [
        (nodes(3, 1), lambda i, j: 3.0 if 1 in (i, j) else 1.0, one),
        (nodes(4, 8), one, lambda rank: 2.0 if rank >= 12 else 1.0),
        (nodes(8, 1), lambda i, j: 2.0 if {1, 2, 3} & {i, j} else 1.0, one),
    ],
)
def test_majority_that_is_slow_is_not_alike(places, slow_pair, slow_rank):
    head, *found = lines(places, [pairs(places, slow_pair)], [speeds(places, slow_rank)])
    assert head.startswith("UNLIKE: ")
    assert "times its peers' time: " in found[0]


def test_single_fast_link_is_told_and_alike():
    """Two GPUs joined by a bridge are no fault of the others."""
    places = nodes(1, 8)
    head, *more = lines(places, [pairs(places, lambda i, j: 0.3 if {i, j} == {2, 3} else 1.0)])
    assert head.startswith("ALL ALIKE: ")
    assert any(line.startswith("Faster than its peers: the link between rank 2") for line in more)


@pytest.mark.parametrize("who", [0, 1])
def test_slower_one_of_two_is_named(who):
    places = at(["a", "b"])
    head, found, *_ = lines(places, [], [speeds(places, lambda rank: 1.25 if rank == who else 1.0)])
    assert head.startswith("UNLIKE: ")
    assert found.startswith(f"- rank {who} on {'ab'[who]} takes 1.2")


def test_two_that_differ_once_are_not_judged():
    places = at(["a", "b"])
    [head, *_] = lines(places, [], [speeds(places, one, later=lambda rank: 1.25 if rank else 1.0)])
    assert head.startswith("NOT JUDGED: ")


def test_two_that_differ_by_noise_are_not_judged():
    """The other tests, of the same two ranks, say how much a figure varies."""
    places = at(["a", "b"])
    noisy = [
        speeds(places, one, later=lambda rank, size=size: size if rank else 1.0, test=f"test {size}")
        for size in (0.6, 0.8, 1.3, 1.6)
    ]
    [head, *_] = lines(places, [], [speeds(places, lambda rank: 1.25 if rank else 1.0), *noisy])
    assert head.startswith("NOT JUDGED: ")


def test_three_ranks_are_too_few_to_be_alike():
    places = nodes(3, 1)
    head, more = lines(places, [], [speeds(places, lambda rank: 3.0 if rank == 1 else 1.0)])
    assert head.startswith("NOT JUDGED: ")
    assert more == "Too few or too unsteady to see even 10 times: copy."


def test_what_passes_hides_no_lasting_fault():
    places = nodes(2, 4)

    def first(rank):
        return {2: 1.5, 6: 3.0}.get(rank, 1.0)

    told = lines(places, [], [speeds(places, first, later=lambda rank: 1.5 if rank == 2 else 1.0)])
    assert [line for line in told if line.startswith("- ")] == [told[1]]
    assert told[1].startswith("- rank 2 on n0: times its peers' time: copy 1.5")
    assert told[-1].startswith("In the first half, or run, beside the other one: rank 6 on n1: times its peers' time")


def test_slow_disk_hides_no_other_fault():
    places = nodes(4, 4)
    disk = speeds(places, lambda rank: 2.0 if rank // 4 == 1 else 1.0, test="disk_write")
    product = speeds(places, lambda rank: 2.0 if rank == 5 else 1.0, test="matmul")
    link = pairs(places, lambda i, j: 3.0 if {i, j} == {5, 12} else 1.0)
    found = findings(places, [link], [disk, product])
    assert [line.split(":")[0] for line in found] == [
        "- the link between rank 5 on n1 and rank 12 on n3, both ways",
        "- node n1 (ranks 4, 5, 6, 7)",
        "- rank 5 on n1",
    ]


@pytest.mark.parametrize(
    ("slow", "named"),
    [
        (lambda i, j: i // 4 == j // 4 == 1, "node n1 (ranks 4, 5, 6, 7), in what stays inside"),
        (lambda i, j: i // 4 != j // 4 and 1 in (i, j), "rank 1 on n0, in what it exchanges with other nodes"),
        (lambda i, j: (i // 4, j // 4) == (0, 1), "the link from node n0 (ranks 0, 1, 2, 3) to node n1"),
    ],
)
def test_part_of_one_of_two_nodes_is_named(slow, named):
    places = nodes(2, 4)
    [found] = findings(places, [pairs(places, lambda i, j: 2.0 if slow(i, j) else 1.0)])
    assert found.startswith(f"- {named}")


def test_nodes_of_other_devices_are_other_kinds():
    places = at([f"n{rank // 4}" for rank in range(16)], ["H100"] * 12 + ["A100"] * 4)
    slower = pairs(places, lambda i, j: 1.5 if 3 in (i // 4, j // 4) else 1.0)
    assert lines(places, [slower])[0].startswith("ALL ALIKE: ")


def test_rare_kind_does_not_blind_the_others():
    places = at(["a", "a", "b", "b", *(f"n{rank}" for rank in range(20))])
    [found] = findings(places, [pairs(places, lambda i, j: 1.5 if 9 in (i, j) else 1.0)])
    assert found.startswith("- rank 9 on n5: ")


def test_slow_group_is_named_where_nothing_in_it_is():
    places = nodes(2, 8)
    halves = np.log([[1e-3, 1e-3, 5e-3, 1e-3]] * 2) + 0.01 * np.random.default_rng(2).standard_normal((2, 4))
    level = Level("quarters", [rank // 4 for rank in range(16)], halves)
    [found] = findings(places, [pairs(places, one)], levels=[level])
    assert found.startswith(
        "- quarters group 2 (ranks 8, 9, 10, 11): times its peers' time: all-reduce of quarters 4.97."
    )
    slow_rank = pairs(places, lambda i, j: 2.0 if 9 in (i, j) else 1.0)
    [cause] = findings(places, [slow_rank], levels=[level])
    assert cause.startswith("- rank 9 on n1: ")


def test_uplinks_that_more_messages_share_are_no_fault():
    for nodes, nodes_per_leaf, oversubscription in ((8, 4, 4.0), (8, 2, 2.0), (40, 8, 2.0)):
        cluster = Topology(
            nodes=nodes, ranks_per_node=2, rails=2, nodes_per_leaf=nodes_per_leaf, oversubscription=oversubscription
        )
        verdict = judged(cluster, rounds_of(cluster, 4.0, 0), cluster.ranks(), 0.05, 0)
        assert verdict.findings == []
        assert verdict.is_alike


def test_slow_cards_show_behind_busy_uplinks():
    """Half of all messages of the node wait for the uplinks anyway."""
    cluster = Topology(nodes=12, ranks_per_node=4, rails=4, nodes_per_leaf=4, oversubscription=2.0)
    broken = Topology(
        nodes=12, ranks_per_node=4, rails=4, nodes_per_leaf=4, oversubscription=2.0, faults=[Broken("node", [5], 2.0)]
    )
    verdict = judged(broken, rounds_of(broken, 4.0, 0), cluster.ranks(), 0.05, 0)
    assert [finding.cause.numbers for finding in verdict.findings] == [(5,)]

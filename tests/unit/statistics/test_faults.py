"""Faults in tables of ranks and of pairs: each kind is told from the others, and noise is none."""

import math

import numpy as np
import pytest
from benchkit.statistics.faults import (
    FaultLimits,
    PeerGroups,
    detectable_ratio,
    estimate_healthy,
    find_faults,
    make_family,
)
from hypothesis import given, settings
from hypothesis import strategies as st

LIMITS = FaultLimits()


def pairs(ranks):
    sender, receiver = np.divmod(np.arange(ranks**2), ranks)
    return sender[sender != receiver], receiver[sender != receiver]


def families(sender, receiver, node):
    ranks, nodes = len(node), max(node) + 1
    ours, theirs = node[sender], node[receiver]
    crosses = np.where(ours != theirs, ours, -1), np.where(ours != theirs, theirs, -1)
    return [
        make_family("one way", sender * ranks + receiver),
        make_family("link", np.minimum(sender, receiver) * ranks + np.maximum(sender, receiver)),
        make_family("sends", sender),
        make_family("receives", receiver),
        make_family("rank", sender, receiver),
        *([make_family("network", *crosses), make_family("node", ours, crosses[1])] if 1 < nodes < ranks else []),
    ]


def found(ranks, node, slow, noise=0.03, seed=0, limits=LIMITS):
    """The faults of a table whose cells have log ratios `slow(sender, receiver, node)`."""
    sender, receiver = pairs(ranks)
    node = np.array(node)
    halves = noise * np.random.default_rng(seed).standard_normal((2, len(sender))) + slow(sender, receiver, node)
    kinds = (node[sender] != node[receiver]).astype(int)
    faults = find_faults(halves, PeerGroups(kinds, families(sender, receiver, node)), limits)
    return [(fault.family, fault.subject) for fault in faults]


SLOW = math.log(1.6)
APART, IN_FOURS = list(range(8)), [rank // 4 for rank in range(16)]
FAULTS = {
    "one way": (APART, lambda s, r, node: SLOW * ((s == 2) & (r == 5)), ("one way", 2 * 8 + 5)),
    "link": (APART, lambda s, r, node: SLOW * (((s == 2) & (r == 5)) | ((s == 5) & (r == 2))), ("link", 2 * 8 + 5)),
    "sends": (APART, lambda s, r, node: SLOW * (s == 2), ("sends", 2)),
    "receives": (APART, lambda s, r, node: SLOW * (r == 2), ("receives", 2)),
    "rank": (APART, lambda s, r, node: SLOW * ((s == 2) | (r == 2)), ("rank", 2)),
    "network": (IN_FOURS, lambda s, r, node: SLOW * ((node[s] == 1) ^ (node[r] == 1)), ("network", 1)),
    "node": (IN_FOURS, lambda s, r, node: SLOW * ((node[s] == 1) | (node[r] == 1)), ("node", 1)),
}


@pytest.mark.parametrize("noise", [0.03, 0.0])
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named(name, noise):
    node, slow, expected = FAULTS[name]
    assert [found(len(node), node, slow, noise, seed) for seed in range(2)] == [[expected]] * 2


def test_two_faults_are_both_named():
    def slow(s, r, node):
        return SLOW * ((s == 2) | (r == 2)) + 1.5 * SLOW * ((s == 6) & (r == 0))

    assert set(found(8, APART, slow)) == {("rank", 2), ("one way", 6 * 8)}


def test_group_is_judged_by_cells_that_it_slows_for_certain():
    """It explains the others too, such as those of turns in which its uplink is half full."""
    sender, receiver = pairs(12)
    shows = (sender + receiver) % 3 == 0
    table = np.where((sender == 3) & shows, SLOW, 0.0) + np.where((sender == 3) & (receiver < 2), SLOW / 2, 0.0)
    halves = table + 0.02 * np.random.default_rng(0).standard_normal((2, len(sender)))
    rows, uplinks = make_family("sends", sender), make_family("uplink", sender, shows=[shows])
    kinds = np.zeros(len(sender), dtype=int)
    single = make_family("one way", sender * 12 + receiver)
    [fault] = find_faults(halves, PeerGroups(kinds, [single, uplinks]), LIMITS)
    assert (fault.family, fault.subject) == ("uplink", 3)
    assert len(find_faults(halves, PeerGroups(kinds, [single, rows]), LIMITS)) > 1


def test_cells_without_peers_do_not_hide_a_slow_group():
    """It has all cells of most kinds, which are as slow as each other."""
    sender, receiver = pairs(16)
    kinds = np.where((sender == 3) & (receiver < 12), 1 + receiver // 4, 0)
    halves = np.where(sender == 3, SLOW, 0.0) + 0.02 * np.random.default_rng(0).standard_normal((2, len(sender)))
    [fault] = find_faults(halves, PeerGroups(kinds, [make_family("sends", sender)]), LIMITS)
    assert (fault.family, fault.subject, fault.num_cells) == ("sends", 3, 4)


def test_half_of_all_pairs_may_be_slow():
    """Of four ranks, one slow rank is in six of twelve pairs."""
    assert found(4, [0, 1, 2, 3], lambda s, r, node: 2 * SLOW * ((s == 1) | (r == 1)), noise=0.02) == [("rank", 1)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([1, 2, 4]), st.floats(0.001, 0.2))
def test_kinds_of_pairs_that_differ_are_no_fault(seed, nodes, ranks, noise):
    """Seeds of hypothesis are few; perf/acceptance.py counts false alarms."""
    node = [rank // ranks for rank in range(nodes * ranks)]
    slow = found(len(node), node, lambda s, r, node: 3.0 * (node[s] != node[r]), noise, seed, FaultLimits(alpha=1e-4))
    assert slow == []


def test_tolerance_and_floor_hide_faults():
    slow = FAULTS["one way"][1]
    assert found(8, APART, slow, noise=0.001, limits=FaultLimits(tolerance=0.7)) == []
    assert found(8, APART, slow, noise=0.001, limits=FaultLimits(floor=0.001)) == [("one way", 21)]
    assert found(8, APART, slow, noise=0.001, limits=FaultLimits(floor=0.2)) == []


def test_spike_in_one_half_is_no_fault():
    sender, receiver = pairs(8)
    halves = 0.02 * np.random.default_rng(1).standard_normal((2, len(sender)))
    halves[0, 10] += 2.0
    kinds = np.zeros(len(sender), dtype=int)
    assert find_faults(halves, PeerGroups(kinds, families(sender, receiver, np.arange(8))), LIMITS) == []
    halves[1, 10] += 2.0
    [fault] = find_faults(halves, PeerGroups(kinds, families(sender, receiver, np.arange(8))), LIMITS)
    assert (fault.family, fault.num_cells, round(math.log(fault.ratio), 1)) == ("one way", 1, 2.0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_cells_have_no_peers(count):
    peers = PeerGroups(np.zeros(count, dtype=int), [make_family("rank", np.arange(count))])
    assert find_faults(np.arange(2.0 * count).reshape(2, count) ** 3, peers, LIMITS) == []


def test_family_lists_cells_of_candidates():
    made = make_family("rank", np.array([4, -1, 4]), np.array([9, 9, -1]))
    assert made.subjects.tolist() == [4, 9]
    assert made.cells.tolist() == [[0, 2], [0, 1]]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60), st.floats(-3, 3))
def test_healthy_values_move_with_shift(values, shift):
    values = np.round(np.array(values), 3)
    here, there = estimate_healthy(values), estimate_healthy(values + round(shift, 3))
    assert there.centre == pytest.approx(here.centre + round(shift, 3), abs=0.3 + 3 * here.sd)
    assert values.min() - 1e-9 <= here.centre <= values.max() + 1e-9
    assert here.count <= len(values)


@pytest.mark.parametrize(
    ("share", "good", "slow"), [(1 / 2, 50, 50), (1 / 3, 40, 80), (1 / 2, 250, 50), (1 / 3, 300, 0)]
)
def test_healthy_values_are_the_faster_share(share, good, slow):
    """What is slow does not widen their spread."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 0.1, good), rng.normal(3, 0.1, slow)])
    known = estimate_healthy(values, share)
    assert (known.centre, known.sd) == (pytest.approx(0, abs=0.05), pytest.approx(0.1, abs=0.03))


@pytest.mark.parametrize("spikes", [0.0, 0.1])
def test_most_faults_of_the_told_ratio_are_found(spikes):
    sender, receiver = pairs(8)
    made, found = families(sender, receiver, np.arange(8)), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        halves = 0.1 * rng.standard_normal((2, len(sender)))
        halves += np.where(rng.random(halves.shape) < spikes, rng.random(halves.shape), 0)
        peers = PeerGroups(np.zeros(len(sender), dtype=int), made)
        halves[:, 20] += math.log(detectable_ratio(halves, peers, LIMITS))
        found += any(fault.family == "one way" for fault in find_faults(halves, peers, LIMITS))
    assert found >= 15


def test_healthy_values_may_be_wider_than_slow_ones():
    """A slow cable is the bottleneck of its pairs, and steadier than what limits the others."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.uniform(0, 0.5, 24), rng.uniform(1.4, 1.65, 24)])
    known = estimate_healthy(values)
    assert known.centre == pytest.approx(0.25, abs=0.05)
    assert known.count == 24

"""The tournament of pairs: every pair once, disjoint, on one node and across apart, however many ranks and nodes."""

from collections import Counter

import numpy as np
import pytest
from benchkit.suites.pair_matrix.schedule import Schedule, num_rounds, sends_to
from benchkit.suites.pair_matrix.suite import IDLE
from hypothesis import given
from hypothesis import strategies as st

HOSTS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=24)


def met(schedule, number):
    peers = schedule.peers(number)
    return [(rank, int(peer)) for rank, peer in enumerate(peers) if peer > rank]


@given(HOSTS)
def test_every_pair_meets_once(hosts):
    schedule = Schedule(hosts)
    found = Counter(pair for number in range(schedule.num_rounds) for pair in met(schedule, number))
    ranks = range(len(hosts))
    assert found == Counter((i, j) for i in ranks for j in ranks if i < j)


@given(HOSTS)
def test_rounds_are_disjoint_and_keep_nodes_apart(hosts):
    schedule = Schedule(hosts)
    for number in range(schedule.num_rounds):
        peers = schedule.peers(number)
        for rank, peer in enumerate(peers):
            assert peer == IDLE or peers[peer] == rank != peer
        inside = {hosts[i] == hosts[j] for i, j in met(schedule, number)}
        assert inside <= {number < schedule.num_inside}


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 8), (8, 1), (2, 8), (2, 1)])
def test_even_numbers_need_one_round_less_than_ranks(nodes, ranks):
    schedule = Schedule([f"n{node}" for node in range(nodes) for _ in range(ranks)])
    assert schedule.num_rounds == nodes * ranks - 1
    for number in range(schedule.num_rounds):
        assert (schedule.peers(number) != IDLE).all()


def test_odd_number_has_one_idle_rank_per_round():
    schedule = Schedule(["n0"] * 5)
    idle = [int((schedule.peers(number) == IDLE).sum()) for number in range(schedule.num_rounds)]
    assert (idle, num_rounds(1), num_rounds(0)) == ([1] * 5, 0, 0)


@given(HOSTS, st.integers(0, 40), st.integers(0, 5))
def test_chosen_rounds_are_few_distinct_and_of_both_kinds(hosts, wanted, seed):
    schedule = Schedule(hosts)
    chosen = schedule.choose_rounds(wanted, seed)
    full = [number for number in range(schedule.num_rounds) if met(schedule, number)]
    assert set(chosen) <= set(full)
    assert len(chosen) == len(set(chosen)) == min(wanted, len(full))
    assert chosen == schedule.choose_rounds(wanted, seed)
    inside = sum(number < schedule.num_inside for number in full)
    across = len(full) - inside
    taken = sum(number < schedule.num_inside for number in chosen)
    assert taken >= min(inside, wanted // 2)
    assert len(chosen) - taken >= min(across, wanted // 2)


def test_single_chosen_round_is_across_nodes():
    schedule = Schedule(["a", "a", "b", "b"])
    assert schedule.choose_rounds(1, 0)[0] >= schedule.num_inside


@pytest.mark.parametrize("sizes", [(1, 2, 8), (8,), (3, 1, 4, 1), (1, 1)])
def test_fullest_round_is_across_nodes_and_has_most_pairs(sizes):
    schedule = Schedule([f"n{node}" for node, size in enumerate(sizes) for _ in range(size)])
    assert (schedule.fullest >= schedule.num_inside) == (len(sizes) > 1)
    first = schedule.num_inside if len(sizes) > 1 else 0
    most = max(len(met(schedule, number)) for number in range(first, schedule.num_rounds))
    assert len(met(schedule, schedule.fullest)) == most > 0


@given(HOSTS)
def test_directions_have_each_pair_once(hosts):
    schedule = Schedule(hosts)
    for number in range(schedule.num_rounds):
        up, down = (sends_to(schedule.peers(number), ascending) for ascending in (True, False))
        assert not ((up != IDLE) & (down != IDLE)).any()
        senders = np.flatnonzero(up != IDLE)
        assert (up[senders] > senders).all()
        assert (down[up[senders]] == senders).all()

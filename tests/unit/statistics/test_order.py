"""The order in which arms run."""

from collections import Counter

import pytest
from benchkit.statistics.design import order_of_runs


def compared(rounds):
    return [each.roles for each in rounds if not each.is_control]


def test_pairs_are_random_abba_or_baab():
    roles = compared(order_of_runs(400, seed=1))
    blocks = Counter(zip(roles[::2], roles[1::2], strict=True))
    assert set(blocks) == {((0, 1), (1, 0)), ((1, 0), (0, 1))}
    assert min(blocks.values()) > 70
    followed = Counter(zip(roles[::2], roles[2::2], strict=False))
    assert len(followed) == 4  # coins do not follow each other


def test_every_fifth_round_is_control():
    rounds = order_of_runs(20, seed=2)
    assert [index for index, each in enumerate(rounds, 1) if each.is_control] == [5, 10, 15, 20, 25]
    assert len(compared(rounds)) == 20
    controls = [each.roles for each in rounds if each.is_control]
    assert all(controls[0] == each for each in controls[::2])
    assert all(controls[0] == each[::-1] for each in controls[1::2])


@pytest.mark.parametrize("num_arms", [2, 3, 4, 5])
def test_blocks_balance_arm_positions(num_arms):
    roles = compared(order_of_runs(60, seed=3, num_arms=num_arms))
    for first, second in zip(roles[::2], roles[1::2], strict=True):
        assert sorted(first) == list(range(num_arms))
        assert second == first[::-1]
    begins = Counter(each[0] for each in roles)
    assert set(begins) == set(range(num_arms))


def test_longer_comparison_extends_shorter():
    for num_pairs in (0, 1, 3, 4, 5, 17):
        short = order_of_runs(num_pairs, seed=4, num_arms=3)
        assert short == order_of_runs(50, seed=4, num_arms=3)[: len(short)]
        assert len(compared(short)) == num_pairs


def test_seed_fixes_distinct_round_seeds():
    rounds = order_of_runs(50, seed=5)
    assert len({each.seed for each in rounds}) == len(rounds)
    assert rounds == order_of_runs(50, seed=5)
    assert rounds != order_of_runs(50, seed=6)

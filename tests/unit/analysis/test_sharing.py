"""Fair shares of what messages pass, and which messages tell of an uplink."""

import numpy as np
import pytest
from analysis.suites.pair_matrix.matrix import Uplinks, max_min
from hypothesis import given, settings
from hypothesis import strategies as st


def test_shares_are_fair_where_resources_differ():
    """Bertsekas and Gallager's kind of network: one long flow and short ones."""
    resources = np.array([[0, 1], [0, -1], [1, -1], [1, -1]])
    assert max_min(resources, np.array([1.0, 9.0])) == pytest.approx([0.5, 0.5, 4.25, 4.25])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 8))
def test_every_flow_has_full_resource_where_none_is_faster(seed, flows, count):
    """That is what max-min fairness means."""
    rng = np.random.default_rng(seed)
    resources, capacity = rng.integers(-1, count, (flows, 3)), rng.uniform(0.5, 5, count)
    resources[:, 0] = rng.integers(0, count, flows)
    resources = np.where(resources == np.roll(resources, 1, axis=1), -1, resources)
    resources[:, 0] = np.where((resources == -1).all(axis=1), 0, resources[:, 0])
    rates = max_min(resources, capacity)
    used = [rates[(resources == each).any(axis=1)] for each in range(count)]
    for each, limit in zip(used, capacity, strict=True):
        assert each.sum() <= limit * 1.000001 or len(each) == 0
    for rate, passed in zip(rates, resources, strict=True):
        tight = [each for each in passed if each >= 0 and used[each].sum() >= capacity[each] * 0.999]
        assert any(rate >= used[each].max() * 0.999 for each in tight)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(2, 6), st.floats(0.05, 1.0))
def test_limit_of_every_flow_leaves_slower_flows_alone(seed, flows, count, limit):
    """So pairs of equal share are alike at any oversubscription, which need not be known."""
    rng = np.random.default_rng(seed)
    resources = rng.integers(0, count, (flows, 2))
    rates = max_min(resources, np.ones(count))
    own = count + np.arange(flows)
    limited = max_min(np.column_stack([resources, own]), np.append(np.ones(count), np.full(flows, limit)))
    assert limited == pytest.approx(np.minimum(rates, limit))


def test_flows_that_pass_the_same_may_be_counted():
    resources, count = np.array([[0, 1], [0, -1], [1, -1]]), np.array([2, 1, 3])
    every = max_min(np.repeat(resources, count, axis=0), np.array([1.0, 9.0]))
    assert np.repeat(max_min(resources, np.array([1.0, 9.0]), count), count) == pytest.approx(every)


TWO_TURNS = Uplinks(
    here=np.array([0, 0, 0, 1, 0, 2, 0]),
    there=np.array([1, 1, 2, 2, 0, 1, 1]),
    time_slot=np.array([0, 0, 0, 0, 0, 1, 1]),
)


def test_uplinks_are_shared_by_messages_of_turn():
    """Switch 0 sends three messages, and two enter switch 2, of which the one from switch 1 takes the rest."""
    assert TWO_TURNS.rates == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3, np.inf, 1 / 2, 1 / 2])


def test_busiest_turn_of_each_switch_tells_of_it():
    leaving, entering = TWO_TURNS.busy()
    assert leaving.tolist() == [True, True, True, True, False, True, False]
    assert entering.tolist() == [True, True, True, True, False, True, True]


def test_no_message_passes_uplink_of_single_switch():
    uplinks = Uplinks(*np.zeros((3, 4), dtype=int))
    assert uplinks.rates.tolist() == [np.inf] * 4
    assert not np.any(uplinks.busy())


@pytest.mark.parametrize("shift", [-3, 2**40])
def test_turns_may_have_any_numbers(shift):
    shifted = Uplinks(TWO_TURNS.here, TWO_TURNS.there, TWO_TURNS.time_slot + shift)
    assert shifted.rates.tolist() == TWO_TURNS.rates.tolist()
    assert np.array_equal(shifted.busy(), TWO_TURNS.busy())

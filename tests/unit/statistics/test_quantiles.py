import numpy as np
import pytest
from benchkit.statistics.intervals import median, medians, quantile
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.lists(st.floats(0, 1e9), min_size=1, max_size=60)
SHARES = st.floats(0, 1) | st.sampled_from([0.005, 0.25, 0.5, 0.95, 0.99, 0.995])


@given(VALUES)
def test_median_is_that_of_numpy(values):
    assert median(values) == np.median(values)


@given(st.lists(st.tuples(*[st.floats(0, 1e9)] * 5), min_size=1, max_size=6))
def test_medians_are_those_of_numpy(rows):
    assert medians(rows).tolist() == np.median(rows, axis=1).tolist()


@given(VALUES, SHARES)
def test_quantile_is_that_of_numpy(values, share):
    assert quantile(np.sort(values), share) == np.quantile(values, share)


@pytest.mark.parametrize("percent", [25, 50, 95, 99])
def test_percentile_of_many_values_is_that_of_numpy(percent):
    values = np.random.default_rng(0).lognormal(size=1001)
    assert quantile(np.sort(values), percent / 100) == np.percentile(values, percent)

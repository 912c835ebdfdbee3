from statistics import NormalDist

import numpy as np
import pytest
from benchkit.statistics.intervals import median, medians, quantile, t_quantile
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


@pytest.mark.parametrize(
    ("p_value", "df", "quantile"),
    [
        (0.025, 1, 12.706), (0.025, 2, 4.303), (0.025, 3, 3.182), (0.025, 5, 2.571), (0.025, 30, 2.042),
        (0.05, 1, 6.314), (0.05, 5, 2.015), (0.001, 2, 22.33), (0.001, 4, 7.173), (0.001, 10, 4.144),
        (1e-6, 1e6, -NormalDist().inv_cdf(1e-6)), (0.025, np.inf, 1.95996), (1e-9, np.inf, 5.99781),
        (0.025, 1e300, 1.95996),
    ],
)  # fmt: skip
def test_t_quantile_is_that_of_tables(p_value, df, quantile):
    assert t_quantile(p_value, df) == pytest.approx(quantile, rel=3e-4)


def test_t_quantile_falls_with_degrees_of_freedom():
    quantiles = t_quantile(0.01, np.array([0.0, *np.arange(1, 4, 0.1), 100.0, np.inf]))
    assert quantiles[0] == np.inf
    assert (np.diff(quantiles[1:]) < 0).all()

"""Where a link's line is split: the places found in one pass are those that trying all of them finds."""

import numpy as np
import pytest
from analysis.suites.collective.fit import FEWEST, Splits, best_of, fit


def measured(draw, count, sigma):
    """Times over sizes, of one line or of two, with noise."""
    sizes = np.unique(np.round(2.0 ** np.sort(draw.uniform(2, 30, count))))
    latency_s, byte_s = 10 ** draw.uniform(-6, -4), 10 ** draw.uniform(-10.5, -8)
    times = latency_s + byte_s * sizes
    if draw.random() < 0.5:
        later = sizes >= draw.choice(sizes)
        times = np.where(later, 10 * latency_s + byte_s / 4 * sizes, times)
    return list(sizes), list(times * draw.lognormal(0, sigma, len(sizes)))


@pytest.mark.parametrize("sigma", [0.0, 0.01, 0.05, 0.2])
def test_split_is_that_of_trying_all(sigma):
    draw, split = np.random.default_rng(0), 0
    for _ in range(25):
        sizes, times_s = measured(draw, int(draw.integers(5, 25)), sigma)
        every = range(FEWEST, len(sizes) - FEWEST + 1)
        expected = best_of(sizes, times_s, every)
        assert fit(sizes, times_s) == expected
        split += len(expected.lines) - 1
    assert split > 0


def test_size_left_out_is_not_counted():
    draw = np.random.default_rng(1)
    sizes, times_s = measured(draw, 20, 0.02)
    for index in range(1, len(sizes) - 1):
        rest = ([*each[:index], *each[index + 1 :]] for each in (sizes, times_s))
        assert Splits(sizes, times_s).best(left_out=index) == Splits(*rest).best()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_sizes_are_not_split(count):
    assert Splits([2.0**number for number in range(count)], [1e-3] * count).best() == []

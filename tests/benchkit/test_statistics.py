import numpy as np
import pytest

from benchkit.measure import block_size
from benchkit.statistics import (
    arrival_summary,
    block_medians,
    median_interval,
    relative_half_width,
    slowest_rank,
    summarize,
)
from tests.support.fakes import plan


def test_the_slowest_rank_of_each_iteration_counts():
    assert slowest_rank([[1, 5, 2], [3, 4, 6]]).tolist() == [3, 5, 6]


def test_block_medians_leave_out_an_incomplete_block():
    assert block_medians(np.array([1.0, 2, 3, 10, 20, 30, 99]), 3).tolist() == [2, 20]


@pytest.mark.parametrize(
    ("n", "ranks"),
    [(5, None), (6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (20, (6, 15)), (25, (8, 18)), (100, (40, 61))],
)
def test_the_interval_takes_the_order_statistics_of_the_published_tables(n, ranks):
    """Ranks as in Conover's and Hahn & Meeker's tables for a 95 % interval of the median."""
    values = np.arange(1.0, n + 1)
    np.random.default_rng(0).shuffle(values)
    assert median_interval(values) == ranks


def test_the_interval_covers_the_median_as_often_as_it_says():
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        low, high = median_interval(generator.exponential(size=15))
        covered += low <= np.log(2) <= high
    assert 0.95 <= covered / 2000 <= 0.98  # order statistics of 15 cover 96.5 %


@pytest.mark.parametrize("typical_s", [0.05, 0.03, 0.02, 0.011])
def test_the_interval_covers_the_median_of_skewed_times_with_every_block_size(typical_s):
    """A block of an even size would estimate the median of means of two, which for skewed times is another quantity."""
    block = block_size(typical_s, plan(block_seconds=0.05))
    generator, covered = np.random.default_rng(2), 0
    for _ in range(1000):
        low, high = median_interval(block_medians(generator.lognormal(sigma=1.0, size=30 * block), block))
        covered += low <= 1.0 <= high
    assert covered / 1000 >= 0.94


def test_relative_half_width():
    medians = np.array([0.9, 1.0, 1.0, 1.0, 1.0, 1.1])
    assert relative_half_width(medians) == pytest.approx(0.1)
    assert relative_half_width(medians[:5]) is None
    assert relative_half_width(np.zeros(8)) is None


def test_ends_together_have_no_straggler():
    tied = summarize([[1.0] * 6, [1.0] * 6], [[0.0] * 6, [0.0] * 6], block=1)
    assert (tied["straggler_rank"], tied["straggler_share"]) == (None, None)
    once = summarize([[1.0] * 6, [1.0] * 5 + [2.0]], [[0.0] * 6, [0.0] * 6], block=1)
    assert (once["straggler_rank"], once["straggler_share"]) == (1, pytest.approx(1 / 6))


def test_a_summary_by_hand():
    samples = [[1.0, 1.0, 1.0, 1.0], [2.0, 4.0, 1.0, 3.0]]
    offsets = [[0.0, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.5]]
    summary = summarize(samples, offsets, block=1)
    assert summary["median_s"] == 2.5
    assert (summary["min_s"], summary["mean_s"], summary["num_samples"]) == (1.0, 2.5, 4)
    assert summary["std_s"] == pytest.approx(np.std([2, 4, 1, 3], ddof=1))
    assert summary["p95_s"] == pytest.approx(3.85)
    assert summary["ci_low_s"] is None  # four blocks are too few
    assert summary["start_skew_s"] == 0.5
    assert summary["makespan_s"] == pytest.approx(np.median([2.0, 3.5, 1.0, 3.0]))
    assert (summary["straggler_rank"], summary["straggler_share"]) == (1, 1.0)


def test_without_a_common_clock_there_is_no_skew():
    summary = summarize([[1.0] * 6], None, block=1)
    assert summary["start_skew_s"] is None
    assert (summary["ci_low_s"], summary["ci_high_s"], summary["rel_ci"]) == (1.0, 1.0, 0.0)


def test_one_rank_has_no_straggler():
    assert summarize([[1.0, 2.0]], [[0.0, 0.0]], block=1)["straggler_rank"] is None


def test_arrivals_by_hand():
    """Iteration 1: starts 0 and 2, ends 5 and 4. Iteration 2: starts 1 and 0, ends 2 and 6. Iteration 3: alike."""
    starts, samples = [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]], np.array([[5.0, 1.0, 3.0], [2.0, 6.0, 3.0]])
    found = arrival_summary(samples, starts)
    assert found["start_skew_s"] == 1.0  # median of 2, 1 and 0
    assert found["makespan_s"] == 3.0  # median of 5 - 2, 6 - 1 and 3 - 0
    assert found["straggler_share"] == pytest.approx(1 / 3)


def test_two_samples_have_a_standard_deviation_and_one_has_none():
    assert summarize([[1.0, 3.0]], None, block=1)["std_s"] == pytest.approx(2**0.5)
    assert summarize([[1.0]], None, block=1)["std_s"] is None

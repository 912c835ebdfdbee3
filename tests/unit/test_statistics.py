import numpy as np
import pytest
from benchkit.statistics import LAST_ARRIVAL, SLOWEST_RANK, SPAN
from benchkit.statistics.intervals import (
    FEWEST_ROUNDS,
    correlation_length,
    median_interval,
    quartiles_or_range,
    series_interval,
)
from benchkit.statistics.samples import Samples, slowest_rank
from benchkit.statistics.summary import (
    paired_overlap,
    paired_speedup,
    relative_half_width,
    summarize,
)

from tests.support.records import as_case


def samples_of(durations, starts=None, **others):
    return Samples(np.asarray(durations), None if starts is None else np.asarray(starts), **others)


def test_slowest_rank_sets_iteration_time():
    assert slowest_rank([[1, 5, 2], [3, 4, 6]]).tolist() == [3, 5, 6]


def test_rounds_follow_blocks():
    samples = [[1.0, 2, 3, 10, 20, 30, 99], [0.0] * 7]
    assert as_case(samples_s=samples, blocks=[3, 3, 1]).samples.block_medians.tolist() == [2, 20, 99]


@pytest.mark.parametrize(
    ("n", "ranks"),
    [(5, None), (6, (1, 6)), (9, (2, 8)), (25, (8, 18)), (100, (40, 61))],
)
def test_median_interval_matches_published_tables(n, ranks):
    """Ranks as in Conover's and Hahn & Meeker's tables for a 95 % interval of the median."""
    values = np.arange(1.0, n + 1)
    np.random.default_rng(0).shuffle(values)
    assert median_interval(values) == ranks


def test_median_interval_has_stated_coverage():
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        low, high = median_interval(generator.exponential(size=15))
        covered += low <= np.log(2) <= high
    assert 0.95 <= covered / 2000 <= 0.98  # order statistics of 15 cover 96.5 %


def test_relative_half_width_divides_by_median():
    assert relative_half_width((0.9, 1.1), 1.0) == pytest.approx(0.1)
    assert relative_half_width(None, 1.0) is None
    assert relative_half_width((0.0, 0.0), 0.0) is None


def test_tied_ends_and_one_rank_have_no_straggler():
    assert summarize(samples_of([[1.0, 2.0]], [[0.0, 0.0]]))["straggler_rank"] is None
    tied = summarize(samples_of([[1.0] * 6, [1.0] * 6], [[0.0] * 6, [0.0] * 6]))
    assert (tied["straggler_rank"], tied["straggler_share"]) == (None, None)
    once = summarize(samples_of([[1.0] * 6, [1.0] * 5 + [2.0]], [[0.0] * 6, [0.0] * 6]))
    assert (once["straggler_rank"], once["straggler_share"]) == (1, pytest.approx(1 / 6))


def test_summary_matches_hand_calculation():
    samples = [[1.0, 1.0, 1.0, 1.0], [2.0, 4.0, 1.0, 3.0]]
    offsets = [[0.0, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.5]]
    summary = summarize(samples_of(samples, offsets))
    assert summary["median_s"] == 2.5
    assert (summary["min_s"], summary["mean_s"], summary["num_samples"]) == (1.0, 2.5, 4)
    assert summary["std_s"] == pytest.approx(np.std([2, 4, 1, 3], ddof=1))
    assert summary["p95_s"] == pytest.approx(3.85)
    assert summary["p25_s"] == 1.75
    assert summary["osu_mean_s"] == pytest.approx(14 / 8)  # all samples of all ranks
    assert summary["ci_low_s"] is None  # four samples are too few
    assert summary["start_skew_s"] == 0.5
    assert summary["makespan_s"] == pytest.approx(np.median([2.0, 3.5, 1.0, 3.0]))
    assert (summary["straggler_rank"], summary["straggler_share"]) == (1, 1.0)


def test_summary_without_clock_has_no_skew():
    summary = summarize(samples_of([[1.0] * 6]))
    assert summary["start_skew_s"] is None
    assert (summary["median_s"], summary["rel_ci"]) == (1.0, None)


def test_arrival_summary_matches_hand_calculation():
    """Iteration 1: starts 0 and 2, ends 5 and 4. Iteration 2: starts 1 and 0, ends 2 and 6. Iteration 3: alike."""
    starts, samples = [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]], np.array([[5.0, 1.0, 3.0], [2.0, 6.0, 3.0]])
    found = samples_of(samples, starts).arrivals
    assert found["start_skew_s"] == 1.0  # median of 2, 1 and 0
    assert found["makespan_s"] == 3.0  # median of 5 - 2, 6 - 1 and 3 - 0
    assert found["straggler_share"] == pytest.approx(1 / 3)


def test_std_needs_two_samples():
    assert summarize(samples_of([[1.0, 3.0]]))["std_s"] == pytest.approx(2**0.5)
    assert summarize(samples_of([[1.0]]))["std_s"] is None


def autoregressive(rho: float, size: int, generator) -> np.ndarray:
    """A stationary AR(1) series of variance 1."""
    noise, values = generator.standard_normal(size) * (1 - rho**2) ** 0.5, [generator.standard_normal()]
    for each in noise:
        values.append(rho * values[-1] + each)
    return np.exp(0.1 * np.array(values[1:]))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_series_interval_handles_correlation(rho):
    """Blocks of five warm-up samples' length covered 77 % at rho = 0.9 and 700 samples."""
    generator, covered = np.random.default_rng(3), 0
    for _ in range(200):
        low, high = series_interval(autoregressive(rho, 700, generator)) or (0.0, 9.0)
        covered += low <= 1.0 <= high
    assert covered / 200 >= 0.94


def test_uninformative_series_has_no_interval():
    generator = np.random.default_rng(4)
    assert series_interval(generator.lognormal(size=699)) is None  # too few
    assert series_interval(np.repeat(generator.lognormal(size=7), 100)) is None  # worth seven, less a doubt
    assert series_interval(generator.lognormal(size=100), fewest=100) is not None
    assert series_interval(np.ones(700)) == (1.0, 1.0)


def test_interval_contains_median():
    """In two modes that last, the interval of block medians left out the median in 16 % of runs."""
    generator = np.random.default_rng(5)
    for _ in range(50):
        slow = np.repeat(generator.random(100) < 0.4, 20)
        times = np.where(slow, 3.0, 1.0) * generator.lognormal(sigma=0.1, size=2000)
        found = series_interval(times)
        assert found is None or found[0] <= np.median(times) <= found[1]


def test_correlation_length_matches_process():
    generator = np.random.default_rng(6)
    assert correlation_length(generator.standard_normal(5000)) == pytest.approx(1.0, abs=0.15)
    assert correlation_length(autoregressive(0.5, 20000, generator)) == pytest.approx(3.0, rel=0.15)


def case(medians):
    return samples_of([medians], blocks=[1] * len(medians))


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_identical_code_rarely_gets_speedup(rho):
    generator, alarms = np.random.default_rng(7), 0
    for _ in range(150):
        _, low, high, *_ = paired_speedup(*(case(autoregressive(rho, 300, generator)) for _ in range(2)))
        alarms += low is not None and not low <= 1.0 <= high
    assert alarms / 150 <= 0.07


def test_pairs_of_rounds_cancel_what_all_share():
    drift = np.random.default_rng(0).uniform(1, 3, FEWEST_ROUNDS)
    assert paired_speedup(case(2 * drift), case(drift))[:3] == (2.0, 2.0, 2.0)
    assert paired_speedup(case(2 * drift), case(drift[:5])) == (2.0, None, None, 2.0, 2.0, 5)  # too few
    assert paired_overlap(*(case(factor * drift) for factor in (6, 4, 7)))[:3] == pytest.approx((0.75, 0.75, 0.75))
    assert paired_overlap(*(case(factor * drift[:-1]) for factor in (6, 4, 7))).low is None  # no fair coin


@pytest.mark.parametrize("turns", [6, 10, 20, 50, 99])
def test_few_turns_of_identical_cases_rarely_differ(turns):
    """However times are correlated: the order within a turn is drawn anew each time."""
    generator = np.random.default_rng(turns)
    misled = 0
    for _ in range(400):
        pairs = generator.permuted(autoregressive(0.9, 2 * turns, generator).reshape(turns, 2), axis=1)
        low, high = paired_speedup(case(pairs[:, 0]), case(pairs[:, 1]))[1:3]
        misled += low is not None and not low <= 1 <= high
    assert misled <= 0.06 * 400


def test_range_is_of_all_of_few_and_else_the_middle_half():
    assert quartiles_or_range(np.arange(1.0, 12.0)) == (1, 11)
    assert quartiles_or_range(np.arange(1.0, 14.0)) == (4, 10)


def test_overlap_fixes_shorter_part_over_rounds():
    """The smaller of two noisy times in each round gave 1.063 for a true overlap of 1."""
    generator = np.random.default_rng(8)
    found = [paired_overlap(*(case(generator.lognormal(sigma=0.1, size=300)) for _ in range(3))) for _ in range(60)]
    assert np.mean([each.value for each in found]) == pytest.approx(1.0, abs=0.01)
    assert sum(each.low <= 1.0 <= each.high for each in found) >= 54


@pytest.mark.parametrize("calls", [1, 20])
def test_latency_spans_last_start_to_last_end(calls):
    """Starts are of whole samples, so a skew is not the time of each call."""
    durations, starts = [[5.0, 1.0], [2.0, 6.0]], [[0.0, 1.0], [2.0, 0.0]]
    late = [[0.0, 0.0], [5.0, 1.0]]  # ranks that share a core, one after the other

    def times(estimator, starts):
        per_call = np.array(durations) / calls
        return pytest.approx(samples_of(per_call, starts, calls_per_sample=calls, estimator=estimator).times * calls)

    assert times(LAST_ARRIVAL, starts) == [3.0, 5.0]
    assert times(LAST_ARRIVAL, None) == [5.0, 6.0]
    assert times(SPAN, starts) == [5.0, 6.0]
    assert times(SPAN, late) == [7.0, 7.0]
    assert times(SPAN, None) == [5.0, 6.0]
    assert times(SLOWEST_RANK, starts) == [5.0, 6.0]


def test_last_rank_of_many_calls_is_by_whole_samples():
    """Rank 0 takes twice as long, rank 1 starts 5 ms later: 20 calls end 15 ms after the others."""
    found = samples_of([[2e-3], [1e-3]], [[0.0], [5e-3]], calls_per_sample=20).arrivals
    assert (found["straggler_rank"], found["makespan_s"]) == (0, pytest.approx(1.75e-3))


@pytest.mark.parametrize(("uncertainty_s", "calls", "is_used"), [(0.09, 1, True), (0.11, 1, False), (0.09, 20, True)])
def test_uncertain_starts_are_not_used(uncertainty_s, calls, is_used):
    found = samples_of([[1.0], [1.0]], [[0.0], [0.5]], calls_per_sample=calls, estimator=SPAN).drop_uncertain_starts(
        uncertainty_s
    )
    assert (found.estimator == SPAN) == (found.arrivals["start_skew_s"] is not None) == is_used

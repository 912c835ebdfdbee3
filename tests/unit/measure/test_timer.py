import gc
from contextlib import contextmanager
from dataclasses import replace

import pytest
from benchkit.api.case import CallsPerSample, Case
from benchkit.statistics.intervals import series_interval

from tests.support.entries.measure import (
    COUNTERS,
    DEFAULT_HOOKS,
    FEWEST_TO_STOP,
    Hooks,
    Measurement,
    block_size,
    measure,
    timer,
)
from tests.support.fakes import FakeClock, alone, cycle, noise, plan


def run(cases, config, clock, seed=0, all_gather=alone, barrier=lambda: None, hooks=DEFAULT_HOOKS):
    return measure(cases, config, clock=clock, barrier=barrier, all_gather=all_gather, seed=seed, hooks=hooks)


def test_fixed_plan_separates_warmup_from_samples():
    [result] = run([Case()], plan(), FakeClock(cycle([9.0, 9.0, 9.0] + [1.0] * 100)))
    assert result.warmup_s == [[9.0, 9.0, 9.0]]
    assert result.samples_s == [[1.0] * 100]
    assert (result.stopped_by, result.converged, result.steady) == ("max_iterations", None, None)
    [result] = run([Case()], plan(warmup_iterations=0, max_iterations=5), FakeClock(cycle([1.0])))
    assert (result.warmup_s, result.samples_s, result.blocks) == ([], [[1.0] * 5], [1, 4])


def test_case_stops_at_target_interval():
    config = plan(target_rel_ci=0.02, max_iterations=1000, block_seconds=25.0)
    [result] = run([Case()], config, FakeClock(cycle([1.0])))
    assert (result.stopped_by, result.converged) == ("target_rel_ci", True)
    assert result.blocks == [25] * (FEWEST_TO_STOP // 25)


def test_block_size_adapts_to_samples():
    config = plan(target_rel_ci=0.02, max_iterations=1000, block_seconds=99, min_blocks=10)
    for result in run([Case(), Case()], config, FakeClock(cycle([1.0]))):
        assert (result.stopped_by, result.blocks) == ("target_rel_ci", [99] * 10)
    config = plan(max_iterations=300, block_seconds=30.0, min_blocks=1)
    first, _ = run([Case(), Case()], config, FakeClock(cycle([10.0] * 6 + [1.0] * 999)))  # a slow warm-up
    assert first.blocks[:2] == [3, 29]


def test_target_waits_for_late_slow_mode():
    durations = [1.0] * 450 + ([3.0] * 60 + [1.0] * 40) * 20
    config = plan(target_rel_ci=0.05, max_iterations=2000, block_seconds=50.0, warmup_iterations=0)
    [result] = run([Case()], config, FakeClock(cycle(durations)))
    low, high = series_interval(result.times())
    assert (result.stopped_by, result.converged) == ("max_iterations", False)
    assert low <= 1.0 < 3.0 <= high


def test_warmup_runs_until_steady():
    durations = [9.0, 8.0, 7.0] + [5.0] * 3 + [1.0] * 99
    config = plan(max_warmup_seconds=100.0, block_seconds=1.0, max_iterations=1)
    [result] = run([Case()], config, FakeClock(cycle(durations)))
    assert result.warmup_s == [[9.0, 8.0, 7.0, 5.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    assert result.steady is True
    [hasty] = run([Case()], replace(config, max_warmup_seconds=39.0), FakeClock(cycle(durations)))
    assert hasty.warmup_s == [[9.0, 8.0, 7.0, 5.0, 5.0, 5.0]]
    assert hasty.steady is False


def test_limits_stop_a_case():
    [result] = run([Case()], plan(max_iterations=25, min_blocks=10), FakeClock(cycle([1.0])))
    assert len(result.samples_s[0]) == 25
    [result] = run([Case()], plan(max_seconds=25, block_seconds=1, max_iterations=1000), FakeClock(cycle([10.0])))
    assert result.stopped_by == "max_seconds"
    assert result.samples_s == [[10.0] * 3]
    assert result.elapsed_s == 30.0


@pytest.mark.parametrize(("call_s", "max_seconds", "count"), [(0.1, 1, 10), (1.0, 1, 6), (4.0, 1, 3), (4.0, 15, 4)])
def test_slow_calls_get_six_samples_within_ten_seconds(call_s, max_seconds, count):
    config = plan(max_seconds=max_seconds, block_seconds=0.05, max_iterations=1000)
    [result] = run([Case()], config, FakeClock(cycle([call_s])))
    assert (len(result.samples_s[0]), result.stopped_by) == (count, "max_seconds")


def test_reset_and_barrier_precede_every_sample():
    events = []
    clock = FakeClock(lambda: events.append("tick") or 1.0)
    case = Case(step=lambda: events.append("step"), reset=lambda: events.append("reset"))
    run(
        [case],
        plan(max_iterations=2, min_blocks=1, warmup_iterations=1),
        clock,
        barrier=lambda: events.append("barrier"),
    )
    assert events == ["reset", "barrier", "step", "tick"] * 3


@pytest.mark.parametrize(("asked", "call_s", "found"), [(20, 2.0, 20), ("auto", 0.01, 32)])
def test_loop_mode_divides_by_calls(asked, call_s, found):
    clock = FakeClock(cycle([call_s]))
    [result] = run([Case()], plan(mode="loop", calls_per_sample=asked, block_seconds=0.25), clock)
    assert result.calls_per_sample == clock.repeats[-1] == found
    assert result.samples_s[0][0] == pytest.approx(call_s)


def test_calls_that_fill_seconds_set_calls_per_sample():
    """Whatever one slow call says."""
    cases = [Case(), Case(calls=CallsPerSample(fill_s=9.0))]
    single, filled = run(cases, plan(max_iterations=5), FakeClock(cycle([1.0])))
    assert (single.calls_per_sample, filled.calls_per_sample) == (1, 16)
    assert filled.samples_s == [[1.0] * 5]
    durations = iter([12.0] + [0.01] * 10**6)
    [result] = run(
        [Case(calls=CallsPerSample(fill_s=10.0))], plan(max_iterations=2), FakeClock(lambda: next(durations))
    )
    assert result.calls_per_sample == 1024


def order_of_blocks(seed):
    seen = []
    cases = [Case(step=lambda name=name: seen.append(name)) for name in "abc"]
    run(cases, plan(max_iterations=60, min_blocks=20, warmup_iterations=1), FakeClock(cycle([1.0])), seed=seed)
    blocks = seen[3:]
    assert all(blocks[i] == blocks[i + 1] == blocks[i + 2] for i in range(0, len(blocks), 3))  # blocks of three
    return blocks[::3]


def test_seed_fixes_random_case_order():
    first = order_of_blocks(seed=1)
    rounds = [tuple(first[i : i + 3]) for i in range(0, len(first), 3)]
    assert len(rounds) == 20
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) > 3
    assert order_of_blocks(seed=1) == first
    assert order_of_blocks(seed=2) != first


def test_finished_case_leaves_others_running():
    steady, noisy = iter([1.0] * 10**6), noise(3, 0.5, 1.5)
    current = []
    clock = FakeClock(lambda: next(steady) if current[-1] == "steady" else noisy())
    cases = [Case(step=lambda name=name: current.append(name)) for name in ("steady", "noisy")]
    config = plan(target_rel_ci=0.001, max_iterations=1000, block_seconds=99.0)
    first, second = run(cases, config, clock)
    assert [(each.stopped_by, each.converged) for each in (first, second)] == [
        ("target_rel_ci", True),
        ("max_iterations", False),
    ]
    assert len(first.samples_s[0]) < len(second.samples_s[0]) == 1000


def test_slowest_rank_decides_for_all():
    """Another rank, played by the all_gather, is ten times slower: its samples count, and its elapsed time."""

    def two_ranks(values):
        return [values, [10 * value for value in values]]

    [result] = run([Case()], plan(max_seconds=45, block_seconds=1), FakeClock(cycle([1.0])), all_gather=two_ranks)
    assert len(result.samples_s) == 2
    assert result.samples_s[1] == [10.0] * len(result.samples_s[0])
    assert result.elapsed_s == 50.0
    assert result.blocks == [1] * 5


def test_measurement_refers_to_first_start_and_to_taking_part_ranks():
    measurement = Measurement(ranks=2, estimator="last_arrival_to_last_exit")
    measurement.add([[2.0], [2.0], [0.0]], [[100.0], [100.5], [101.9]], {})
    assert measurement.start_offsets_s == [[0.0], [0.5], [pytest.approx(1.9)]]
    assert measurement.times().tolist() == [2.0]


def test_garbage_collection_resumes_after_failure():
    def broken():
        assert not gc.isenabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run([Case(step=broken)], plan(), FakeClock(cycle([1.0])), hooks=Hooks(after_oom=lambda: None))
    assert gc.isenabled()


@pytest.mark.parametrize(("typical_s", "expected"), [(0.001, 49), (0.02, 3), (5.0, 1), (0.0, 1), (1e-9, 199)])
def test_block_size_fits_plan_limits(typical_s, expected):
    assert block_size(typical_s, plan(block_seconds=0.05, max_iterations=2000, min_blocks=10)) == expected


def test_hooks_surround_series_and_blocks():
    said = []

    @contextmanager
    def series(case):
        said.append(case.labels["n"])
        yield
        said.append("end")

    @contextmanager
    def measured():
        said.append("measured")
        yield
        said.append("over")

    def of(index):
        return Case(step=lambda: said.append("step"), reset=lambda: said.append("reset"), labels={"n": index})

    hooks = Hooks(around_samples_of=series, around_blocks=measured, before_sample=lambda: said.append("before"))
    config = plan(max_iterations=2, min_blocks=2, warmup_iterations=2)
    run([of(0), of(1)], config, FakeClock(cycle([1.0])), hooks=hooks)
    sample = ["reset", "before", "step"]
    warm_up, blocks = said[:16], said[16:]
    assert warm_up == [0, *sample, *sample, "end", 1, *sample, *sample, "end"]
    assert (blocks[0], blocks[-1]) == ("measured", "over")
    assert sorted(item for item in blocks if item in (0, 1)) == [0, 0, 1, 1]
    assert blocks[2:6] == [*sample, "end"]


def short_of_memory():
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")


def test_single_rank_skips_case_on_oom():
    config, clock = plan(max_iterations=5), FakeClock(cycle([1.0]))
    freed = []
    hooks = Hooks(after_oom=lambda: freed.append(clock.repeats == []))
    cases = [Case(step=short_of_memory), Case()]
    skipped, timed = run(cases, config, clock, hooks=hooks)
    assert freed == [False]  # once, after the attempt
    assert skipped.oom_reason
    assert skipped.samples_s == []
    assert timed.samples_s == [[1.0] * 5]
    with pytest.raises(RuntimeError):
        run(cases, config, clock)  # of several ranks the others would wait


def test_disturbance_sums_on_every_rank(monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr(timer, "read_counters", lambda: [float(next(ticks))] + [0.0] * 5)
    config = plan(max_iterations=20, min_blocks=5)
    clock = FakeClock(cycle([1.0]))
    [result, _] = run([Case(), Case()], config, clock, all_gather=lambda values: [values, values])
    assert result.disturbance["steal_s"] == [float(len(result.blocks))] * 2
    assert set(result.disturbance) == {*COUNTERS, "lowest_ghz", "highest_ghz"}

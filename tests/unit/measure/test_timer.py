import gc
from dataclasses import replace

import pytest
from benchkit.api.case import Case
from benchkit.measure.budget import block_size
from benchkit.measure.disturbance import COUNTERS
from benchkit.measure.measurement import Measurement
from benchkit.measure.timer import measure
from benchkit.statistics.intervals import FEWEST_SAMPLES

from tests.support.fakes import FakeClock, alone, cycle, noise, plan


def run(cases, config, clock, seed=0, exchange=alone, barrier=lambda: None):
    return measure(cases, config, clock=clock, barrier=barrier, exchange=exchange, seed=seed)


def test_a_fixed_plan_takes_exactly_its_samples_and_sets_the_warmup_aside():
    [result] = run([Case()], plan(), FakeClock(cycle([9.0, 9.0, 9.0] + [1.0] * 100)))
    assert result.warmup_s == [[9.0, 9.0, 9.0]]
    assert result.samples_s == [[1.0] * 100]
    assert (result.stopped_by, result.converged) == ("max_iterations", None)


def test_a_case_stops_at_its_target_once_its_interval_can_be_known():
    config = plan(target_rel_ci=0.02, max_iterations=1000, block_seconds=5.0)
    [result] = run([Case()], config, FakeClock(cycle([1.0])))
    assert (result.stopped_by, result.converged) == ("target_rel_ci", True)
    assert result.blocks == [5] * (FEWEST_SAMPLES // 5)


def test_cases_that_take_turns_go_on_for_the_least_turns():
    config = plan(target_rel_ci=0.02, max_iterations=1000, block_seconds=99, min_blocks=10)
    for result in run([Case(), Case()], config, FakeClock(cycle([1.0]))):
        assert result.stopped_by == "target_rel_ci"
        assert result.blocks == [99] * 10  # 99 and not 100: blocks are odd


def test_a_turn_is_as_long_as_the_samples_so_far_say():
    """The warm-up was ten times as slow as what follows."""
    config = plan(max_iterations=300, block_seconds=30.0, min_blocks=1)
    first, _ = run([Case(), Case()], config, FakeClock(cycle([10.0] * 6 + [1.0] * 999)))
    assert first.blocks[0] == 3
    assert first.blocks[1] == 29


def test_the_warm_up_goes_on_until_calls_get_no_faster():
    durations = [9.0, 8.0, 7.0] + [5.0] * 3 + [1.0] * 99
    config = plan(max_warmup_seconds=100.0, block_seconds=1.0, max_iterations=1)
    [result] = run([Case()], config, FakeClock(cycle(durations)))
    assert result.warmup_s == [[9.0, 8.0, 7.0, 5.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    assert result.steady is True
    [hasty] = run([Case()], replace(config, max_warmup_seconds=39.0), FakeClock(cycle(durations)))
    assert hasty.warmup_s == [[9.0, 8.0, 7.0, 5.0, 5.0, 5.0]]
    assert hasty.steady is False


def test_a_warm_up_of_a_fixed_length_says_nothing_of_steadiness():
    [result] = run([Case()], plan(), FakeClock(cycle([1.0])))
    assert (result.warmup_s, result.steady) == ([[1.0] * 3], None)


def test_a_noisy_case_goes_on_to_its_limit_and_says_that_it_did_not_converge():
    config = plan(target_rel_ci=0.001, max_iterations=200)
    [result] = run([Case()], config, FakeClock(noise(1, 0.5, 1.5)))
    assert (result.stopped_by, result.converged) == ("max_iterations", False)
    assert len(result.samples_s[0]) == 200


def test_max_seconds_ends_it_at_the_block_that_passes_it():
    [result] = run([Case()], plan(max_seconds=25, block_seconds=1, max_iterations=1000), FakeClock(cycle([10.0])))
    assert result.stopped_by == "max_seconds"
    assert result.samples_s == [[10.0] * 3]
    assert result.elapsed_s == 30.0


def test_max_iterations_is_never_exceeded_by_a_last_block():
    [result] = run([Case()], plan(max_iterations=25, min_blocks=10), FakeClock(cycle([1.0])))
    assert len(result.samples_s[0]) == 25


def test_reset_and_barrier_come_before_every_sample_and_outside_the_clock():
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


def test_loop_mode_times_several_calls_and_divides():
    clock = FakeClock(cycle([2.0]))
    [result] = run([Case()], plan(mode="loop", calls_per_sample=20), clock)
    assert set(clock.repeats) == {20}
    assert result.calls_per_sample == 20
    assert result.samples_s[0][0] == pytest.approx(2.0)


def test_a_case_may_ask_for_samples_of_some_length_beside_one_of_single_calls():
    cases = [Case(), Case(fill_seconds=9.0)]
    single, filled = run(cases, plan(max_iterations=5), FakeClock(cycle([1.0])))
    assert (single.calls_per_sample, filled.calls_per_sample) == (1, 16)
    assert filled.samples_s == [[1.0] * 5]


def test_a_call_that_is_held_up_does_not_pass_for_a_long_one():
    durations = iter([12.0] + [0.01] * 10**6)
    [result] = run([Case(fill_seconds=10.0)], plan(max_iterations=2), FakeClock(lambda: next(durations)))
    assert result.calls_per_sample == 1024


def order_of_blocks(seed):
    seen = []
    cases = [Case(step=lambda name=name: seen.append(name)) for name in "abc"]
    run(cases, plan(max_iterations=60, min_blocks=20, warmup_iterations=1), FakeClock(cycle([1.0])), seed=seed)
    blocks = seen[3:]
    assert all(blocks[i] == blocks[i + 1] == blocks[i + 2] for i in range(0, len(blocks), 3))  # blocks of three
    return blocks[::3]


def test_cases_interleave_in_blocks_in_a_random_order_that_the_seed_fixes():
    first = order_of_blocks(seed=1)
    rounds = [tuple(first[i : i + 3]) for i in range(0, len(first), 3)]
    assert len(rounds) == 20
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) > 3
    assert order_of_blocks(seed=1) == first
    assert order_of_blocks(seed=2) != first


def test_a_case_that_is_done_leaves_the_others_running():
    steady, noisy = iter([1.0] * 10**6), noise(3, 0.5, 1.5)
    current = []
    clock = FakeClock(lambda: next(steady) if current[-1] == "steady" else noisy())
    cases = [Case(step=lambda name=name: current.append(name)) for name in ("steady", "noisy")]
    config = plan(target_rel_ci=0.001, max_iterations=1000, block_seconds=2.0)
    first, second = run(cases, config, clock)
    assert first.stopped_by == "target_rel_ci"
    assert second.stopped_by == "max_iterations"
    assert len(first.samples_s[0]) < len(second.samples_s[0]) == 1000


def test_all_ranks_decide_by_the_slowest_of_them():
    """Another rank, played by the exchange, is ten times slower: its samples count, and its elapsed time."""

    def two_ranks(values):
        return [values, [10 * value for value in values]]

    [result] = run([Case()], plan(max_seconds=45, block_seconds=1), FakeClock(cycle([1.0])), exchange=two_ranks)
    assert len(result.samples_s) == 2
    assert result.samples_s[1] == [10.0] * len(result.samples_s[0])
    assert result.elapsed_s == 50.0
    assert result.blocks == [1] * 5


def test_start_offsets_are_relative_to_the_first_to_start():
    measurement = Measurement(calls_per_sample=1)
    measurement.add([[1.0, 1.0], [2.0, 2.0]], [[100.0, 205.0], [101.0, 203.0]], {})
    assert measurement.start_offsets_s == [[0.0, 2.0], [1.0, 0.0]]


def test_garbage_is_collected_again_afterwards_even_after_a_failure():
    def broken():
        assert not gc.isenabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run([Case(step=broken)], plan(), FakeClock(cycle([1.0])))
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("typical_s", "expected"), [(0.001, 49), (0.02, 3), (0.03, 1), (5.0, 1), (0.0, 1), (1e-9, 199)]
)
def test_block_size(typical_s, expected):
    assert block_size(typical_s, plan(block_seconds=0.05, max_iterations=2000, min_blocks=10)) == expected


def test_auto_doubles_the_calls_of_a_sample_until_it_is_long_enough():
    clock = FakeClock(cycle([0.01]))
    [result] = run([Case()], plan(mode="loop", calls_per_sample="auto", block_seconds=0.25), clock)
    assert result.calls_per_sample == 32
    assert result.samples_s[0][0] == pytest.approx(0.01)


def test_what_must_come_before_a_case_comes_before_all_its_samples():
    chosen = []
    cases = [Case(labels={"n": 0}), Case(labels={"n": 1})]
    measure(
        cases, plan(max_iterations=6, min_blocks=2), clock=FakeClock(cycle([1.0])), barrier=lambda: None,
        exchange=alone, seed=0, before=lambda case: chosen.append(case.labels["n"]),
    )  # fmt: skip
    assert chosen[:2] == [0, 1]  # warm-ups
    assert sorted(chosen[2:]) == [0, 0, 1, 1]


def test_without_a_warm_up_the_first_sample_counts():
    [result] = run([Case()], plan(warmup_iterations=0, max_iterations=5), FakeClock(cycle([1.0])))
    assert (result.warmup_s, result.samples_s, result.blocks) == ([], [[1.0] * 5], [1, 4])


def short_of_memory():
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")


def test_a_rank_by_itself_gives_up_a_case_that_finds_too_little_memory_and_times_the_others():
    config, clock = plan(max_iterations=5), FakeClock(cycle([1.0]))
    cases = [Case(step=short_of_memory), Case()]
    starved, timed = measure(cases, config, clock=clock, barrier=lambda: None, exchange=alone, seed=0, single_rank=True)
    assert "can't allocate memory" in starved.starved
    assert starved.samples_s == []
    assert timed.samples_s == [[1.0] * 5]
    with pytest.raises(RuntimeError, match="allocate"):
        run(cases, config, clock)  # of several ranks the others would wait


def test_other_exceptions_are_nobody_elses_to_judge():
    with pytest.raises(ZeroDivisionError):
        measure(
            [Case(step=lambda: 1 / 0)], plan(), clock=FakeClock(cycle([1.0])), barrier=lambda: None, exchange=alone,
            seed=0, single_rank=True,
        )  # fmt: skip


def test_what_disturbs_a_case_is_counted_on_every_rank_and_added_up(monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr("benchkit.measure.timer.read_counters", lambda: [float(next(ticks))] + [0.0] * 5)
    two_ranks = lambda values: [values, values]  # noqa: E731
    config = plan(max_iterations=20, min_blocks=5)
    [result, _] = run([Case(), Case()], config, FakeClock(cycle([1.0])), exchange=two_ranks)
    assert result.disturbance["steal_s"] == [float(len(result.blocks))] * 2
    assert set(result.disturbance) == {*COUNTERS, "lowest_ghz", "highest_ghz"}


def test_ranks_that_take_no_part_have_no_say_in_a_latency():
    measurement = Measurement(ranks=2, estimator="last_arrival_to_last_exit")
    measurement.add([[2.0], [2.0], [0.0]], [[0.0], [0.5], [1.9]], {})
    assert measurement.times().tolist() == [2.0]

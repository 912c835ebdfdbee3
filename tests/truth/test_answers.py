"""Planted points with one clear answer: tables, sides and the first screen give it."""

import re

import pytest
from analysis.screen.screen import screen_of
from analysis.suites.collective import table as link_table
from analysis.suites.compile import table as compile_table

from tests.support.planted import compare
from tests.support.planted.oracle import Plant

FIXED = ["measure=fixed", "measure.max_iterations=24", "measure.min_blocks=7", "measure.block_seconds=0.01"]


def differences(sweep):
    return [*map(str, compare.compare(sweep).differences)]


def test_loaded_table_shows_what_was_planted(measured):
    points = [["+suite=smallest_transformer", "hardware=cpu", "world_size=2", *FIXED, "measure.alone=always"]]
    sweep, found = measured(points, Plant(noise="jitter")), compare.Comparison()
    compare.compare_table(sweep, sweep.table(), found)
    assert (found.num_figures > 100, found.differences) == (True, [])


def test_runs_of_a_faster_setting_are_told_apart(measured):
    points = [
        ["+suite=smallest_collective", "hardware=cpu", *FIXED, f"async_op={value}"] for value in ("false", "true")
    ]
    sweep = measured(points, Plant(spread=0.0), Plant(call_s=5e-4, spread=0.0), repeat=6)
    assert differences(sweep) == []
    assert "2.00 × as fast as" in screen_of(sweep.combined).headline


def test_link_is_told_by_its_latency_and_bandwidth(measured):
    sizes = [2**exponent for exponent in (10, 12, 14, 16, 18)]
    points = [["+suite=smallest_collective", "hardware=cpu", *FIXED, f"data_size={size // 1024}KiB"] for size in sizes]
    plants = [Plant(call_s=5e-5 + 1e-9 * size, spread=0.0) for size in sizes]
    [text] = link_table.write(measured(points, *plants).combined).values()
    assert "| 50 [50, 50] " in text
    assert "| 1 [1, 1] " in text


def test_compiler_pays_from_the_call_on_at_which_it_does(measured):
    own = ["+suite=smallest_compile", "hardware=cpu", "measure=cold_curve", "measure.max_iterations=120"]
    eager = Plant(first_call_s=2e-3, call_s=1e-3, spread=0.0)
    compiled = Plant(first_call_s=50e-3, call_s=5e-4, spread=0.0)
    sweep = measured([[*own, f"compiler={name}"] for name in ("eager", "aot_eager")], eager, compiled)
    text = compile_table.write(sweep.combined)["compile.md"]
    last = [line.split("|")[-2].strip() for line in text.splitlines() if "aot_eager" in line]
    assert last == ["97"]  # 2 + 96 * 1 ms, and 50 + 96 * 0.5 ms


@pytest.mark.parametrize(("slow_rank", "verdict"), [(1.0, "ALL ALIKE"), (1.5, "rank 3 on n0")])
def test_acceptance_names_the_slow_rank_and_no_other(slow_rank, verdict, measured):
    common = ["measure=quick", "hardware=cpu", "world_size=4"]
    points = [
        ["+suite=smallest_pair_matrix", *common, "sizes=[1KiB,64KiB]"],
        ["+suite=smallest_rank_speed", *common, "tests=[matmul,copy,triad]", "matmul_size=32"],
    ]
    sweep = measured(points, Plant(noise="jitter", slow_rank=slow_rank, spread=0.0))
    text = "\n".join(screen_of(sweep.combined).answers)
    assert verdict in text
    assert not re.search("rank [012] on n0: times", text)


def test_case_at_full_speed_is_slowed_neither_in_turns_nor_alone(measured):
    own = ["+suite=smallest_ring_attention", "hardware=cpu", "world_size=2", "strategies=[reference,even,online]"]
    sweep = measured([[*own, *FIXED, "hardware.slowdown=2", "measure.alone=always"]], Plant(skew_s=3e-5))
    assert {case.unslowed for case in sweep.points[0].histories[0].cases} == {True, False}
    assert differences(sweep) == []


def test_rank_that_takes_no_part_does_not_count(measured):
    own = ["+suite=smallest_collective", "hardware=cpu", "world_size=3", "collective=send_recv", "hardware.slowdown=2"]
    assert differences(measured([[*own, *FIXED, "measure.mode=per_iteration"]], Plant())) == []


# GPUs

ON_GPU = ["+suite=smallest_matmul_lut", "hardware=cuda", "world_size=2", *FIXED]
TRAINING = ["+suite=smallest_transformer", "hardware=cuda", "world_size=2", "passes=[forward]", *FIXED]


@pytest.mark.parametrize(
    ("own", "plant", "median_s"),
    [
        (ON_GPU, {"launch_s": 1e-4}, 1e-3),
        (ON_GPU, {"launch_s": 4e-3}, 1e-3),  # 8.2 ms of lead
        (ON_GPU, {"launch_s": 6e-3}, 7e-3),  # no lead is so long
        ([*TRAINING, "parallel=none"], {"launch_s": 2e-3}, 3e-3),  # training loops launch as well
    ],
    ids=["short", "long", "too long", "launches count"],
)
def test_launches_are_hidden_unless_they_count(own, plant, median_s, measured):
    sweep = measured([own], Plant(**plant, spread=0.0))
    assert differences(sweep) == []
    assert set(sweep.combined["median_s"].round(9)) == {median_s}


def test_lead_is_given_up_where_calls_wait_for_the_gpu(measured):
    [row] = measured([ON_GPU], Plant(launch_s=1e-4, waits_for_gpu=True, spread=0.0)).combined.to_dict("records")
    assert row["median_s"] == pytest.approx(1.1e-3)


def test_launches_longer_than_calls_set_the_pace_of_a_loop(measured):
    [row] = measured([ON_GPU], Plant(launch_s=2e-3, spread=0.0)).combined.to_dict("records")
    assert (row["queueing_on_host_s"], row["host_bound"]) == (pytest.approx(2e-3), pytest.approx(2.0))


def test_flush_of_a_cache_is_not_timed(measured):
    assert differences(measured([[*ON_GPU, "measure.cold_l2=true"]], Plant())) == []

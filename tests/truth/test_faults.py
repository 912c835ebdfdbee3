"""Faults that planted points have shown, each by the least that shows it."""

import json

import pytest
from benchkit.errors import ConfigError

from tests.support.planted import compare, runs
from tests.support.planted.oracle import Plant

FIXED = ["measure=fixed", "measure.max_iterations=24", "measure.min_blocks=7", "measure.block_seconds=0.01"]
AUTO_SHARD = ["+suite=smallest_auto_shard", "hardware=cpu", "planner=[auto]", "engine=[dtensor]", *FIXED]
MATMUL = ["+suite=smallest_matmul_lut", "world_size=2", *FIXED]
ON_CPU, ON_GPU = [*MATMUL, "hardware=cpu"], [*MATMUL, "hardware=cuda"]
TWENTY = ["measure.mode=loop", "measure.calls_per_sample=20"]
ROUGH = {"num_hosts": 2, "offset_s": 3.0, "error_s": 2e-3, "uncertainty_s": 3e-3}
"""The clock of a second host: agents are wrong by less than they state, and by more than a call takes."""


def differences(sweep):
    return [*map(str, compare.compare(sweep).differences)]


def test_span_of_several_calls_is_that_of_their_sample(measured):
    assert differences(measured([[*AUTO_SHARD, *TWENTY]], Plant(skew_s=1e-3, spread=0.0))) == []


def test_ratios_use_no_starts_of_uncertain_clocks(measured):
    assert differences(measured([AUTO_SHARD], Plant(**ROUGH, spread=0.0))) == []


def test_times_alone_use_no_starts_of_uncertain_clocks(measured):
    assert differences(measured([[*AUTO_SHARD, "measure.alone=always"]], Plant(**ROUGH))) == []


def test_times_in_fresh_ranks_use_no_starts_of_uncertain_clocks(measured):
    reused = [*AUTO_SHARD, "ranks=reuse"]
    assert differences(measured([reused, [*reused, "seed=1"]], Plant(**ROUGH))) == []


def test_latency_is_of_single_calls(measured):
    own = ["+suite=smallest_collective", "hardware=cuda", "measure.mode=graph"]
    sweep = measured([[*own, *FIXED[1:]]], Plant(after_barrier_s=4e-4, spread=0.0))
    [latency] = sweep.combined.query("timing == 'latency'").to_dict("records")
    assert (latency["calls"], latency["median_s"]) == (1, pytest.approx(1.4e-3))


@pytest.mark.parametrize("suite", ["rank_speed", "collective"])
def test_calls_of_a_sample_that_no_case_makes_are_refused(suite):
    mode = [] if suite == "rank_speed" else ["hardware=cuda", "measure.mode=graph"]
    with pytest.raises(ConfigError, match=r"measure\.calls_per_sample=4"):
        runs.checked([f"+suite=smallest_{suite}", "measure.mode=loop", "measure.calls_per_sample=4", *mode])


def test_arms_of_a_comparison_are_no_repetitions(measured, monkeypatch, tmp_path):
    both = runs.Sweep(tmp_path / "runs")
    for number, (arm, call_s) in enumerate([("base", 1e-3), ("candidate", 2e-3)]):
        told = {"id": "c", "arm": arm, "pair": 1, "position": number}
        monkeypatch.setenv("BENCHKIT_COMPARISON", json.dumps(told))
        both.points += measured([ON_CPU], Plant(call_s=call_s, spread=0.0), folder=f"runs/{number}").points
    assert sorted(median_of_variants(both)) == pytest.approx([1e-3, 2e-3])


def test_arrivals_of_several_calls_are_those_of_their_sample(measured):
    """Rank 0 takes twice as long and ends last, although rank 1 starts 5 ms later."""
    slowed = [*ON_CPU, *TWENTY, "hardware.slowdown=[2,1]"]
    [row] = measured([slowed], Plant(skew_s=5e-3, spread=0.0)).combined.to_dict("records")
    assert (row["straggler_rank"], row["straggler_share"], row["makespan_s"]) == (0, 1, pytest.approx(1.75e-3))


UNLIKE = [
    (ON_GPU, "measure.cold_l2=false", "measure.cold_l2=true"),
    (ON_CPU, "measure.max_iterations=7", "measure.max_iterations=24"),
    (ON_CPU, "measure.block_seconds=0.01", "measure.block_seconds=0.1"),
    (ON_CPU, "measure.min_blocks=7", "measure.min_blocks=3"),
    (ON_CPU, "measure.target_rel_ci=null", "measure.target_rel_ci=0.5"),
]
"""Of a key that belongs to a point's identity two values, and the other settings of the points."""


@pytest.mark.parametrize(("own", "first", "second"), UNLIKE, ids=[first.partition("=")[0] for _, first, _ in UNLIKE])
def test_points_of_unlike_identity_are_no_repetitions(own, first, second, measured):
    sweep = measured([[*own, first], [*own, second]], Plant(spread=0.0), Plant(call_s=2e-3, spread=0.0))
    assert len({point.record.point_id for point in sweep.points}) == 2
    assert sorted(median_of_variants(sweep)) == pytest.approx([1e-3, 2e-3])


def median_of_variants(sweep):
    [(_, found)] = compare.compare_suites(sweep.combined).items()
    return [each.row["median_s"] for each in found.variants]


def test_ratio_is_to_the_base_of_its_own_job(measured):
    points = [[*AUTO_SHARD, f"devices=[1,{devices}]"] for devices in (2, 3)]
    found = compare.compare(measured(points, Plant(), Plant(call_s=5e-4))).differences
    assert [str(each) for each in found if each.what == "ratio"] == []


def test_variable_that_placement_sets_is_refused():
    with pytest.raises(ConfigError, match="OMP_NUM_THREADS"):
        runs.checked([*ON_CPU, "+backend.env.OMP_NUM_THREADS=7"])


def test_calls_in_a_row_that_launches_hold_back_are_told_so(measured):
    slow = Plant(launch_s=2e-3, call_s=5e-4, spread=0.0)
    [row] = measured([[*ON_GPU, *TWENTY]], slow).combined.to_dict("records")
    assert row["host_bound"] == pytest.approx(2.0 / 2.025)


def test_launches_of_a_baseline_on_one_rank_count_beside_ranks_that_take_no_part(measured):
    own = ["+suite=smallest_transformer", "hardware=cuda", "world_size=2", "parallel=ddp", "passes=[forward]", *FIXED]
    sweep = measured([own], Plant(launch_s=2e-3, spread=0.0))
    assert differences(sweep) == []
    assert sweep.combined.query("ranks == 1")["median_s"].tolist() == pytest.approx([3e-3])

"""Sentences of a report: on speedups, growth over several runs, ranks that stayed, and nothing that is not known."""

from analysis.speedup import Baseline

from tests.support.entries.report import describe
from tests.support.records import grid, make_record, make_rich_record, tabulate_records

MIB = 2**20


def of_dtype(records, dtype):
    return [
        record | {"config": record["config"] | {"dtype": dtype}, "point_id": f"{record['point_id']} {dtype}"}
        for record in records
    ]


def twice(seconds, title="allreduce", **changes):
    """Both dtypes in as many runs as there are pairs of times."""
    runs = []
    for number, (one, other) in enumerate(seconds):
        changes |= {"run": f"{number}", "title": title, "suite": title}
        runs += of_dtype([make_record(1.0, 2, one, **changes)], "float32")
        runs += of_dtype([make_record(1.0, 2, other, **changes)], "bfloat16")
    return runs


def paragraph(text, title):
    [found] = [part for part in text.split("\n\n") if part.startswith(f"{title}\n")]
    return found


def speedups_in(table, baseline=None):
    return paragraph(describe(table, baseline), "Speedups")


def test_swept_setting_is_compared_as_far_as_it_is_known(golden):
    told = twice([(3e-3, 1e-3)], "faster")
    told += twice([(1e-3, 3e-3)], "slower")
    told += twice([(1e-3, 1.01e-3)], "intervals overlap")
    told += twice([(1e-3, 3e-3)], "without intervals", samples=2)
    told += twice([(1e-3, 3e-3)] * 2, "slower in two runs")
    told += twice([(1e-3, 0.7e-3), (1e-3, 2e-3)], "runs differ")
    told += twice([(1e-3, 2e-3), (1e-3, 3e-3)] * 3, "slower in six runs")
    golden(speedups_in(tabulate_records(told)))


def test_speedup_below_noise_floor_says_so(golden):
    table = tabulate_records(twice([(1e-3, 1.1e-3)], spread=0.001)).assign(identical_runs=0.2)
    golden(speedups_in(table))


def test_many_points_have_a_sentence_on_all(golden):
    golden(speedups_in(tabulate_records([*of_dtype(grid(), "float32"), *of_dtype(grid(), "bfloat16")])))


def test_asked_baseline_comes_first(golden):
    table = tabulate_records(grid())
    assert "Speedups" not in describe(table)
    text = describe(table, Baseline({"world_size": "4"}))
    assert text.startswith("Speedups\n")
    golden(speedups_in(table, Baseline({"world_size": "4"})))


def test_cases_of_a_job_are_no_sweep():
    records = [make_rich_record("tp_columnwise"), make_rich_record("ring_attention")]
    assert "Speedups" not in describe(tabulate_records(records))


def test_operation_is_named(golden):
    golden(describe(tabulate_records([make_rich_record("collective")])))


def sweeps(*of_runs):
    """Runs over several numbers of ranks, each with its times by ranks."""
    return tabulate_records([
        make_record(1, ranks, seconds, run=f"run {number}", started_at=f"2026-01-0{number + 1}", warnings=["hot"])
        for number, times in enumerate(of_runs)
        for ranks, seconds in times.items()
    ])  # fmt: skip


def test_growth_and_spread_are_computed_per_run(golden):
    golden(describe(sweeps({1: 0.9e-3, 2: 1.194e-3, 4: 7.863e-3}, {1: 1.1e-3, 2: 2.517e-3, 4: 12.16e-3})))


def test_growth_of_six_runs_has_interval(golden):
    table = sweeps(*({2: 2 + 0.2 * n, 4: 4 + 0.5 * n} for n in range(6)))
    golden(paragraph(describe(table), "Growth with ranks"))


def test_growth_across_runs_is_marked(golden):
    table = tabulate_records([make_record(1, 2, 1.0, run="a"), make_record(10, 2, 5.0, run="b")])
    golden(paragraph(describe(table), "Growth with size"))


def test_rough_clocks_are_named(golden):
    told = {"estimator": "min_rtt_line", "uncertainty_s": 2e-4}
    golden(paragraph(describe(tabulate_records([make_record(start_clock=told)])), "Clocks"))


def stayed(ratios, growth_bytes=0, suite="allreduce"):
    """Points of one run of ranks, with the time of each as a multiple of that in fresh ranks."""
    records = []
    for number, ratio in enumerate(ratios):
        record = make_record(seconds=(ratio or 1.0) * 1e-3, point_id=f"point {number}", suite=suite)
        record["started_at"] = f"2026-01-01T00:00:{number:02}.000+00:00"
        held = 200 * MIB + number * growth_bytes
        record["rank_use"] = {"points_before": number, "host_bytes": [held], "device_bytes": [0]}
        record["fresh"] = make_record(seconds=1e-3)["cases"] if ratio else []
        records.append(record | {"run": suite})
    return records


def test_nothing_is_said_of_fresh_ranks_and_little_memory():
    assert "Ranks that stayed" not in describe(tabulate_records(stayed([None])))
    assert paragraph(describe(tabulate_records(stayed([None] * 3, MIB // 4))), "Ranks that stayed").count("\n") == 1


def test_ranks_that_stayed_are_compared_with_fresh_ones(golden):
    records = stayed([None, 1.5, None, 1.5], suite="few pairs")
    records += stayed([None, None], suite="no pair")
    records += stayed([None, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97, 1.0], suite="alike")
    records += stayed([None, 0.5, 0.52, 0.49, 0.51, 0.5, 0.48, 0.53], suite="faster")
    records += stayed([None] * 3, 3 * MIB, suite="leaking")
    golden(paragraph(describe(tabulate_records(records)), "Ranks that stayed"))

"""Sentences on speedups: what was asked for, or what was swept, comes first and is not overstated."""

import pytest
from analysis.baseline import Baseline
from analysis.report import swept
from analysis.report.sentences import describe

from tests.support.records import grid, make_record, make_rich_record, tabulate_records


def of_dtype(records, dtype):
    return [
        record | {"config": record["config"] | {"dtype": dtype}, "point_id": f"{record['point_id']} {dtype}"}
        for record in records
    ]


def lines_of(records, baseline=None):
    table = tabulate_records(records)
    return list(swept.describe(table[table["status"] == "ok"], baseline))


def twice(seconds, **changes):
    """Both dtypes in as many runs as there are pairs of times."""
    runs = []
    for number, (one, other) in enumerate(seconds):
        runs += of_dtype([make_record(1.0, 2, one, run=f"{number}", **changes)], "float32")
        runs += of_dtype([make_record(1.0, 2, other, run=f"{number}", **changes)], "bfloat16")
    return runs


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([(3e-3, 1e-3)], "dtype=bfloat16 is 3.00 times as fast as dtype=float32 (95 % interval within the run, "),
        ([(1e-3, 3e-3)], "dtype=bfloat16 takes 3.00 times as long as dtype=float32 (95 % interval within the run, "),
        ([(1e-3, 3e-3)] * 2, "takes 3 times as long as dtype=float32 (range of 2 runs, 3 to 3)."),
        ([(1e-3, 0.7e-3), (1e-3, 2e-3)], "(range of 2 runs, 0.7 to 2.0), which runs do not tell apart."),
        ([(1e-3, 1.01e-3)], ", which their intervals do not tell apart."),
        ([(1e-3, 2e-3), (1e-3, 3e-3)] * 3, "(95 % interval of 6 runs, 2.0 to 3.0)."),
    ],
)
def test_swept_setting_is_compared(times, said):
    [line] = lines_of(twice(times))
    assert line.startswith("allreduce: dtype=bfloat16 ")
    assert said in line


def test_speedup_without_interval_may_be_chance():
    [line] = lines_of(twice([(1e-3, 3e-3)], samples=2))
    assert line.endswith("takes 3 times as long as dtype=float32; without an interval of both, that may be chance.")


def test_speedup_below_noise_floor_says_so():
    table = tabulate_records(twice([(1e-3, 1.1e-3)], spread=0.001)).assign(identical_runs=0.2)
    [line] = swept.describe(table, None)
    assert line.endswith(", less than identical runs differ by (± 20 %).")


def test_many_points_have_a_sentence_on_all():
    records = [*of_dtype(grid(), "float32"), *of_dtype(grid(), "bfloat16")]
    first, second, *rest = lines_of(records)
    assert "at 6 points the speedup of dtype=bfloat16 over dtype=float32 is 1 to 1, at the median 1" in first
    assert first.endswith("; 0 of 6 intervals or ranges are beyond 1.")
    assert second.startswith("allreduce (world_size=4, data_size=100 MiB): ")
    assert len(rest) == 5


def test_asked_baseline_comes_first():
    table = tabulate_records(grid())
    assert "Speedups" not in describe(table)
    head, line = describe(table, Baseline({"world_size": "4"})).splitlines()[:2]
    assert head == "Speedups"
    assert line.startswith("- allreduce (data_size=100 MiB): world_size=2 is 2.00 times as fast as world_size=4 (")


def test_cases_of_a_job_are_no_sweep():
    assert lines_of([make_rich_record("tp_columnwise"), make_rich_record("ring_attention")]) == []


def test_operation_is_named():
    record = make_rich_record("collective")
    assert "GB/s, by all_reduce (" in describe(tabulate_records([record]))

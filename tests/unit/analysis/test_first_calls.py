"""What a first call costs, from samples in their order."""

import math

import pytest
from analysis.records.columns import COLUMNS
from analysis.table.combine import identity_columns
from analysis.table.repetitions import aggregate_runs, interval_columns

from tests.support.records import make_record, tabulate_records
from tests.support.reports import describe

NONE = math.nan
TIMES = [1.2, 0.3, 0.15, 0.105, 0.1, 0.1, 0.1, 0.11]


def record_of(times, warmup_s=(), mode="cold"):
    record = make_record(world_size=1)
    record["config"]["measure"] = {"mode": mode, "calls_per_sample": 1, "warmup_iterations": 0}
    samples = {"samples_s": [times], "start_offsets_s": None, "blocks": [len(times)], "warmup_s": list(warmup_s)}
    record["cases"][0] |= samples
    return record


@pytest.mark.parametrize(
    ("times", "ends"),
    [(TIMES, (0.1, 0.11)), ([9.0] * 12 + [float(each) for each in range(13)], (3.0, 9.0))],
)
def test_warm_time_has_the_range_of_the_later_half(times, ends):
    [row] = tabulate_records([record_of(times)]).to_dict("records")
    assert (row["warm_range_low_s"], row["warm_range_high_s"]) == ends


@pytest.mark.parametrize("runs", [2, 6])
def test_over_runs_warm_time_has_the_range_or_interval_of_runs(runs):
    records = [record_of([each * n for each in TIMES]) | {"run": f"r{n}"} for n in range(1, runs + 1)]
    table = tabulate_records(records)
    [row] = aggregate_runs(table, *identity_columns(table)).to_dict("records")
    low, high, *ends = interval_columns("warm_s")
    assert [row[name] for name in ends] == pytest.approx([0.1, 0.1 * runs])
    assert [row[name] for name in (low, high)] == pytest.approx([0.1, 0.6] if runs == 6 else [NONE] * 2, nan_ok=True)


def test_columns_of_intervals_are_those_of_the_table():
    assert interval_columns("median_s") == ("ci_low_s", "ci_high_s", "range_low_s", "range_high_s")
    assert interval_columns("overlap") == ("overlap_low", "overlap_high", "overlap_range_low", "overlap_range_high")
    assert {*interval_columns("median_s"), *interval_columns("warm_s"), *interval_columns("overlap")} <= set(COLUMNS)


@pytest.mark.parametrize("changes", [{"warmup_s": [[1.0]]}, {"times": TIMES[:3]}, {"mode": "per_iteration"}])
def test_warm_or_few_calls_have_no_figures(changes):
    table = tabulate_records([record_of(**{"times": TIMES} | changes)])
    assert table[["first_call_s", "warm_range_low_s", "first_call_ratio", "warm_from_call"]].isna().all(axis=None)


def test_report_says_what_warming_up_changes(golden):
    cold, warm = (
        describe(tabulate_records([record_of(TIMES, mode=mode)])).split("\n\n") for mode in ("cold", "per_iteration")
    )
    golden("\n\n".join(part for part in cold if part not in warm))
    assert len(cold) > len(warm)

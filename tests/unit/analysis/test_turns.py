import pytest
from analysis.table.repetitions import aggregate_repetitions

from tests.support.entries.report import tables
from tests.support.records import make_record, tabulate_records, write_all
from tests.support.reports import leave_out_plots, written

FLOOR = {"id": "0123456789ab", "age_s": 0, "sigma_run": 0.0141, "at": "all_reduce 1MiB"}
"""Two identical runs differ by ± 4 %."""


def record(ratio=1.5, labels=None, **changes):
    """A record whose only case takes `ratio` times as long in turns as alone."""
    made = make_record(seconds=ratio * 1e-3, spread=0.01, **changes)
    [alone] = make_record(seconds=1e-3, spread=0.01)["cases"]
    return made | {"alone": [alone | {"labels": labels or {}}]}


def runs(middle, suite):
    """Seven runs whose ratios differ."""
    return [record(middle + (run - 3) / 100, suite=suite, run=f"{run}") for run in range(7)]


def test_turns_ratio_is_turns_over_alone_of_the_same_case():
    ours, other = tabulate_records([record(), record(labels={"way": "b"})]).to_dict("records")
    assert (ours["alone_s"], ours["turns_ratio"]) == (pytest.approx(1e-3), pytest.approx(1.5))
    assert other["turns_ratio"] != other["turns_ratio"]


def test_turns_are_held_against_runs_or_noise_floor(golden):
    records = [record(ratio, suite=f"one run, {ratio}", noise_floor=FLOOR) for ratio in (1.5, 1.03, 0.97, 0.5)]
    records += [record(ratio, suite=f"one run, {ratio}, no floor") for ratio in (1.5, 0.5)]
    records += [each for middle in (1.5, 1.0, 0.5) for each in runs(middle, f"seven runs, {middle}")]
    golden(tables.turns_table(tabulate_records(records)))


@pytest.mark.parametrize("made", [record, make_record])
def test_report_has_page_where_cases_ran_alone(tmp_path, monkeypatch, made):
    leave_out_plots(monkeypatch)
    assert (written(write_all(tmp_path, [made()])) / "turns.md").exists() == (made is record)


def test_only_an_interval_over_runs_makes_turns_a_doubt():
    told = {}
    for middle in (1.5, 1.0):
        table = tabulate_records([each | {"run": f"s#{number}"} for number, each in enumerate(runs(middle, "a"))])
        told[middle] = aggregate_repetitions(table)["doubt"].dropna().tolist()
    assert [len(lines) for lines in told.values()] == [1, 0]
    assert aggregate_repetitions(tabulate_records([record() | {"run": "s"}]))["doubt"].isna().all()

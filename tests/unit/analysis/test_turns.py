import pytest
from analysis.speedup import with_fresh_speedups

from tests.support.entries.report import report
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
    golden(report.turns_table(tabulate_records(records)))


@pytest.mark.parametrize("made", [record, make_record])
def test_report_has_page_where_cases_ran_alone(tmp_path, monkeypatch, made):
    leave_out_plots(monkeypatch)
    assert (written(write_all(tmp_path, [made()])) / "turns.md").exists() == (made is record)


def job(in_turns=2.0, alone=2.0, run=0, floor=FLOOR, suite="allreduce"):
    """A record of a baseline and a case that is so many times as fast, in turns and alone."""
    made = make_record(seconds=1e-3, spread=0.01, noise_floor=floor, suite=suite, run=f"{run}")
    [base] = made["cases"]

    def case(way, speedup):
        times = [[each / speedup for each in rank] for rank in base["samples_s"]]
        return base | {"labels": {"way": way}, "samples_s": times}

    fast = case("fast", in_turns) | {"baseline": 0}
    return made | {"cases": [case("base", 1), fast], "alone": [case("base", 1), case("fast", alone)]}


def fast_rows(*records):
    table = with_fresh_speedups(tabulate_records(list(records)))
    return table, table[table["way"] == "fast"]


def test_speedup_is_of_fresh_ranks_where_turns_changed_it(golden):
    table, rows = fast_rows(
        job(2.0, 3.0, suite="slower in turns"), job(2.0, 2.05, suite="within the floor"),
        job(2.0, 3.0, floor=None, suite="no floor"), job(2.0, 1.0, suite="faster in turns"),
    )  # fmt: skip
    assert rows["paired_speedup"].tolist() == pytest.approx([3, 2, 2, 1])
    assert rows["alone_speedup"].tolist() == pytest.approx([3, 2.05, 3, 1])
    assert rows["speedup_from"].fillna("").tolist() == ["fresh ranks", "", "", "fresh ranks"]
    assert rows["speedup_in_turns"].fillna(0).tolist() == pytest.approx([2, 0, 0, 2])
    again = with_fresh_speedups(table)
    assert again["paired_speedup"].tolist() == pytest.approx(table["paired_speedup"].tolist(), nan_ok=True)
    golden(report.turns_table(table))


def test_many_runs_tell_small_changes_of_speedup():
    _, rows = fast_rows(*(job(2.0, 2.04 + run / 1000, run, floor=None) for run in range(7)))
    assert rows["paired_speedup"].tolist() == pytest.approx([2.04 + run / 1000 for run in range(7)])
    _, rows = fast_rows(*(job(2.0, 1.97 + run / 100, run, floor=None) for run in range(7)))
    assert rows["paired_speedup"].tolist() == pytest.approx([2.0] * 7)
    assert rows["speedup_from"].isna().all()

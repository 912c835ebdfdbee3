import pytest
from analysis.fresh_speedup import with_fresh_speedups
from analysis.report import turns
from analysis.report.report import write_report

from tests.support.records import make_record, tabulate_records

FLOOR = {"id": "0123456789ab", "age_s": 0, "sigma_run": 0.0141, "at": "all_reduce 1MiB"}
"""Two identical runs differ by ± 4 %."""


def record(ratio=1.5, labels=None, **changes):
    """A record whose only case takes `ratio` times as long in turns as alone."""
    made = make_record(seconds=ratio * 1e-3, spread=0.01, **changes)
    [alone] = make_record(seconds=1e-3, spread=0.01)["cases"]
    return made | {"alone": [alone | {"labels": labels or {}}]}


def told(*records):
    return turns.describe(tabulate_records(list(records))).splitlines()[-1].split(" | ")


def test_turns_ratio_is_turns_over_alone():
    [row] = tabulate_records([record()]).to_dict("records")
    assert (row["alone_s"], row["turns_ratio"]) == (pytest.approx(1e-3), pytest.approx(1.5))
    assert turns.describe(tabulate_records([make_record()])) is None


def test_other_cases_are_not_compared():
    [row] = tabulate_records([record(labels={"way": "b"})]).to_dict("records")
    assert row["turns_ratio"] != row["turns_ratio"]


@pytest.mark.parametrize(
    ("ratio", "floor", "verdict"),
    [
        (1.5, None, "slower, or chance: no noise floor"),
        (0.5, None, "faster, or chance: no noise floor"),
        (1.03, FLOOR, "within the noise floor (± 4 %)"),
        (0.97, FLOOR, "within the noise floor (± 4 %)"),
        (1.5, FLOOR, "slower, beyond the noise floor (± 4 %)"),
        (0.5, FLOOR, "faster, beyond the noise floor (± 4 %)"),
    ],
)
def test_one_run_is_held_against_the_noise_floor(ratio, floor, verdict):
    interval, runs, found = told(record(ratio, noise_floor=floor))[4:7]
    assert (interval.strip(), runs.strip(), found.strip(" |")) == ("too few runs", "1", verdict)


@pytest.mark.parametrize(("middle", "verdict"), [(1.5, "slower"), (0.5, "faster"), (1.0, "no change that shows")])
def test_several_runs_have_an_interval(middle, verdict):
    records = [record(middle + (run - 3) / 100, started_at=f"2026-01-0{run + 1}T00:00:00+00:00") for run in range(7)]
    table = tabulate_records(records)
    table["run"] = table["started_at"]
    interval, runs, found = turns.describe(table).splitlines()[-1].split(" | ")[4:7]
    assert interval.strip() == f"[{middle - 0.03:.3f}, {middle + 0.03:.3f}]"
    assert (runs.strip(), found.strip(" |")) == ("7", verdict)


def test_report_has_page_of_turns(tmp_path):
    assert tmp_path / "turns.md" in list(write_report(tabulate_records([record()]), tmp_path))
    assert tmp_path / "a" / "turns.md" not in list(write_report(tabulate_records([make_record()]), tmp_path / "a"))


def job(in_turns=2.0, alone=2.0, run=0, floor=FLOOR):
    """A record of a baseline and a case that is so many times as fast, in turns and alone."""
    started_at = f"2026-01-0{run + 1}T00:00:00+00:00"
    made = make_record(seconds=1e-3, spread=0.01, noise_floor=floor, started_at=started_at)
    [base] = made["cases"]

    def case(way, speedup):
        times = [[each / speedup for each in rank] for rank in base["samples_s"]]
        return base | {"labels": {"way": way}, "samples_s": times}

    fast = case("fast", in_turns) | {"baseline": 0}
    return made | {"cases": [case("base", 1), fast], "alone": [case("base", 1), case("fast", alone)]}


def fast_rows(*records):
    table = tabulate_records(list(records))
    table["run"] = table["started_at"]
    table = with_fresh_speedups(table)
    return table, table[table["way"] == "fast"]


@pytest.mark.parametrize(
    ("alone", "floor", "taken"), [(3.0, FLOOR, 3.0), (2.05, FLOOR, 2.0), (3.0, None, 2.0), (1.0, FLOOR, 1.0)]
)
def test_speedup_is_of_fresh_ranks_where_turns_changed_it(alone, floor, taken):
    table, rows = fast_rows(job(2.0, alone, floor=floor))
    [row] = rows.to_dict("records")
    assert (row["paired_speedup"], row["alone_speedup"]) == (pytest.approx(taken), pytest.approx(alone))
    is_fresh = taken != 2.0
    assert (row["speedup_from"] == "fresh ranks") is is_fresh
    assert (row["speedup_in_turns"] == pytest.approx(2.0)) is is_fresh
    cells = turns.describe(table).splitlines()[-1].strip("| ").split(" | ")
    assert [cell.strip() for cell in cells[7:]] == ["2", f"{alone:g}", "alone" if is_fresh else "in turns"]
    again = with_fresh_speedups(table)
    assert again["paired_speedup"].tolist() == pytest.approx(table["paired_speedup"].tolist(), nan_ok=True)


def test_many_runs_tell_small_changes_of_speedup():
    records = [job(2.0, 2.04 + run / 1000, run, floor=None) for run in range(7)]
    _, rows = fast_rows(*records)
    assert rows["paired_speedup"].tolist() == pytest.approx([2.04 + run / 1000 for run in range(7)])
    _, rows = fast_rows(*(job(2.0, 1.97 + run / 100, run, floor=None) for run in range(7)))
    assert rows["paired_speedup"].tolist() == pytest.approx([2.0] * 7)
    assert rows["speedup_from"].isna().all()

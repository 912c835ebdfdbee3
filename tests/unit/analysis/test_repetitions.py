"""The same points in several runs: one row each, ratios within runs, and no interval that was not measured."""

import re

import numpy as np
import pandas as pd
import pytest
from analysis.__main__ import main
from analysis.baseline import Baseline
from analysis.records.harvest import harvest
from analysis.repetitions import over_repetitions, over_runs
from analysis.report import sentences, speedup_charts, speedup_plot
from analysis.report.discover import draw_all
from analysis.run_spread import ONE_RUN, bars_of, with_ranges
from analysis.speedup import UNKNOWN, speedups
from analysis.table import combine, identity_columns
from analysis.terminal import as_text

from tests.support.records import having, make_record, tabulate_records, write_all

MONDAY = {1: 0.9e-3, 2: 1.194e-3, 4: 7.863e-3}
TUESDAY = {1: 1.1e-3, 2: 2.517e-3, 4: 12.16e-3}
"""Of each number of ranks the median of a run."""
BY_RANKS = Baseline({"world_size": "2"})


def sweep(times, run, **changes):
    """A run over several numbers of ranks."""
    return [make_record(1, ranks, seconds, run=run, **changes) for ranks, seconds in times.items()]


@pytest.fixture
def two_runs():
    return tabulate_records([*sweep(MONDAY, "monday"), *sweep(TUESDAY, "tuesday", started_at="2026-01-02")])


def runs_of(seconds, ranks=2, **changes):
    """One point in as many runs as there are medians."""
    return [make_record(1, ranks, each, run=f"run{number}", **changes) for number, each in enumerate(seconds)]


def one_row(table):
    [row] = over_runs(table, *identity_columns(table)).to_dict("records")
    return row


def test_two_runs_give_median_and_range():
    row = one_row(tabulate_records(runs_of([1.0, 3.0])))
    assert (row["median_s"], row["range_low_s"], row["range_high_s"]) == (2.0, 1.0, 3.0)
    assert (row["num_runs"], row["num_points"], row["run"]) == (2, 2, "run0, run1")
    assert pd.isna([row[name] for name in ("ci_low_s", "ci_high_s", "rel_ci")]).all()


def test_six_runs_give_interval_between_runs():
    seconds = [1.0, 1.1, 1.3, 1.6, 2.0, 2.5]
    row = one_row(tabulate_records(runs_of(seconds, spread=0.001)))
    assert (row["ci_low_s"], row["median_s"], row["ci_high_s"]) == pytest.approx((1.0, 1.45, 2.5))
    assert row["rel_ci"] == pytest.approx(1.5 / 2 / 1.45)


def test_single_run_keeps_interval():
    table = tabulate_records([*runs_of([1.0]), *runs_of([2.0, 3.0], ranks=4)])
    once = over_runs(table, *identity_columns(table)).set_index("world_size").loc[2]
    for name in ("median_s", "ci_low_s", "ci_high_s", "rel_ci"):
        assert once[name] == table[name][0]
    assert pd.isna(once["range_low_s"])


def test_repeated_point_counts_as_one_run():
    twice = [make_record(1, 2, seconds, run="a") for seconds in (1.0, 3.0)]
    row = one_row(tabulate_records([*twice, make_record(1, 2, 5.0, run="b")]))
    assert (row["median_s"], row["num_runs"], row["num_points"]) == (3.5, 2, 3)  # of 2 and 5
    assert (row["range_low_s"], row["range_high_s"]) == (1.0, 5.0)
    assert bars_of(pd.DataFrame([one_row(tabulate_records(twice))])) == "range of 2 points of one run"


def test_rates_use_median_time():
    row = one_row(tabulate_records(runs_of([1.0, 3.0])))
    assert row["algbw_gb_per_s"] == pytest.approx(2**20 / 2.0 / 1e9)


def test_failure_in_one_run_is_warned():
    row = one_row(tabulate_records([make_record(run="a"), make_record(run="b", status="oom")]).assign(reason="no"))
    assert (row["num_runs"], row["status"]) == (1, "ok")
    assert row["warning"] == "1 of 2 times it failed: oom"


def test_growth_is_computed_per_run(two_runs):
    text = sentences.describe(two_runs)
    [line] = re.findall(r".*2 ranks to 4 ranks.*", text)
    assert "5.7 times as long (median of 2 runs, range 4.8 to 6.6; 1.86 ms to 10.0 ms)" in line
    assert "10.2" not in text
    assert "3 of 3 points were measured 2 times, in 2 runs" in text
    assert "at worst by 71% (allreduce (world_size=2))" in text
    assert "Below 6 runs there is no interval" in text
    assert ONE_RUN not in text


def test_warnings_name_their_run():
    records = [make_record(run=run, warnings=[f"warned on {run}"]) for run in ("monday", "tuesday")]
    text = sentences.describe(tabulate_records(records))
    assert "allreduce (run=monday): warned on monday." in text
    assert "allreduce (run=tuesday): warned on tuesday." in text


def test_growth_across_runs_is_marked():
    table = tabulate_records([make_record(1, 2, 1.0, run="a"), make_record(10, 2, 5.0, run="b")])
    assert "takes 5 times as long (1000 ms to 5000 ms; of different runs, whose spread is not known)." in (
        sentences.describe(table)
    )


def test_growth_of_six_runs_has_interval():
    records = [make_record(1, ranks, ranks * (1 + 0.1 * n), run=f"{n}") for n in range(6) for ranks in (2, 4)]
    assert "takes 2 times as long (median of 6 runs, 95 % interval between runs 2 to 2;" in (
        sentences.describe(tabulate_records(records))
    )


def test_single_run_caveat_appears_once():
    text = sentences.describe(tabulate_records(sweep(MONDAY, "monday")))
    assert text.count(ONE_RUN) == 1


def test_speedup_is_paired_within_runs(two_runs):
    row = speedups(two_runs, BY_RANKS).set_index("world_size").loc[4]
    ratios = sorted(run[2] / run[4] for run in (MONDAY, TUESDAY))
    assert row["speedup"] == pytest.approx(np.median(ratios))
    assert [row["speedup_range_low"], row["speedup_range_high"]] == pytest.approx(ratios)
    assert pd.isna(row["speedup_low"])
    assert row["speedup_basis"] == "2 runs"


def test_speedup_of_six_runs_has_interval():
    records = [make_record(1, ranks, 1 + n * ranks / 10, run=f"{n}") for n in range(6) for ranks in (2, 4)]
    row = speedups(tabulate_records(records), BY_RANKS).set_index("world_size").loc[4]
    ratios = [(1 + n / 5) / (1 + n * 4 / 10) for n in range(6)]
    assert [row["speedup_low"], row["speedup_high"]] == pytest.approx([min(ratios), max(ratios)])
    assert row["speedup_basis"] == "6 runs"


def test_basis_counts_runs_of_each_row():
    often = [make_record(1.0, ranks, ranks, run=run) for run in "ab" for ranks in (2, 4)]
    rows = speedups(tabulate_records([*often, make_record(1.0, 8, 1.0, run="a")]), BY_RANKS)
    assert dict(zip(rows["world_size"], rows["speedup_basis"], strict=True)) == {
        2: "2 runs", 4: "2 runs", 8: "within the run",
    }  # fmt: skip


def test_speedup_of_single_run_names_basis():
    row = speedups(tabulate_records(sweep(MONDAY, "monday")), BY_RANKS).set_index("world_size").loc[4]
    assert row["speedup_basis"] == "within the run"
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]


@pytest.mark.parametrize(("count", "basis"), [(1, UNKNOWN), (5, UNKNOWN), (6, "across runs: 6 or more")])
def test_version_speedup_interval_needs_six_runs(count, basis):
    old = [having(each, torch="2.12.0") for each in runs_of([2.0 + n / 10 for n in range(count)])]
    new = [
        having(make_record(1, 2, 1.0 + n / 10, run=f"new{n}", started_at="2026-01-02"), torch="2.13.0")
        for n in range(count)
    ]
    row = speedups(tabulate_records([*old, *new]), Baseline.parse("torch=2.12.0")).set_index("torch").loc["2.13.0"]
    assert row["speedup_basis"] == basis
    middle = (count - 1) / 20
    assert row["speedup"] == pytest.approx((2.0 + middle) / (1.0 + middle))
    interval = row[["speedup_low", "speedup_high"]].tolist()
    assert interval == pytest.approx([2.0 / 1.5, 2.5 / 1.0]) if count == 6 else pd.isna(interval).all()


def bars(figure, along=1):
    """The error bars that a figure's first panel draws along x (0) or y (1), as (low, high)."""
    segments = [
        segment
        for container in figure.axes[0].containers
        for collection in container.lines[2]
        for segment in collection.get_segments()
    ]
    return [tuple(segment[:, along]) for segment in segments if len(segment) == 2 and not np.isnan(segment).any()]


def test_speedup_plot_draws_known_ranges_only(two_runs):
    figure = dict(draw_all(two_runs, BY_RANKS))["allreduce_speedup.png"]
    assert pytest.approx((2.517 / 12.16, 1.194 / 7.863)[::-1]) in bars(figure, along=0)
    assert "range of the ratios of fewer than 6 runs" in figure.get_supxlabel()
    apart = [having(make_record(1, 2, run=version), torch=version) for version in ("2.12.0", "2.13.0")]
    figure = dict(draw_all(tabulate_records(apart), Baseline.parse("torch=2.12.0")))["allreduce_speedup.png"]
    assert bars(figure, along=0) == []
    assert figure.get_supxlabel() == "no bar: the spread is not known"


@pytest.mark.parametrize("lost", range(6))
def test_point_of_fewer_runs_keeps_its_place(lost):
    sizes = (1.0, 2.0, 3.0)
    records = [make_record(size, run=run) for run in ("b", "b#2", "a", "a#2") for size in sizes]
    table = over_repetitions(tabulate_records([*records[:lost], *records[lost + 1 :]]))
    assert list(zip(table["run"], table["data_size"], strict=True)) == [(run, size) for run in "ba" for size in sizes]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_page_and_plot_say_the_same_of_bars(count):
    records = [make_record(1.0, ranks, ranks + n, run=f"{n}") for n in range(count) for ranks in (2, 4)]
    table = tabulate_records(records)
    chart = speedup_charts.show(table, BY_RANKS)["allreduce_speedup"]
    assert chart.note == speedup_plot.draw(table, BY_RANKS)["allreduce_speedup.png"]().get_supxlabel()
    assert chart.points["low"].notna().all()


def test_size_plot_merges_runs_and_labels_bars():
    records = [make_record(size, 2, size * (1 + n), run=f"{n}") for n in range(2) for size in (1.0, 10.0)]
    figure = dict(draw_all(tabulate_records(records), None))["allreduce_time_vs_datasize.png"]
    [line] = [each for each in figure.axes[0].get_lines() if len(each.get_xdata()) == 2][:1]
    assert line.get_ydata().tolist() == pytest.approx([1500, 15000])
    assert (1000, 2000) in [pytest.approx(each) for each in bars(figure)]
    assert figure.get_supxlabel().startswith("median, range of 2 runs")


def test_records_without_version_have_own_line():
    records = [make_record(size, 2, size) for size in (1.0, 10.0)]
    table = tabulate_records([*records, *(having(record, torch="2.13.0") for record in records)])
    figure = dict(draw_all(table, None))["allreduce_time_vs_datasize.png"]
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == ["2 ranks, torch -", "2 ranks, torch 2.13.0"]


def test_bars_of_names_every_kind():
    table = tabulate_records([*runs_of([1.0]), *runs_of([1.0, 2.0], ranks=4), *runs_of(range(1, 8), ranks=8)])
    rows = over_runs(table, *identity_columns(table))
    assert bars_of(rows) == "95 % interval within the run or range of 2 runs or 95 % interval between 7 runs"
    shown = with_ranges(rows).set_index("world_size")
    assert shown.loc[4, ["ci_low_s", "ci_high_s"]].tolist() == [1.0, 2.0]


def test_bars_of_follows_the_column_that_is_drawn():
    rows = pd.DataFrame([{"num_runs": 1, "num_points": 1, "ci_low_s": np.nan, "paired_speedup_low": 1.5}])
    assert bars_of(rows) == "too few samples for an interval"
    assert bars_of(rows, "paired_speedup_low") == "95 % interval within the run"


def test_report_separates_two_sweeps(tmp_path, capsys):
    places = [
        write_all(tmp_path / run, [make_record(size, ranks, seconds * size) for ranks, seconds in times.items()
                                   for size in (1.0, 10.0)])
        for run, times in (("monday", MONDAY), ("tuesday", TUESDAY))
    ]  # fmt: skip
    assert main([*map(str, places), "--output-dir", str(tmp_path / "report")]) == 0
    out = capsys.readouterr().out
    assert {"run", "monday", "tuesday"} <= set(out.split())
    combined = pd.read_csv(tmp_path / "report" / "combined.csv")
    assert combined["run"].value_counts().to_dict() == {"monday": 6, "tuesday": 6}
    found = pd.read_csv(tmp_path / "report" / "speedups.csv")
    assert set(found["speedup_basis"]) == {"2 runs"}
    assert found["speedup_low"].isna().all()
    assert "points were measured 2 times, in 2 runs" in (tmp_path / "report" / "analysis.txt").read_text()


@pytest.fixture
def repeated_sweep(tmp_path):
    """Three repetitions of a sweep over two and four ranks, in the order in which they were measured."""
    times = [(4, 2.2e-3, 0), (2, 1e-3, 0), (2, 1.4e-3, 1), (4, 2.8e-3, 1), (4, 2.4e-3, 2), (2, 1.2e-3, 2)]
    return write_all(
        tmp_path / "sweep",
        [
            make_record(1, ranks, seconds, repetition=repetition, started_at=f"2026-01-0{number + 1}", samples=1000)
            for number, (ranks, seconds, repetition) in enumerate(times)
        ],
    )


def test_each_repetition_within_a_sweep_is_a_run(repeated_sweep):
    found = harvest([repeated_sweep])
    assert [row["run"] for row in found.rows] == ["sweep", "sweep", "sweep#2", "sweep#2", "sweep#3", "sweep#3"]
    assert set(found.ranks["run"]) == {"sweep", "sweep#2", "sweep#3"}
    table = combine(found.rows)
    rows = over_runs(table, *identity_columns(table)).set_index("world_size")
    assert rows["num_runs"].tolist() == [3, 3]
    assert rows.loc[2, "median_s"] == pytest.approx(1.2e-3)


def test_speedups_are_paired_by_repetition(repeated_sweep):
    table = combine(harvest([repeated_sweep]).rows)
    found = speedups(table, BY_RANKS).set_index("world_size")
    assert found.loc[4, "speedup_basis"] == "3 runs"
    assert found.loc[4, "speedup"] == pytest.approx(1 / 2)
    assert found.loc[4, ["speedup_range_low", "speedup_range_high"]].tolist() == pytest.approx([1 / 2.2, 1 / 2])


def test_runs_of_equal_sweep_names_differ(tmp_path):
    for day in ("monday", "tuesday"):
        write_all(tmp_path / day / "sweep", [make_record(repetition=each, started_at=day) for each in (0, 1)])
    runs = {row["run"] for row in harvest([tmp_path]).rows}
    assert runs == {"monday/sweep", "monday/sweep#2", "tuesday/sweep", "tuesday/sweep#2"}


def test_table_shows_both_spreads(repeated_sweep):
    table = combine(harvest([repeated_sweep]).rows)
    rows = over_repetitions(table)
    assert rows["world_size"].tolist() == [4, 2]
    assert rows["run"].tolist() == ["sweep", "sweep"]
    assert rows["between_share"].tolist() == pytest.approx([0.3 / 2.4, 0.2 / 1.2])
    within = table.groupby("world_size")["rel_ci"].median()
    assert rows["within_share"].tolist() == pytest.approx([within[4], within[2]])
    text = as_text(rows)
    assert re.search(r"within a run +between runs", text)
    assert "1.2 [1.0, 1.4] of 3 runs" in text


def test_a_table_without_repetitions_is_as_it_was(two_runs):
    assert over_repetitions(two_runs) is two_runs
    assert "between runs" not in as_text(two_runs)


def test_each_repeated_sweep_has_a_row(tmp_path):
    for day, seconds in (("monday", 1e-3), ("tuesday", 2e-3)):
        write_all(tmp_path / day, [make_record(1, 2, seconds * (1 + each), repetition=each) for each in (0, 1)])
    rows = over_repetitions(combine(harvest([tmp_path]).rows))
    assert dict(zip(rows["run"], rows["median_s"], strict=True)) == pytest.approx({"monday": 1.5e-3, "tuesday": 3e-3})


def test_failed_repetition_is_counted(tmp_path):
    place = write_all(tmp_path, [make_record(), make_record(status="crash", repetition=1)])
    [row] = over_repetitions(combine(harvest([place]).rows)).to_dict("records")
    assert row["status"] == "ok"
    assert row["warning"] == "1 of 2 times it failed: crash"

"""The same points in several runs: one row each, and no interval that was not measured."""

import numpy as np
import pandas as pd
import pytest
from analysis.screen.terminal import as_text
from analysis.table.combine import identity_columns
from analysis.table.repetitions import (
    aggregate_repetitions,
    aggregate_runs,
    describe_error_bars,
    fill_with_ranges,
    group_equal_except,
)

from tests.support.entries.report import sizes
from tests.support.records import having, make_record, tabulate_records, write_all
from tests.support.reports import leave_out_plots, plots, runs_in, written


def runs_of(seconds, ranks=2, **changes):
    """One point in as many runs as there are medians."""
    return [make_record(1, ranks, each, run=f"run{number}", **changes) for number, each in enumerate(seconds)]


def merged(records):
    table = tabulate_records(records)
    return aggregate_runs(table, *identity_columns(table))


def one_row(records):
    [row] = merged(records).to_dict("records")
    return row


def test_two_runs_give_median_and_range():
    row = one_row(runs_of([1.0, 3.0]))
    assert (row["median_s"], row["range_low_s"], row["range_high_s"]) == (2.0, 1.0, 3.0)
    assert (row["num_runs"], row["num_points"], row["run"]) == (2, 2, "run0, run1")
    assert pd.isna([row[name] for name in ("ci_low_s", "ci_high_s", "rel_ci")]).all()
    assert row["algbw_gb_per_s"] == pytest.approx(2**20 / 2.0 / 1e9)


def test_six_runs_give_interval_between_runs():
    row = one_row(runs_of([1.0, 1.1, 1.3, 1.6, 2.0, 2.5], spread=0.001))
    assert (row["ci_low_s"], row["median_s"], row["ci_high_s"]) == pytest.approx((1.0, 1.45, 2.5))
    assert row["rel_ci"] == pytest.approx(1.5 / 2 / 1.45)


def test_single_run_keeps_interval():
    records = [*runs_of([1.0]), *runs_of([2.0, 3.0], ranks=4)]
    once, table = merged(records).set_index("world_size").loc[2], tabulate_records(records)
    for name in ("median_s", "ci_low_s", "ci_high_s", "rel_ci"):
        assert once[name] == table[name][0]
    assert pd.isna(once["range_low_s"])


def test_repeated_point_counts_as_one_run():
    twice = [make_record(1, 2, seconds, run="a") for seconds in (1.0, 3.0)]
    row = one_row([*twice, make_record(1, 2, 5.0, run="b")])
    assert (row["median_s"], row["num_runs"], row["num_points"]) == (3.5, 2, 3)  # of 2 and 5
    assert (row["range_low_s"], row["range_high_s"]) == (1.0, 5.0)


def test_failure_in_one_run_is_warned():
    row = one_row([make_record(run="a"), make_record(run="b", status="oom")])
    assert (row["num_runs"], row["status"]) == (1, "ok")
    assert "oom" in row["warning"]


@pytest.mark.parametrize("lost", [0, 1, 5])
def test_point_of_fewer_runs_keeps_its_place(lost):
    sizes = (1.0, 2.0, 3.0)
    records = [make_record(size, run=run) for run in ("b", "b#2", "a", "a#2") for size in sizes]
    table = aggregate_repetitions(tabulate_records([*records[:lost], *records[lost + 1 :]]))
    assert list(zip(table["run"], table["data_size"], strict=True)) == [(run, size) for run in "ba" for size in sizes]


def bars(figure):
    """The error bars of a figure's first panel, as (low, high)."""
    segments = [
        segment
        for container in figure.axes[0].containers
        for collection in container.lines[2]
        for segment in collection.get_segments()
    ]
    return [tuple(segment[:, 1]) for segment in segments if len(segment) == 2 and not np.isnan(segment).any()]


def test_size_plot_has_a_line_of_all_runs_with_their_range():
    records = [make_record(size, 2, size * (1 + n), run=f"{n}") for n in range(2) for size in (1.0, 10.0)]
    figure = plots(tabulate_records(records))["allreduce_time_vs_datasize.png"]()
    [line] = [each for each in figure.axes[0].get_lines() if len(each.get_xdata()) == 2][:1]
    assert line.get_ydata().tolist() == pytest.approx([1500, 15000])
    assert (1000, 2000) in [pytest.approx(each) for each in bars(figure)]


def test_records_without_version_have_own_line():
    records = [make_record(size, 2, size) for size in (1.0, 10.0)]
    table = tabulate_records([*records, *(having(record, torch="2.13.0") for record in records)])
    figure = plots(table)["allreduce_time_vs_datasize.png"]()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["2 ranks, torch -", "2 ranks, torch 2.13.0"]


def test_plot_says_what_its_bars_are(golden):
    """Of one run, of few samples and of more, of a few runs and of many; and where rows differ in that."""
    often = [make_record(1, 16, 1.0, run="a"), make_record(1, 16, 2.0, run="a")]
    parts = {
        "once": runs_of([1.0]),
        "all of few samples": runs_of([1.0], samples=11),
        "the middle half": runs_of([1.0], samples=12),
        "both": [*runs_of([1.0], samples=11), *runs_of([1.0], ranks=4, samples=12)],
        "few runs": runs_of([1.0, 2.0]),
        "often in one run": often,
        "all": [*runs_of([1.0]), *runs_of([1.0, 2.0], ranks=4), *runs_of(range(1, 8), ranks=8), *often],
    }
    notes = {}
    for name, records in parts.items():
        chart = sizes.show(tabulate_records(records), None)["allreduce_time_vs_datasize"]
        notes[name] = " ".join(chart.small_print.split())
    golden("\n".join(f"{name}: {note}" for name, note in notes.items()))


def test_bars_of_ratios_are_of_rounds(golden):
    rows = pd.DataFrame({"num_runs": 1, "num_points": 1, "num_turns": [11, 12], "paired_speedup": 1.5})
    ends = {f"paired_speedup_{end}": np.nan for end in ("low", "high")}
    rows = fill_with_ranges(rows.assign(**ends, paired_speedup_range_low=1.4, paired_speedup_range_high=1.6))
    few, more = (describe_error_bars(part, "paired_speedup_low") for part in (rows[:1], rows[1:]))
    golden(f"11 rounds: {few}\n12 rounds: {more}\nboth: {describe_error_bars(rows, 'paired_speedup_low')}")


def test_bars_are_those_of_the_column_that_is_drawn():
    rows = pd.DataFrame([{"num_runs": 1, "num_points": 1, "ci_low_s": np.nan, "paired_speedup_low": 1.5}])
    assert "%" not in describe_error_bars(rows)
    assert "95 %" in describe_error_bars(rows, "paired_speedup_low")


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


def test_each_repetition_within_a_sweep_is_a_run(repeated_sweep, monkeypatch, golden):
    leave_out_plots(monkeypatch)
    table, ranks = runs_in(repeated_sweep)
    assert table["run"].tolist() == ["sweep", "sweep", "sweep#2", "sweep#2", "sweep#3", "sweep#3"]
    assert set(ranks["run"]) == {"sweep", "sweep#2", "sweep#3"}
    rows = aggregate_repetitions(table)
    assert rows["world_size"].tolist() == [4, 2]
    assert rows["run"].tolist() == ["sweep", "sweep"]
    assert rows["num_runs"].tolist() == [3, 3]
    assert rows["median_s"].tolist() == pytest.approx([2.4e-3, 1.2e-3])
    assert rows["between_share"].tolist() == pytest.approx([0.3 / 2.4, 0.2 / 1.2])
    within = table.groupby("world_size")["rel_ci"].median()
    assert rows["within_share"].tolist() == pytest.approx([within[4], within[2]])
    golden(as_text(rows, width=120))
    found = (
        pd.read_csv(written(repeated_sweep, "--baseline", "world_size=2") / "speedups.csv")
        .set_index("world_size")
        .loc[4]
    )
    assert found["speedup_basis"] == "3 runs, range"
    assert found["speedup"] == pytest.approx(1 / 2)
    assert found[["speedup_low", "speedup_high"]].tolist() == pytest.approx([1 / 2.2, 1 / 2])


def test_runs_of_equal_sweep_names_differ(tmp_path):
    for day in ("monday", "tuesday"):
        write_all(tmp_path / day / "sweep", [make_record(repetition=each, started_at=day) for each in (0, 1)])
    table, _ = runs_in(tmp_path)
    assert set(table["run"]) == {"monday/sweep", "monday/sweep#2", "tuesday/sweep", "tuesday/sweep#2"}


def test_a_table_without_repetitions_is_as_it_was():
    table = tabulate_records(runs_of([1.0, 2.0]))
    assert aggregate_repetitions(table) is table


def test_each_repeated_sweep_has_a_row_and_counts_failures(tmp_path):
    write_all(tmp_path / "monday", [make_record(seconds=seconds, repetition=n) for n, seconds in enumerate((1, 2))])
    write_all(tmp_path / "tuesday", [make_record(seconds=3), make_record(status="crash", repetition=1)])
    rows = aggregate_repetitions(runs_in(tmp_path)[0]).set_index("run")
    assert rows["median_s"].to_dict() == pytest.approx({"monday": 1.5, "tuesday": 3})
    assert rows["status"].tolist() == ["ok", "ok"]
    assert "crash" in rows["warning"]["tuesday"]


def test_groups_are_named_by_what_tells_them_apart():
    box = {"host": "box", "torch": "2.13.0+cu130", "cuda": "13.0", "driver": "580.1"}
    records = [make_record(), having(make_record(backend="nccl", device="cuda"), **box), having(make_record(), **box)]
    assert {suffix for suffix, _ in group_equal_except(tabulate_records(records))} == {
        "_backend-gloo_device-cpu_host-here", "_backend-gloo_device-cpu_host-box", "_backend-nccl_device-cuda_host-box",
    }  # fmt: skip


def test_groups_whose_machine_is_unknown_are_named_so():
    lost = make_record(status="unavailable", world_size=4) | {"agents": [{"host": "here"}]}
    names = [
        suffix
        for suffix, _ in group_equal_except(
            tabulate_records([with_cpu(make_record()), lost]), "world_size", "data_size"
        )
    ]
    assert any("unknown" in name for name in names)
    assert not any("nan" in name for name in names)


def with_cpu(record):
    return record | {"agents": [record["agents"][0] | {"cpu": "a cpu"}]}

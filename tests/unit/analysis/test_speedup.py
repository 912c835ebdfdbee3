"""Ratios to a baseline: of rows that differ in nothing else, within runs, with intervals only where they are known."""

import argparse
import random

import numpy as np
import pandas as pd
import pytest
from analysis.speedup import Baseline, BaselineError, compared, speedups, unpaired

from tests.support.records import grid, having, make_record, tabulate_records
from tests.support.reports import charts, plots

OVER_TWO = Baseline({"world_size": "2"})
MONDAY = {1: 0.9e-3, 2: 1.194e-3, 4: 7.863e-3}
TUESDAY = {1: 1.1e-3, 2: 2.517e-3, 4: 12.16e-3}
"""Of each number of ranks the median of a run."""


def speedup_of(records, baseline=OVER_TWO, ranks=4):
    """The row of so many ranks."""
    return speedups(tabulate_records(records), baseline).set_index("world_size").loc[ranks]


def runs(*times):
    return [make_record(1, ranks, s, run=f"{run}") for run, of_run in enumerate(times) for ranks, s in of_run.items()]


def test_speedup_divides_baseline_by_own_time():
    rows = speedups(tabulate_records(grid()), Baseline({"world_size": "4"}))
    found = {(row["world_size"], row["data_size"]): row["speedup"] for row in rows.to_dict("records")}
    assert found == pytest.approx({(w, s): 4 / w for w in (2, 4) for s in (1.0, 10.0, 100.0)})


def test_interval_of_one_run_combines_both_medians():
    records = [make_record(1, 2, 1.0), make_record(1, 4, 0.5)]
    row, (slow, fast) = speedup_of(records), tabulate_records(records).to_dict("records")
    assert row["speedup"] == pytest.approx(2.0)
    assert row["speedup_low"] == pytest.approx(slow["ci_low_s"] / fast["ci_high_s"])
    assert row["speedup_high"] == pytest.approx(slow["ci_high_s"] / fast["ci_low_s"])
    assert row["speedup_basis"] == "within the run"


def test_speedup_is_paired_within_runs():
    row = speedup_of(runs(MONDAY, TUESDAY))
    ratios = sorted(run[2] / run[4] for run in (MONDAY, TUESDAY))
    assert row["speedup"] == pytest.approx(np.median(ratios))
    assert [row["speedup_range_low"], row["speedup_range_high"]] == pytest.approx(ratios)
    assert pd.isna(row["speedup_low"])
    assert row["speedup_basis"] == "2 runs"


def test_speedup_of_six_runs_has_interval():
    times = [{ranks: 1 + n * ranks / 10 for ranks in (2, 4)} for n in range(6)]
    row = speedup_of(runs(*times))
    ratios = [run[2] / run[4] for run in times]
    assert [row["speedup_low"], row["speedup_high"]] == pytest.approx([min(ratios), max(ratios)])
    assert row["speedup_basis"] == "6 runs"


def test_basis_counts_runs_of_each_row():
    records = [*runs({2: 2, 4: 4}, {2: 2, 4: 4}), make_record(1.0, 8, 1.0, run="0")]
    rows = speedups(tabulate_records(records), OVER_TWO)
    assert dict(zip(rows["world_size"], rows["speedup_basis"], strict=True)) == {
        2: "2 runs", 4: "2 runs", 8: "within the run",
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 5, 6])
def test_speedup_across_runs_has_interval_from_six_on(count):
    old = [having(make_record(1, 2, 2.0 + n / 10, run=f"old{n}"), torch="2.12.0") for n in range(count)]
    new = [having(make_record(1, 2, 1.0 + n / 10, run=f"new{n}"), torch="2.13.0") for n in range(count)]
    row = speedups(tabulate_records([*old, *new]), Baseline.parse("torch=2.12.0")).set_index("torch").loc["2.13.0"]
    middle = (count - 1) / 20
    assert row["speedup"] == pytest.approx((2.0 + middle) / (1.0 + middle))
    interval = row[["speedup_low", "speedup_high"]].tolist()
    assert interval == pytest.approx([2.0 / 1.5, 2.5 / 1.0]) if count == 6 else pd.isna(interval).all()


def test_repeated_baseline_uses_median():
    records = [make_record(1, 2, 4.0), make_record(1, 2, 1.0), make_record(1, 4, 1.0)]
    rows = speedups(tabulate_records(records), OVER_TWO)
    assert dict(zip(rows["world_size"], rows["speedup"], strict=True)) == pytest.approx({2: 1, 4: 2.5})
    assert rows["speedup_low"].isna().all()


def test_only_baseline_keys_may_differ():
    spawned, there = make_record(1, 4), having(make_record(1, 4, 0.5), host="there")
    spawned["config"] = {**spawned["config"], "start_method": "spawn"}
    failed = make_record(1, 4, status="crash")
    table = tabulate_records([make_record(1, 2, 1.0), make_record(10, 4), spawned, there, failed])
    assert speedups(table, OVER_TWO)["world_size"].tolist() == [2]
    on_this_host = Baseline({"world_size": "2", "host": "here"})
    assert speedups(table, on_this_host)["speedup"].tolist() == pytest.approx([1, 2])


@pytest.mark.parametrize("versions", [("2.12.0", "2.13.0"), ("2.12.0+cpu", "2.13.0+cpu")])
def test_baseline_may_be_a_version_without_its_build(versions):
    records = [having(make_record(seconds=t), torch=v) for t, v in zip((1.0, 0.5), versions, strict=True)]
    assert speedups(tabulate_records(records), Baseline.parse("torch=2.12.0"))["speedup"].tolist() == [1, 2]


def test_baseline_accepts_several_keys():
    records = [make_record(backend="gloo"), make_record(backend="nccl", device="cuda", seconds=1e-4)]
    rows = speedups(tabulate_records(records), Baseline.parse("backend=gloo,device=cpu"))
    assert rows["speedup"].tolist() == pytest.approx([1, 10])


def test_unusable_baseline_is_refused():
    for text in ("worldsize=2", "world_size=3"):
        with pytest.raises(BaselineError, match=text.split("=")[0]):
            speedups(tabulate_records(grid()), Baseline.parse(text))
    with pytest.raises(argparse.ArgumentTypeError):
        Baseline.parse("world_size")


def test_unpaired_names_other_differences(golden):
    versions = [{"torch": "2.12.0", "nccl": "2.27"}, {"torch": "2.13.0", "nccl": "2.29"}]
    table = tabulate_records([having(make_record(), **each) for each in versions])
    golden(unpaired(table, Baseline.parse("torch=2.12.0")))
    assert unpaired(table, Baseline.parse("torch=2.12.0,nccl=2.27")) == ""


def test_default_baseline_is_the_smallest_of_several_ranks():
    [(_, baseline, rows)] = compared(tabulate_records([*grid(), make_record(1, 1)]), None)
    assert baseline == OVER_TWO
    assert sorted(set(rows["world_size"])) == [1, 4]


def shuffled(records):
    """The records in an order as sweeps in random order have it."""
    return random.Random(1).sample(records, len(records))


def test_speedups_are_in_order_of_size_and_joined():
    table = tabulate_records(shuffled(grid()))
    [(_, _, rows)] = compared(table, OVER_TWO)
    assert rows["data_size"].tolist() == [1.0, 10.0, 100.0]
    figure = plots(table, OVER_TWO)["allreduce_speedup.png"]()
    line = figure.axes[0].containers[0].lines[0]
    assert line.get_xdata().tolist() == [2**20, 10 * 2**20, 100 * 2**20]
    assert line.get_linestyle() == "-"
    assert figure.get_suptitle() == charts(table, OVER_TWO)["allreduce_speedup"].title


@pytest.mark.parametrize("count", [2, 39])
def test_plot_of_names_fits_a_slide(count):
    records = [make_record(1.0, ranks, ranks, seed=seed) for ranks in (2, 4) for seed in range(count)]
    for record in records:
        record["config"] = record["config"] | {"seed": record["seed"]}
    figure = plots(tabulate_records(records), OVER_TWO)["allreduce_speedup.png"]()
    [axis] = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [str(seed) for seed in range(count)]
    assert figure.get_figwidth() <= 7
    assert figure.get_figheight() <= 12.5


def test_plot_and_page_draw_known_bars_only_and_say_what_they_are(golden):
    """Of one run, of runs too few for an interval, of enough, and of different runs."""
    apart = [having(make_record(1, 2, run=version), torch=version) for version in ("2.12.0", "2.13.0")]
    cases = [
        (runs(MONDAY), OVER_TWO), (runs(MONDAY, TUESDAY), OVER_TWO),
        (runs(*({2: 2 + n, 4: 4 + n} for n in range(6))), OVER_TWO), (apart, Baseline.parse("torch=2.12.0")),
    ]  # fmt: skip
    notes = []
    for records, baseline in cases:
        table = tabulate_records(records)
        figure, chart = plots(table, baseline)["allreduce_speedup.png"](), charts(table, baseline)["allreduce_speedup"]
        assert chart.note == figure.get_supxlabel()
        assert chart.points["low"].notna().all() == (records is not apart)
        segments = [each for bars in figure.axes[0].containers[0].lines[2] for each in bars.get_segments()]
        assert any(not np.isnan(each).any() for each in segments) == (records is not apart)
        notes.append(figure.get_supxlabel())
    golden("\n".join(notes))


def test_range_of_runs_is_drawn():
    table = tabulate_records(runs(MONDAY, TUESDAY))
    drawn = plots(table, OVER_TWO)["allreduce_speedup.png"]().axes[0].containers
    segments = [segment for each in drawn for bars in each.lines[2] for segment in bars.get_segments()]
    assert pytest.approx([2.517 / 12.16, 1.194 / 7.863][::-1]) in [segment[:, 0].tolist() for segment in segments]

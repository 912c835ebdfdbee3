import argparse

import pytest
from analysis.baseline import Baseline, BaselineError, default_baseline
from analysis.speedup import speedups, unpaired

from tests.support.records import grid, having, make_record, tabulate_records


def test_speedup_is_the_baselines_time_over_ones_own():
    rows = speedups(tabulate_records(grid()), Baseline({"world_size": "4"}))
    found = {(row["world_size"], row["data_size"]): row["speedup"] for row in rows.to_dict("records")}
    assert found == pytest.approx({(w, s): 4 / w for w in (2, 4) for s in (1.0, 10.0, 100.0)})


def test_the_interval_holds_the_ratio_and_reaches_what_both_medians_allow():
    table = tabulate_records([make_record(1, 2, 1.0), make_record(1, 4, 0.5)])
    row = speedups(table, Baseline({"world_size": "2"})).to_dict("records")[1]
    slow, fast = table.to_dict("records")
    assert row["speedup"] == pytest.approx(2.0)
    assert row["speedup_low"] == pytest.approx(slow["ci_low_s"] / fast["ci_high_s"])
    assert row["speedup_high"] == pytest.approx(slow["ci_high_s"] / fast["ci_low_s"])


def test_only_rows_that_differ_in_the_baseline_alone_are_compared():
    spawned = make_record(1, 4)
    spawned["config"] = {**spawned["config"], "start_method": "spawn"}
    table = tabulate_records([make_record(1, 2), make_record(10, 4), spawned])
    assert speedups(table, Baseline({"world_size": "2"}))["world_size"].tolist() == [2]


def test_machines_are_compared_only_where_the_baseline_says_so():
    there = make_record(1, 4, 0.5)
    there["environment"] = {**there["environment"], "host": "there"}
    table = tabulate_records([make_record(1, 2, 1.0), there])
    assert len(speedups(table, Baseline({"world_size": "2"}))) == 1
    assert speedups(table, Baseline({"world_size": "2", "host": "here"}))["speedup"].tolist() == pytest.approx([1, 2])


def test_versions_are_compared_by_name():
    records = [having(make_record(seconds=t), torch=v) for t, v in ((1.0, "2.12.0"), (0.5, "2.13.0"))]
    rows = speedups(tabulate_records(records), Baseline.parse("torch=2.12.0"))
    assert dict(zip(rows["torch"], rows["speedup"], strict=True)) == pytest.approx({"2.12.0": 1, "2.13.0": 2})


def test_a_baseline_that_one_run_measured_twice_is_its_median_and_has_no_interval():
    later = make_record(1, 2, 4.0, started_at="2026-01-02")
    rows = speedups(
        tabulate_records([later, make_record(1, 2, 1.0), make_record(1, 4, 1.0)]), Baseline({"world_size": "2"})
    )
    assert dict(zip(rows["world_size"], rows["speedup"], strict=True)) == pytest.approx({2: 1, 4: 2.5})
    assert rows["speedup_low"].isna().all()


def test_failed_rows_take_no_part():
    table = tabulate_records([make_record(1, 2), make_record(1, 4, status="crash")])
    assert len(speedups(table, Baseline({"world_size": "2"}))) == 1


def test_several_keys_and_text_values():
    records = [make_record(backend="gloo"), make_record(backend="nccl", device="cuda", seconds=1e-4)]
    rows = speedups(tabulate_records(records), Baseline.parse("backend=gloo,device=cpu"))
    assert rows["speedup"].tolist() == pytest.approx([1, 10])


@pytest.mark.parametrize(
    ("text", "reason"), [("worldsize=2", "no column worldsize"), ("world_size=3", "no measured row")]
)
def test_an_unusable_baseline_is_said(text, reason):
    with pytest.raises(BaselineError, match=reason):
        speedups(tabulate_records(grid()), Baseline.parse(text))


def test_a_build_of_a_version_goes_by_its_number():
    records = [having(make_record(), torch=version) for version in ("2.12.0+cpu", "2.13.0+cpu")]
    assert len(speedups(tabulate_records(records), Baseline.parse("torch=2.12.0"))) == 2


def test_a_baseline_that_nothing_compares_with_says_what_else_differs():
    versions = [{"torch": "2.12.0", "nccl": "2.27"}, {"torch": "2.13.0", "nccl": "2.29"}]
    table = tabulate_records([having(make_record(), **each) for each in versions])
    why = unpaired(table, Baseline.parse("torch=2.12.0"))
    assert why.endswith("no row differs from it in torch alone; name what differs, too: nccl")
    assert unpaired(table, Baseline.parse("torch=2.12.0,nccl=2.27")) == ""


def test_a_baseline_needs_keys_and_values():
    with pytest.raises(argparse.ArgumentTypeError, match="expected KEY=VALUE"):
        Baseline.parse("world_size")


def test_the_default_is_the_smallest_world_that_communicates():
    assert default_baseline(tabulate_records([*grid(), make_record(1, 1)])).values == {"world_size": "2"}
    assert default_baseline(tabulate_records([make_record(1, 1)])).values == {"world_size": "1"}

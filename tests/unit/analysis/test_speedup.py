import argparse
import random

import pytest
from analysis.baseline import Baseline, BaselineError, default_baseline
from analysis.report import speedup_charts, speedup_plot
from analysis.speedup import compared, in_order, speedups, unpaired

from tests.support.records import as_version_2, grid, having, make_record, tabulate_records


def test_speedup_divides_baseline_by_own_time():
    rows = speedups(tabulate_records(grid()), Baseline({"world_size": "4"}))
    found = {(row["world_size"], row["data_size"]): row["speedup"] for row in rows.to_dict("records")}
    assert found == pytest.approx({(w, s): 4 / w for w in (2, 4) for s in (1.0, 10.0, 100.0)})


def test_interval_combines_both_medians():
    table = tabulate_records([make_record(1, 2, 1.0), make_record(1, 4, 0.5)])
    row = speedups(table, Baseline({"world_size": "2"})).to_dict("records")[1]
    slow, fast = table.to_dict("records")
    assert row["speedup"] == pytest.approx(2.0)
    assert row["speedup_low"] == pytest.approx(slow["ci_low_s"] / fast["ci_high_s"])
    assert row["speedup_high"] == pytest.approx(slow["ci_high_s"] / fast["ci_low_s"])


def test_only_baseline_keys_may_differ():
    spawned = make_record(1, 4)
    spawned["config"] = {**spawned["config"], "start_method": "spawn"}
    table = tabulate_records([make_record(1, 2), make_record(10, 4), spawned])
    assert speedups(table, Baseline({"world_size": "2"}))["world_size"].tolist() == [2]


def test_hosts_compare_only_on_request():
    there = having(make_record(1, 4, 0.5), host="there")
    table = tabulate_records([make_record(1, 2, 1.0), there])
    assert len(speedups(table, Baseline({"world_size": "2"}))) == 1
    assert speedups(table, Baseline({"world_size": "2", "host": "here"}))["speedup"].tolist() == pytest.approx([1, 2])


def test_versions_are_compared_by_name():
    records = [having(make_record(seconds=t), torch=v) for t, v in ((1.0, "2.12.0"), (0.5, "2.13.0"))]
    rows = speedups(tabulate_records(records), Baseline.parse("torch=2.12.0"))
    assert dict(zip(rows["torch"], rows["speedup"], strict=True)) == pytest.approx({"2.12.0": 1, "2.13.0": 2})


def test_repeated_baseline_uses_median():
    later = make_record(1, 2, 4.0, started_at="2026-01-02")
    rows = speedups(
        tabulate_records([later, make_record(1, 2, 1.0), make_record(1, 4, 1.0)]), Baseline({"world_size": "2"})
    )
    assert dict(zip(rows["world_size"], rows["speedup"], strict=True)) == pytest.approx({2: 1, 4: 2.5})
    assert rows["speedup_low"].isna().all()


def test_untitled_records_compare_with_titled():
    records = [make_record(1, 2, suite="collective"), make_record(1, 4, suite="collective", title="all_gather")]
    for record in records:
        record["config"] |= {"suite": "collective", "collective": "all_gather"}
    old, new = records
    [(title, _, rows)] = compared(tabulate_records([as_version_2(old), new]), None)
    assert (title, rows["world_size"].tolist()) == ("all_gather", [4])


def test_failed_rows_are_excluded():
    table = tabulate_records([make_record(1, 2), make_record(1, 4, status="crash")])
    assert len(speedups(table, Baseline({"world_size": "2"}))) == 1


def test_baseline_accepts_several_keys():
    records = [make_record(backend="gloo"), make_record(backend="nccl", device="cuda", seconds=1e-4)]
    rows = speedups(tabulate_records(records), Baseline.parse("backend=gloo,device=cpu"))
    assert rows["speedup"].tolist() == pytest.approx([1, 10])


@pytest.mark.parametrize(
    ("text", "reason"), [("worldsize=2", "no column worldsize"), ("world_size=3", "no measured row")]
)
def test_unusable_baseline_is_refused(text, reason):
    with pytest.raises(BaselineError, match=reason):
        speedups(tabulate_records(grid()), Baseline.parse(text))


def test_version_build_suffix_is_ignored():
    records = [having(make_record(), torch=version) for version in ("2.12.0+cpu", "2.13.0+cpu")]
    assert len(speedups(tabulate_records(records), Baseline.parse("torch=2.12.0"))) == 2


def test_unpaired_names_other_differences():
    versions = [{"torch": "2.12.0", "nccl": "2.27"}, {"torch": "2.13.0", "nccl": "2.29"}]
    table = tabulate_records([having(make_record(), **each) for each in versions])
    why = unpaired(table, Baseline.parse("torch=2.12.0"))
    assert why.endswith("no row differs from it in torch alone; name what differs, too: nccl")
    assert unpaired(table, Baseline.parse("torch=2.12.0,nccl=2.27")) == ""


def test_baseline_requires_key_and_value():
    with pytest.raises(argparse.ArgumentTypeError, match="expected KEY=VALUE"):
        Baseline.parse("world_size")


def test_default_baseline_avoids_single_rank():
    assert default_baseline(tabulate_records([*grid(), make_record(1, 1)])).values == {"world_size": "2"}
    assert default_baseline(tabulate_records([make_record(1, 1)])).values == {"world_size": "1"}


def shuffled(records):
    """The records in an order as sweeps in random order have it."""
    return random.Random(1).sample(records, len(records))


def test_compared_points_are_in_order_of_settings():
    [(_, _, rows)] = compared(tabulate_records(shuffled(grid())), Baseline({"world_size": "2"}))
    assert rows["data_size"].tolist() == [1.0, 10.0, 100.0]
    assert in_order(rows.head(1)) is not None


def test_plot_joins_speedups_over_size():
    table = tabulate_records(shuffled(grid()))
    baseline = Baseline({"world_size": "2"})
    figure = speedup_plot.draw(table, baseline)["allreduce_speedup.png"]()
    line = figure.axes[0].containers[0].lines[0]
    assert line.get_xdata().tolist() == [1.0, 10.0, 100.0]
    assert line.get_linestyle() == "-"
    assert figure.get_suptitle() == speedup_charts.show(table, baseline)["allreduce_speedup"].title
    assert figure.get_suptitle() == "allreduce on gloo: speedup over world_size=2"


@pytest.mark.parametrize("count", [2, 39])
def test_plot_of_names_fits_a_slide(count):
    records = [make_record(1.0, ranks, ranks, seed=seed) for ranks in (2, 4) for seed in range(count)]
    for record in records:
        record["config"] = record["config"] | {"seed": record["seed"]}
    figure = speedup_plot.draw(tabulate_records(records), Baseline({"world_size": "2"}))["allreduce_speedup.png"]()
    [axis] = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [str(seed) for seed in range(count)]
    assert figure.get_figwidth() <= 7
    assert figure.get_figheight() <= 12.5

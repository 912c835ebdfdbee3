"""What differs between the ranks of a run: where they ran, and the state of their GPUs."""

import pandas as pd
import pytest
from analysis.table.combine import identity_columns

from tests.support.entries.report import tables
from tests.support.markdown import section
from tests.support.records import having, make_record, tabulate_ranks, tabulate_records, write_all
from tests.support.reports import leave_out_plots, written

H100 = {"device": "cuda:0", "name": "H100", "uuid": "GPU-a", "pci": "0000:17:00.0", "numa_node": 0, "numa_nodes": [0]}
FAR = H100 | {"uuid": "GPU-b", "pci": "0000:ca:00.0", "numa_node": 1}


def gpu_record(*devices, mhz=(1980.0, 1200.0), celsius=(60.0, 61.0), **changes):
    record = make_record(device="cuda", **changes)
    record["rank_devices"] = list(devices or (H100, FAR))
    record["cases"][0]["disturbance"] = {"gpu_sm_mhz_after": list(mhz), "gpu_temperature_c_after": list(celsius)}
    return record


def rows_of_run(*records):
    """The rows of run a on the page."""
    [rows] = section(tables.rank_devices_table(tabulate_ranks(*records)), "a").values()
    return rows


def test_state_is_median_over_cases():
    hot = gpu_record(data_size=2.0, mhz=(1980.0, 600.0))
    cold = gpu_record(data_size=3.0, mhz=(1980.0, 1000.0))
    assert [row["SM clock [MHz]"] for row in rows_of_run(hot, cold, gpu_record())] == ["1980", "1000"]


def test_place_that_changes_has_rows_of_its_own():
    rows = rows_of_run(gpu_record(), gpu_record(FAR, H100, data_size=2.0))
    assert [(row["rank"], row["gpu"]) for row in rows] == [
        ("0", "GPU-a"), ("0", "GPU-b"), ("1", "GPU-a"), ("1", "GPU-b")
    ]  # fmt: skip


def test_hosts_of_ranks_differ():
    record = make_record()
    record["agents"] = [{"host": "n0", "ranks": [0]}, {"host": "n1", "ranks": [1]}]
    assert rows_of_run(record) == [{"rank": "0", "rank_host": "n0"}, {"rank": "1", "rank_host": "n1"}]


@pytest.mark.parametrize(
    "record", [make_record(), gpu_record(H100, H100, mhz=(1980.0, 1950.0)), gpu_record(H100, H100, mhz=(0.0, 0.0))]
)
def test_equal_ranks_have_no_page(record):
    assert tables.rank_devices_table(tabulate_ranks(record)) is None


def test_page_has_what_differs_in_a_table_per_run(tmp_path, monkeypatch, golden):
    leave_out_plots(monkeypatch)
    for run, record in (("a", gpu_record()), ("b", make_record()), ("c", gpu_record(mhz=(1.0, 1.0)))):
        write_all(tmp_path / run, [record])
    report = written(tmp_path)
    golden((report / "rank_devices.md").read_text())
    assert "GPU-b" not in (report / "per_rank.md").read_text()
    assert pd.read_csv(report / "per_rank.csv")["gpu_sm_mhz"].dropna().tolist() == [1980, 1200, 1, 1]


def test_driver_tells_gpu_runs_apart():
    older = gpu_record()
    older["agents"][0]["gpus"] = [{"name": "H100", "driver_version": "550"}]  # as in early records
    newer = gpu_record()
    newer["agents"][0] |= {"driver": "570", "gpus": [{"name": "H100", "driver_version": "570"}]}
    table = tabulate_records([older, newer, newer, having(make_record(), driver="570")])
    assert table["driver"].fillna("").tolist() == ["550", "570", "570", ""]
    assert table.duplicated(identity_columns(table)).tolist() == [False, False, True, False]


def test_ranks_name_gpus_that_hosts_do_not_list():
    record = gpu_record(*[H100 | {"name": "AMD Instinct MI300X"}] * 2)
    listed = gpu_record()
    listed["agents"][0]["gpus"] = [{"name": "H100"}]
    assert tabulate_records([record, listed])["device_name"].tolist() == ["AMD Instinct MI300X", "H100"]

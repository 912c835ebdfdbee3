import dataclasses

import pandas as pd
import pytest
from analysis.records import rows as columns
from analysis.records.doubts import UTILISATIONS
from analysis.records.rows import DIMENSIONS, MODEL
from analysis.screen.terminal import as_text
from analysis.table.combine import format_printed, identity_columns, suite_columns
from analysis.table.repetitions import aggregate_repetitions, aggregate_runs, group_equal_except
from analysis.table.variants import compare_suites
from benchkit.api.case import MEASURED_PEAK
from benchkit.api.keys import ModelConfig, RunConfig
from benchkit.api.regions import QUEUEING
from benchkit.statistics.intervals import FEWEST_SAMPLES

from tests.support.records import having, make_record, make_rich_record, tabulate_records


def test_row_matches_hand_calculation():
    row, of_one_rank = tabulate_records([make_record(100, 4, 0.2), make_record(1, 1)]).to_dict("records")
    assert pd.isna([of_one_rank["algbw_gb_per_s"], of_one_rank["busbw_gb_per_s"]]).all()
    assert row["median_s"] == pytest.approx(0.2)
    assert row["algbw_gb_per_s"] == pytest.approx(100 * 2**20 / 0.2 / 1e9)
    assert row["busbw_gb_per_s"] == pytest.approx(1.5 * 100 * 2**20 / 0.2 / 1e9)
    assert (row["suite"], row["backend"], row["device"], row["world_size"]) == ("allreduce", "gloo", "cpu", 4)
    assert row["ci_low_s"] < row["median_s"] < row["ci_high_s"]
    assert row["num_samples"] == FEWEST_SAMPLES


def test_cases_are_rows_with_labels():
    record = make_record()
    [case] = record["cases"]
    bad = {**case, "labels": {"strategy": "lut"}, "status": "invalid", "reason": "element 3", "rank": 0}
    record["cases"] = [{**case, "labels": {"strategy": "even"}}, bad]
    table = tabulate_records([record])
    assert table["strategy"].tolist() == ["even", "lut"]
    assert "strategy" in suite_columns(table)
    assert pd.isna(table["median_s"][1])  # the time of a wrong result is not reported


def test_details_give_figures_for_any_suite():
    record = make_record(suite="of another house", seconds=1e-3)
    details = {"predicted_s": 1e-3, "ideal_s": 5e-4, "tokens_per_call": 8, "causal_flops": 1e9, "peak_tflop_per_s": 4}
    regions = {"forward": [[1e-4]] * 2, "backward": [[2e-4]] * 2}
    record["cases"][0] |= {"details": details, "useful_flops": 2e9, "executed_flops": 3e9, "regions_s": regions}
    [row] = tabulate_records([record]).to_dict("records")
    expected = {
        "predicted_s": 1e-3, "ideal_s": 5e-4, "efficiency": 0.5, "tokens_per_second": 8e3, "mfu_causal": 0.25,
        "mfu_full": 0.5, "hfu_full": 0.75, "backward_over_forward": 2.0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_host_bound_shows_where_the_host_sets_the_pace():
    printed = []
    for queueing_s, calls in ((3e-3, 1), (0.95e-3, 1), (0.85e-3, 1), (0.95e-3, 20), (3e-3, 20)):
        record = make_record(seconds=1e-3, samples=2)
        record["cases"][0]["calls_per_sample"] = calls
        record["cases"][0]["regions_s"] = {QUEUEING: [[queueing_s / 2] * 2, [queueing_s] * 2]}
        printed.append(format_printed(tabulate_records([record])))
    assert printed[0]["host_bound"].tolist() == pytest.approx([3])
    assert printed[1]["host_bound"].tolist() == pytest.approx([0.95])
    assert "host_bound" not in printed[2]
    assert "host_bound" not in printed[3]  # the queue was full: the GPU set the pace
    assert printed[4]["host_bound"].tolist() == pytest.approx([3])


def test_conditions_show_where_they_differ_and_separate_points():
    plain, spawned, threads = make_record(), make_record(), make_record()
    spawned["config"] = {**spawned["config"], "start_method": "spawn"}
    threads["config"] = {**threads["config"], "threads_per_rank": 2}
    assert not {"start_method", "host"} & set(as_text(tabulate_records([plain, plain])).split())
    table = tabulate_records([plain, spawned, threads, having(plain, host="there")])
    assert {"spawn", "there"} <= set(as_text(table, width=200).split())
    assert table.duplicated(identity_columns(table)).sum() == 0


def test_settings_that_a_suite_lacks_share_a_column():
    rings = [make_record(1.0, 2, suite="ring_attention") for _ in range(2)]
    for record, seq_len in zip(rings, (64, 128), strict=True):
        del record["config"]["data_size"]
        record["config"] |= {"seq_len": seq_len, "causal": True}
    text = as_text(tabulate_records([make_record(1.0), make_record(10.0), *rings]), width=120)
    heads, _, *rows = text.splitlines()[3:9]
    assert not {"data_size", "seq_len", "causal"} & set(heads.split())
    assert [row[heads.index("case") :].split("  ")[0] for row in rows] == [
        "data_size 1 MiB", "data_size 10 MiB", "seq_len 64", "seq_len 128",
    ]  # fmt: skip
    alone = as_text(tabulate_records([make_record(1.0), make_record(10.0)]), width=120)
    assert "data_size" in alone.splitlines()[3]


def test_table_hides_keys_that_select_cases():
    record = make_record()
    record["config"] = {**record["config"], "devices": [1, 2], "implementations": {"a": {}}}
    table = tabulate_records([record] * 2)
    assert not {"devices", "implementations"} & set(table.columns)


def ring_record(**changes):
    """A suite with a key of its own that a model has, too."""
    record = make_record(point_id=str(changes))
    model = {"name": "small", "num_heads": 12, "d_model": 768}
    config = {"suite": "ring_attention", "num_heads": 8, "model": model}
    record["config"] = record["config"] | config | changes
    return record | {"suite": "ring_attention"}


@pytest.mark.parametrize("model", [None, {"name": "small", "num_heads": 12}])
def test_model_cannot_overwrite_suite_keys(model):
    table = tabulate_records([ring_record(num_heads=heads, model=model) for heads in (2, 8)])
    assert table["num_heads"].tolist() == [2, 8]
    assert "num_heads" in suite_columns(table)
    assert len(aggregate_runs(table, *identity_columns(table))) == 2


def test_model_dimensions_have_own_columns():
    row = tabulate_records([ring_record()]).iloc[0]
    assert (row["num_heads"], row["model.num_heads"], row["model.d_model"]) == (8, 12, 768)
    assert "d_model" not in row


@pytest.mark.parametrize("name", ["host", "median_s", "details"])
def test_clashing_key_gets_suite_prefix(name):
    record = ring_record(**{name: "mine"})
    row = tabulate_records([record]).iloc[0]
    assert row[f"ring_attention.{name}"] == "mine"
    record = ring_record()
    record["cases"][0]["labels"] = {name: "mine"}
    table = tabulate_records([record])
    assert table.iloc[0][f"ring_attention.{name}"] == "mine"
    assert f"ring_attention.{name}" in suite_columns(table)
    assert table.iloc[0]["device"] == "cpu"
    assert table.iloc[0]["median_s"] == pytest.approx(1e-3)


def test_rough_clock_gives_no_makespan():
    told = {"estimator": "min_rtt_line", "uncertainty_s": 5e-5}
    sure = tabulate_records([make_record(start_clock=told)]).iloc[0]
    assert sure["makespan_s"] == pytest.approx(1e-3)
    assert sure["start_clock"] == "min_rtt_line"
    rough = tabulate_records([make_record(start_clock=told | {"uncertainty_s": 2e-4})])
    assert rough[["makespan_s", "start_skew_s", "straggler_rank"]].isna().all(axis=None)


SOFTWARE = {
    "torch": "2.13.0", "cuda": "13.0", "nccl": "2.29.7", "kernel": "6.1", "cpu": "EPYC",
    "git_commit": "0123456789abcdef",
}  # fmt: skip


def test_identity_separates_versions_and_devices():
    record = having(make_record(), **SOFTWARE)
    changes = {
        "torch": {"torch": "2.12.0"}, "cuda": {"cuda": None}, "nccl": {"nccl": "2.27"}, "kernel": {"kernel": "6.2"},
        "device_name": {"cpu": "Xeon"}, "commit": {"git_diff_hash": "abc"},
    }  # fmt: skip
    table = tabulate_records([record, record, *(having(record, **change) for change in changes.values())])
    assert table.duplicated(identity_columns(table)).tolist() == [False, True, *[False] * len(changes)]
    assert set(changes) <= set(as_text(table, width=400).splitlines()[3].split())


OF_PLACE = {
    "CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "UCX_NET_DEVICES": "mlx5_0:1", "NCCL_IB_HCA": "mlx",
    "GLOO_SOCKET_IFNAME": "eth0", "NCCL_COMM_ID": "n0:1", "CUDA_SERVICE_HOST": "n0", "CUDA_SERVICE_PORT": "1",
    "CUDA_HOME": "/a", "CUDA_MPS_PIPE_DIRECTORY": "/b", "NCCL_TOPO_FILE": "/c", "CUDA_VERSION": "13.0.1",
    "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL", "UCX_LOG_LEVEL": "warn", "TORCH_LOGS": "+dynamo",
}  # fmt: skip
"""Of variables that libraries read: those that no time depends on."""


def test_variables_of_the_environment_keep_points_apart():
    first = {"OMP_NUM_THREADS": "2", "NCCL_ALGO": "Ring"}
    values = [{}, OF_PLACE, first, first | OF_PLACE, {"NCCL_ALGO": "Tree"}, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}]
    table = tabulate_records([having(make_record(), variables=each) for each in values])
    ring = "NCCL_ALGO=Ring OMP_NUM_THREADS=2"
    assert table["variables"].tolist() == ["", "", ring, ring, "NCCL_ALGO=Tree", "TORCH_DISTRIBUTED_DEBUG=DETAIL"]
    assert table.duplicated(identity_columns(table)).tolist() == [False, True, False, True, False, False]
    assert len(aggregate_runs(table, *identity_columns(table))) == 4


def test_variants_without_variables_have_a_name():
    records = [
        having(make_record(seconds=s), variables=each) for s, each in ((1e-3, {}), (3e-3, {"NCCL_ALGO": "Tree"}))
    ]
    [(_, found)] = compare_suites(tabulate_records(records)).items()
    assert [side.name for side in found.variants] == ["no variables", "NCCL_ALGO=Tree"]
    assert [side.speedup and side.speedup.value for side in found.variants] == [None, pytest.approx(1 / 3)]


def test_variables_that_agents_share_stand_once():
    agents = [{"host": f"n{n}", "variables": {"NCCL_P2P_DISABLE": "1", "NCCL_NTHREADS": str(n)}} for n in (1, 0)]
    [row] = tabulate_records([make_record(agents=agents)]).to_dict("records")
    assert row["variables"] == "NCCL_NTHREADS=0 NCCL_NTHREADS=1 NCCL_P2P_DISABLE=1"


def test_arms_are_no_repetitions():
    told = {"id": "c", "pair": 1, "position": 0}
    records = [make_record(run=str(n), comparison=told | {"arm": arm}) for n, arm in enumerate("aabb")]
    table = tabulate_records(records)
    assert aggregate_runs(table, *identity_columns(table))["num_runs"].tolist() == [2, 2]
    assert [len(rows) for _, rows in group_equal_except(table)] == [2, 2]
    assert len(aggregate_repetitions(table.assign(run=["a", "a#2", "a#3", "a#4"]))) == 2


def test_row_joins_differences_between_agents():
    told = {"git_commit": "0123456789abcdef", "git_diff_hash": "00aa", "load_average": [0.5, 0, 0], "torch": "2.13.0"}
    agents = [{"host": host, "ranks": [rank], **told} for rank, host in enumerate(("n0", "n1", "n1"))]
    agents[1] |= {"git_diff_hash": None, "load_average": [3.5, 0, 0], "torch": "2.12.0"}
    record = make_record(agents=agents, launched_by="srun")
    record["environment"] |= told | {"git_dirty": True}
    [row] = tabulate_records([record]).to_dict("records")
    assert (row["host"], row["num_agents"], row["launched_by"]) == ("n0+n1", 3, "srun")
    assert row["commit"] == "0123456789ab+00aa / 0123456789ab"
    assert row["torch"] == "2.13.0 / 2.12.0"
    assert row["load"] == 3.5


def test_keys_that_analysis_knows_are_those_of_the_schema():
    sizes = tuple(f"{MODEL}{item.name}" for item in dataclasses.fields(ModelConfig) if item.type is int)
    assert sizes == DIMENSIONS
    assert {item.name for item in dataclasses.fields(RunConfig)} == columns.SHARED_KEYS


def nodes(**changes):
    """A point on each of four nodes, as a job array measures them."""
    made = [make_record(size, run="a") for size in (1, 2, 4, 8)]
    return [having(record, host=f"n{number}", cpu="a", **changes) for number, record in enumerate(made)]


def test_nodes_of_one_kind_are_one_machine_within_a_sweep():
    table = tabulate_records(nodes())
    assert set(table["host"]) == {"n0 and 3 alike"}
    assert table["node"].tolist() == ["n0", "n1", "n2", "n3"]
    [slower, *others] = nodes()
    table = tabulate_records([having(slower, cpu="b"), *others, make_record(16, run="b")])
    assert table["host"].tolist() == ["n0", *["n1 and 2 alike"] * 3, "here"]


def test_rates_are_shares_of_the_best_peak_of_the_host():
    records = [make_rich_record("transformer", point_id=f"{number}") for number in range(2)]
    for record, peak in zip(records, (100.0, 400.0), strict=True):
        for case in record["cases"]:
            case["details"] |= {"peak_tflop_per_s": peak, "peak_from": MEASURED_PEAK}
    table = tabulate_records([*records, make_record(status="oom")])
    for name in UTILISATIONS:
        assert table[name].nunique() == 1
    assert set(table["peak_tflop_per_s"].dropna()) == {400.0}
    assert table["doubt"].str.contains("100 TFLOP/s").eq(True).tolist() == [True] * 4 + [False] * 5


@pytest.mark.parametrize(
    ("best", "told"),
    [(0.8, "mfu_full 125 %, mfu_causal 125 %, hfu_full 250 %"), (1.0, "hfu_full 200 %"), (2.0, "")],
)
def test_share_above_the_best_peak_keeps_its_doubt(best, told):
    records = [make_rich_record("transformer", point_id=f"{number}") for number in range(2)]
    for record, peak in zip(records, (0.76, best), strict=True):
        for case in record["cases"]:
            case["details"] |= {"peak_tflop_per_s": peak, "peak_from": MEASURED_PEAK}
    of_own_peak, of_best = (
        [line.partition(": ")[0] for line in str(doubt).split("; ") if line.startswith(UTILISATIONS)]
        for doubt in tabulate_records(records)["doubt"].iloc[[0, -1]]
    )
    assert of_own_peak == of_best == ([told] if told else [])

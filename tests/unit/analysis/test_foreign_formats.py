"""Files of the systems that benchkit replaces: read beside records by `import`, written by `export`."""

import csv
import io

import pandas as pd
import pytest
from analysis.cli import main

from tests.support.imports import SAMPLES, imported, ours
from tests.support.records import make_record, make_rich_record, write_all

FORMATS = {
    "cs336_allreduce.csv": ("collective", 3),
    "param_comms.txt": ("collective", 2),
    "cs336_transformer.json": ("transformer", 1),
    "cs336_transformer.csv": ("transformer", 2),
    "ddlb_tp_columnwise.csv": ("tensor_parallel", 2),
    "hetero_sweep_results.csv": ("ring_attention", 4),
    "hetero_ring_attention_profile.csv": ("ring_attention", 2),
    "hetero_matmul_mps_sweep.csv": ("matmul_lut", 2),
    "hetero_full_model.csv": ("ring_model", 3),
    "hetero_ring_vs_regular.csv": ("ring_model", 4),
}
"""The suite and the number of rows of each sample."""


def exported(tmp_path, system, records):
    """The files that `export` writes of some records, by name."""
    place = write_all(tmp_path / "records", records)
    assert main(["export", str(place), "--as", system, "--output-dir", str(tmp_path / "out")]) == 0
    paths = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    return {str(path.relative_to(tmp_path / "out")): path for path in paths}


def of_file(table, name):
    return table[table.file.str.endswith(name)]


def test_rows_of_each_format_stand_beside_records(tmp_path, capsys, golden):
    """Its header tells the format of a file, and the name of DDLB's file the primitive."""
    rowwise = tmp_path / "tp_rowwise_8192.csv"
    rowwise.write_text((SAMPLES / "ddlb_tp_columnwise.csv").read_text())
    place = ours(tmp_path / "records", "all_reduce", data_size=100.0, seconds=0.3)
    table = imported(tmp_path, *(SAMPLES / name for name in FORMATS), rowwise, place)
    for name, (suite, count) in FORMATS.items():
        rows = of_file(table, name)
        assert (set(rows.suite), len(rows)) == ({suite}, count)
    golden(capsys.readouterr().out.partition("\nwrote")[0])


def test_truncated_file_keeps_whole_lines(tmp_path, capsys):
    for name in FORMATS:
        (tmp_path / name).write_text((SAMPLES / name).read_text()[:-3])
    table = imported(tmp_path, *(tmp_path / name for name in FORMATS), code=1)
    err = capsys.readouterr().err
    for name, (suite, count) in FORMATS.items():
        rows_of_line = 2 if suite == "ring_model" else 1
        assert len(of_file(table, name)) == count - rows_of_line
        [line] = [line for line in err.splitlines() if f"{name}: " in line]
        assert ("1 line(s)" in line) == (name != "cs336_transformer.json")  # of this nothing is left


def test_impossible_figure_is_passed_over_with_what_is_allowed(tmp_path, capsys, golden):
    told = []
    for name, figure, wrong in (
        ("cs336_allreduce.csv", ",0.002,", ",-0.002,"), ("cs336_allreduce.csv", ",0.0001,", ",-0.0001,"),
        ("cs336_allreduce.csv", "cpu,2,1.0", "cpu,0,1.0"), ("cs336_allreduce.csv", "cpu,2,1.0", "cpu,2,-1.0"),
        ("cs336_transformer.csv", ",37.5,", ",0,"),
        ("ddlb_tp_columnwise.csv", ",8192,1024,1024,float16,6.9", ",8192,-4,1024,float16,6.9"),
        ("hetero_sweep_results.csv", ",30.0,50", ",30.0,-50"),
        ("hetero_sweep_results.csv", "even,8192,40.0", "even,many,40.0"),
        ("hetero_ring_attention_profile.csv", "100,20.0", "100,-20.0"),
        ("hetero_matmul_mps_sweep.csv", ",0.56,", ",-0.56,"),
    ):  # fmt: skip
        text = (SAMPLES / name).read_text()
        assert figure in text
        (tmp_path / name).write_text(text.replace(figure, wrong, 1))
        assert len(imported(tmp_path, tmp_path / name)) == FORMATS[name][1] - 1
        told.append(capsys.readouterr().err)
    golden("".join(told), {r"could not .*": "PYTHON"})


def test_result_without_time_has_failed(tmp_path):
    figures = {
        "cs336_allreduce.csv": "0.002,", "cs336_transformer.csv": "37.5,", "ddlb_tp_columnwise.csv": "2.5,",
        "hetero_sweep_results.csv": "40.0,4096,", "hetero_ring_attention_profile.csv": "20.0",
        "hetero_matmul_mps_sweep.csv": "0.56,",
    }  # fmt: skip
    for name, figure in figures.items():
        text = (SAMPLES / name).read_text()
        (tmp_path / name).write_text(text.replace(figure, figure[figure.find(",") :] if "," in figure else "", 1))
    table = imported(tmp_path, *(tmp_path / name for name in figures))
    for name in figures:
        rows = of_file(table, name)
        assert set(rows[rows.time_s.isna()].status) == {"failed"}
        assert (rows.time_s.isna() == (rows.status == "failed")).all()


def test_byte_order_mark_is_no_part_of_a_header(tmp_path):
    (tmp_path / "a.csv").write_text((SAMPLES / "cs336_allreduce.csv").read_text(), "utf-8-sig")
    assert len(imported(tmp_path, tmp_path / "a.csv")) == 3


def test_ddlb_rows_tell_device_and_protocol(tmp_path):
    head, line, *_ = (SAMPLES / "ddlb_tp_columnwise.csv").read_text().splitlines()
    bare = line.replace(" (backend=nccl, order=AG_before)", "")
    lines = [f"{line},cuda_event,True", f"{bare},cpu_clock,False"]
    names = "time_measurement_backend,barrier_at_each_iteration"
    (tmp_path / "a.csv").write_text("\n".join([f"{head},{names}", *lines, ""]))
    events, clock = (row for _, row in imported(tmp_path, tmp_path / "a.csv").sort_values("device").iterrows())
    assert (events.device, pd.isna(clock.device)) == ("cuda", True)
    assert events.implementation == clock.implementation == "pytorch (backend=nccl, order=AG_before)"
    assert "timer: cuda_event, barrier: before each iteration" in events.conversion
    assert "timer: cpu_clock, barrier: none" in clock.conversion
    assert (pd.isna(events.std_s), pd.isna(clock.std_s)) == (False, True)  # one total of all calls has no deviation


def test_records_of_all_suites_stand_beside(tmp_path):
    suites = ("collective", "transformer", "tp_columnwise", "ring_attention", "matmul_lut")
    place = write_all(tmp_path / "records", [make_rich_record(suite) for suite in suites])
    table = imported(tmp_path, place)
    assert set(table[table.source == "benchkit"].suite) == {
        "collective", "transformer", "tensor_parallel", "ring_attention", "matmul_lut",
    }  # fmt: skip
    assert (table[table.suite != "collective"].time_s > 0).all()


def test_allreduce_export_is_in_gibibytes(tmp_path):
    records = [make_record(100.0, ranks, 0.1, suite="collective") for ranks in (2, 4)]
    records.append(make_record(1000.0, 2, suite="collective", status="failed"))
    for content in records:
        content["config"] |= {"suite": "collective", "collective": "all_reduce", "async_op": False, "ragged": False}
    half = len(records[0]["cases"][0]["samples_s"][0]) // 2
    for content in records[:1]:
        content["cases"][0] |= {
            "samples_s": [[0.1, 0.3] * half, [0.2] * 2 * half], "blocks": [1] * 2 * half, "start_offsets_s": None,
        }  # fmt: skip
    [(name, path)] = exported(tmp_path, "cs336", records).items()
    assert name == "gloo_cpu_benchmark.csv"
    first, failed, last = csv.DictReader(io.StringIO(path.read_text()))
    assert [*first] == [
        "backend", "device", "world_size", "data_size_mb", "avg_time_s", "std_time_s", "bandwidth_gb_s", "error",
    ]  # fmt: skip
    assert (first["world_size"], float(first["data_size_mb"]), last["world_size"]) == ("2", 100, "4")
    assert float(first["avg_time_s"]) == pytest.approx(0.2)
    assert float(first["std_time_s"]) == pytest.approx(0.05)  # the mean of 0.1 and 0
    assert float(first["bandwidth_gb_s"]) == pytest.approx(100 / 1024 / 0.2)
    assert (failed["avg_time_s"], failed["error"]) == ("", "it went failed\nand more")


def test_hetero_export_has_shares_and_ranks(tmp_path):
    record = make_rich_record("ring_attention")
    record["config"]["hardware"]["slowdown"] = 4
    matmul = make_record(1.0, 1, suite="matmul_lut")
    matmul["config"] |= {"suite": "matmul_lut", "bg_streams": 0}
    matmul["cases"][0] |= {"labels": {"size": 64}, "useful_flops": 1e9}
    files = exported(tmp_path, "hetero", [record, matmul])
    assert files["matmul_mps_sweep.csv"].read_text().splitlines() == [
        "mps_pct,size,dtype,bg_streams,avg_ms,tflops", "100,64,float32,0,1,1",
    ]  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(files["sweep_results.csv"].read_text())))
    assert [*lines[0]] == [
        "split_type", "seq_len", "overall_latency_ms", "rank0_tokens", "rank0_latency_ms", "rank1_tokens",
        "rank1_latency_ms", "slowdown_pct",
    ]  # fmt: skip
    line = next(line for line in lines if line["split_type"] == "reference_homogeneous")
    assert (line["rank1_tokens"], float(line["slowdown_pct"])) == ("64", 25)
    assert float(line["overall_latency_ms"]) == pytest.approx(1.0)
    profile = files["ring_attention_profile_128.csv"].read_text().splitlines()
    assert profile == ["mps_pct,latency_ms", "25,1"]


def decoder_record():
    """Two ranks; prefill takes 100 ms and a call of decode, of four tokens, 40 ms; one rank alone 200 and 80."""
    made = make_record(1.0, 2, suite="ring_model")
    made["config"] |= {"suite": "ring_model", "seq_len": 128, "decode_tokens": 4}
    [base] = made["cases"]
    made["cases"] = [
        base | {
            "labels": {"phase": phase, "implementation": implementation, "strategy": strategy},
            "samples_s": [[seconds * times] * 12] * 2, "start_offsets_s": None, "payload_bytes": None,
            "bus_factor": None, "blocks": [12], "details": {"tokens": tokens},
        }
        for phase, seconds in (("prefill", 0.1), ("decode", 0.04))
        for implementation, strategy, times, tokens in (("ring", "even", 1, [64, 64]), ("single", "whole", 2, [128, 0]))
    ]  # fmt: skip
    return made


def test_decoder_lines_up_with_files_of_its_times(tmp_path):
    files = exported(tmp_path, "hetero", [decoder_record()])
    assert files["hetero_full_model_results.csv"].read_text().splitlines() == [
        "split_type,block_lens,prompt_tokens,ttft_ms,avg_decode_ms,total_ms", 'even,"[64, 64]",128,100.00,10.00,140.00',
    ]  # fmt: skip
    assert files["ring_vs_regular.csv"].read_text().splitlines() == [
        "strategy,prompt_tokens,ttft_ms,avg_decode_ms,total_time_ms", "Ring,128,100.00,10.00,140.00",
        "Regular,128,200.00,20.00,280.00",
    ]  # fmt: skip
    table = imported(tmp_path, *files.values(), tmp_path / "records")
    assert table[table.phase == "decode"].time_s.tolist() == pytest.approx([0.01, 0.01, 0.01, 0.02, 0.02])
    assert table[table.implementation == "single"].world_size.tolist() == [1, 1] * 2


def test_exported_files_are_read_back(tmp_path):
    suites = ("collective", "transformer", "tp_rowwise", "ring_attention")
    records = [make_rich_record(suite) for suite in suites]
    written = [exported(tmp_path / system, system, records) for system in ("ddlb", "cs336", "hetero")]
    paths = [path for files in written for path in files.values()]
    table = imported(tmp_path, *paths)
    for suite, count in (("tensor_parallel", 4), ("transformer", 2), ("ring_attention", 5)):
        assert (table.suite == suite).sum() >= min(count, 1)
        assert table[table.suite == suite].time_s.tolist() == pytest.approx([1e-3] * (table.suite == suite).sum())


def test_export_without_anything_to_write_says_so(tmp_path, capsys, golden):
    place = write_all(tmp_path / "records", [make_record()])
    assert main(["export", str(place), "--as", "ddlb"]) == 1
    assert main(["export", "/no/such", "--as", "ddlb"]) == 2
    golden(capsys.readouterr().err)

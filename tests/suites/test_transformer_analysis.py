"""Tables, JSON files and plots of language models' step times."""

import csv
import io
import json

import numpy as np
import pytest
from benchkit.statistics.intervals import FEWEST_SAMPLES

from tests.support.markdown import section
from tests.support.records import make_record, tabulate_records
from tests.support.reports import NARROW, drawn, exported, texts_of

SIZES = {"tiny": (64, 256, 2, 4, 1_411_392), "2.7B": (2560, 10240, 32, 32, 3_406_809_600)}
SHARES = {"forward": 1.0, "forward_backward": 3.0, "train_step": 4.0}
"""Of each pass the time, in forwards."""
REGIONS = {"forward": 1.0, "loss": 0.5, "backward": 1.5, "optimizer": 1.0}
FIGURES = {f"transformer_{name}.png" for name in ("step_time", "tokens_per_second", "memory", "mfu", "phases")}
SUMMARY = "benchmark_summary.md"
PIVOT = "Median step time by context and model"


def case(base, name, seconds, ranks, parameters, **changes):
    """A pass on so many ranks: forward takes a quarter of a training step, the optimizer another."""
    phases = list(REGIONS)[: {"forward": 1, "forward_backward": 3, "train_step": 4}[name]]
    scaled = lambda share: [[share * seconds / 1e-3 * each for each in row] for row in base["samples_s"]]  # noqa: E731
    details = {
        "tokens_per_call": 512, "parameters": parameters, "causal_flops": 1.08e9 * SHARES[name],
        "peak_tflop_per_s": 3.0, "peak_from": "data sheet of X", "peak_bytes": 300 * 2**20,
    }  # fmt: skip
    return base | {
        "labels": {"pass": name, "ranks": ranks, "part": "whole"}, "samples_s": scaled(SHARES[name]),
        "regions_s": {phase: scaled(REGIONS[phase]) for phase in phases}, "details": details, "payload_bytes": None,
        "useful_flops": 1.2e9 * SHARES[name], "executed_flops": 1.2e9 * SHARES[name], "bus_factor": None,
        "ranks": ranks,
    } | changes  # fmt: skip


def model_record(model="tiny", context=128, seconds=1e-3, passes=tuple(SHARES), **changes):
    """A job on one rank whose forward takes so many seconds. changes: of its configuration."""
    *dimensions, parameters = SIZES[model]
    names = ("d_model", "d_ff", "num_layers", "num_heads")
    record = make_record(world_size=1)
    [base] = record["cases"]
    record["cases"] = [case(base, name, seconds, 1, parameters) for name in passes]
    settings = {name: value for name, value in record["config"].items() if name not in ("data_size", "reduce_op")}
    sizes = dict(zip(names, dimensions, strict=True)) | {"vocab_size": 10000}
    record["config"] = settings | {
        "suite": "transformer", "model": sizes | {"name": model},
        "context_length": context, "batch_size": 4, "dtype": "float32", "parallel": "none",
    } | changes  # fmt: skip
    return record | {"suite": "transformer", "point_id": json.dumps([model, context, changes])}


def shared_record(kind="ddp", **changes):
    """Two ranks at 80 % of their speed alone, and what they send."""
    [base] = make_record()["cases"]
    parameters = SIZES["tiny"][-1]
    cases = []
    for name in SHARES:
        alone, both = (case(base, name, seconds, n, parameters) for n, seconds in ((1, 1e-3), (2, 1.25e-3)))
        sends = {"is_component": True, "regions_s": {}, "details": {}, "useful_flops": None}
        sends |= {"labels": {"pass": name, "ranks": 2, "part": "communication"}}
        sends["samples_s"] = [[0.25e-3] * FEWEST_SAMPLES] * 2
        first = len(cases)
        both |= {"baseline": first + 1, "useful_flops": 2 * alone["useful_flops"]}
        both |= {"components": {"computation": None, "communication": first + 2}}
        cases += [both, alone, alone | sends]
    return model_record(parallel=kind, **changes) | {"world_size": 2, "cases": cases}


def skipped(record, *names):
    """The same job where some passes do not fit."""
    lacking = {"status": "skipped", "reason": "needs 32 GB, 24 GB there", "samples_s": [], "details": {}}
    cases = [each | (lacking if each["labels"]["pass"] in names else {}) for each in record["cases"]]
    return record | {"cases": cases}


def failed(record, status):
    """The same job without any case."""
    return record | {"status": status, "cases": [], "error": {"message": "it is full", "rank": 0}}


def made():
    big = skipped(model_record("2.7B", 128, 1.0), "forward_backward", "train_step")
    return [big, *(model_record("tiny", context, context * 1e-5) for context in (128, 64, 32))]


@pytest.fixture(scope="module")
def table():
    return tabulate_records(made())


def summary(records):
    return texts_of(tabulate_records(records))[SUMMARY]


def complete(text):
    [rows] = section(text, "Complete Results").values()
    return rows


def test_summary_of_models(golden, table):
    text = texts_of(table)[SUMMARY]
    head, results = text.split("## Complete Results")
    golden(head + results[results.index("## Forward-Only") :], NARROW)
    rows = complete(text)
    assert [(row["model"], row["context"], row["pass"]) for row in rows] == [
        *(("tiny", context, name) for context in ("32", "64", "128") for name in SHARES),
        *(("2.7B", "128", name) for name in SHARES),
    ]
    shown = {
        "median [ms]": 5.12, "mean [ms]": 5.12, "forward [ms]": 1.28, "loss [ms]": 0.64, "backward [ms]": 1.92,
        "optimizer [ms]": 1.28, "MFU full [%]": 31.25, "MFU causal [%]": 28.125, "peak memory [MiB]": 300,
        "tokens/s": 1e5, "TFLOP/s": 0.9375, "backward/forward": 1.5,
    }  # fmt: skip
    assert {name: float(rows[8][name]) for name in shown} == pytest.approx(shown, rel=1e-3)
    assert (rows[10]["status"], rows[10]["median [ms]"]) == ("skipped", "")
    assert rows[10]["reason"]
    assert [len(rows) for rows in section(text, "Results by Model Size").values()] == [9, 3]


def test_csv_has_plain_numbers(table):
    rows = list(csv.DictReader(io.StringIO(texts_of(table)["transformer.csv"])))
    numbers = {
        "median_s": 5.12e-3,
        "optimizer_s": 1.28e-3,
        "peak_bytes": 300 * 2**20,
        "mfu_full": 4.8e9 / 5.12e-3 / 3e12,
    }
    assert {name: float(rows[8][name]) for name in numbers} == pytest.approx(numbers)
    assert (len(rows), rows[8]["context_length"], rows[10]["median_s"]) == (12, "128", "")


def test_failed_job_hides_no_time():
    other = failed(model_record("tiny", 64), "crash") | {"point_id": "of other limits"}
    text = summary([*made(), failed(model_record("2.7B", 64), "oom"), other])
    forward, *later = section(text, PIVOT).values()
    assert [(row["tiny"], row["2.7B"]) for row in forward] == [("0.32", ""), ("0.64", "oom"), ("1.28", "1000")]
    assert all(rows[1]["2.7B"] == "oom" for rows in later)
    [rows] = section(text, "Summary Statistics").values()
    assert (rows[-1]["pass"], rows[-1]["measured"], rows[-1]["failed"]) == ("all", "0", "2")


def test_failed_job_belongs_to_its_rank_count():
    pivots = section(summary([shared_record(), failed(shared_record(context_length=512), "crash")]), PIVOT)
    assert [row["tiny"] for row in pivots["forward [ms], ranks 1"]] == ["1"]
    assert [row["tiny"] for row in pivots["forward [ms], ranks 2"]] == ["1.25", "crash"]


def test_point_takes_median_over_runs():
    again = model_record("tiny", 64, 9e-3) | {"started_at": "2026-02-01T00:00:00.000+00:00", "run": "b"}
    rows = complete(summary([again, model_record("tiny", 64, 64e-5)]))
    assert [row["median [ms]"] for row in rows] == ["4.82", "14.46", "19.28"]
    assert rows[0]["range [ms]"].startswith("(")
    rows = complete(summary([failed(again, "crash"), model_record("tiny", 64, 64e-5)]))
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "crash"]


def test_several_warmup_counts_have_a_table(table):
    title = "Effect of Number of Warmup Runs"
    assert title not in texts_of(table)[SUMMARY]
    records = [model_record("tiny", 64, 64e-5)]
    for count, seconds in ((0, 2e-3), (1, 1e-3)):
        record = model_record("tiny", 64, seconds)
        record["config"] = record["config"] | {"measure": record["config"]["measure"] | {"warmup_iterations": count}}
        records.append(record | {"point_id": f"{record['point_id']}-{count}"})
    [rows] = section(summary(records), title).values()
    assert [row["pass"] for row in rows] == list(SHARES)
    shown = {name: cell.split(" [")[0] for name, cell in rows[0].items() if "warm-up" in name}
    assert shown == {"0 warm-ups [ms]": "2", "1 warm-up [ms]": "1", "5 warm-ups [ms]": "0.64"}


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_batches_share_tables_and_other_settings_split_them():
    others = [model_record("tiny", context, 5e-3, batch_size=8) for context in (64, 32)]
    halves = [replace_dtype(each) for each in others]
    text = summary([*made(), *others, *halves])
    assert list(section(text, "Summary Statistics")) == ["dtype bfloat16", "dtype float32"]
    assert len(section(text, "Results by Model Size")) == 3
    rows = section(text, PIVOT)["forward [ms], dtype float32"]
    assert [row["tiny"] for row in rows if row["batch"] == "8"] == ["5", "5"]
    assert {row["batch"] for row in rows} == {"4", "8"}


def replace_dtype(record):
    return record | {"config": record["config"] | {"dtype": "bfloat16"}, "point_id": record["point_id"] + "b"}


def test_settings_with_few_values_are_lines():
    others = [model_record("tiny", context, 5e-3, batch_size=8) for context in (64, 32)]
    table = tabulate_records([*made(), *others])
    names, figures = drawn(table, "transformer_step_time.png", "transformer_phases.png")
    assert {name for name in names if name.startswith("transformer")} == FIGURES
    lines = {each.get_label(): each[0] for each in figures["transformer_step_time.png"].axes[0].containers}
    assert legend_of(figures["transformer_step_time.png"]) == [
        "tiny, batch 4", "tiny, batch 8", "2.7B, batch 4"
    ]  # fmt: skip
    assert list(lines["tiny, batch 4"].get_xdata()) == [32, 64, 128]
    assert list(lines["tiny, batch 8"].get_ydata()) == pytest.approx([5, 5])
    [tiny] = figures["transformer_phases.png"].axes  # of train_step, which the larger model has not
    assert tiny.get_yticklabels()[0].get_text() == "batch 4, 32 tokens"


def test_settings_with_many_values_split_figures():
    """Six batch sizes and three types would be 18 lines."""
    types = ("float32", "bfloat16", "float16")
    some = [
        model_record("tiny", 32, 5e-3, ("forward",), batch_size=size, dtype=dtype)
        for size in range(1, 7) for dtype in types
    ]  # fmt: skip
    names, figures = drawn(tabulate_records(some), "transformer_step_time_batch_size-1.png")
    assert [name for name in names if name.startswith("transformer_step_time")] == [
        f"transformer_step_time_batch_size-{size}.png" for size in range(1, 7)
    ]
    [figure] = figures.values()
    assert {text.get_text() for text in figure.axes[0].get_yticklabels()} == set(types)


def test_many_bars_keep_longest_contexts():
    contexts = [2**power for power in range(5, 12)]
    some = [
        model_record("tiny", context, 5e-3, ("forward",), batch_size=size)
        for context in contexts for size in range(1, 7)
    ]  # fmt: skip
    figure = drawn(tabulate_records(some), "transformer_mfu.png")[1]["transformer_mfu.png"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        f"batch {size}, 2048 tokens" for size in range(1, 7)
    ]


def test_memory_of_gpu_has_columns():
    record = model_record(passes=("forward",))
    record["cases"][0]["details"] |= {"reserved_bytes": 500 * 2**20, "outside_bytes": 100 * 2**20}
    [row] = complete(summary([record]))
    shown = [row[name] for name in ("peak memory [MiB]", "reserved [MiB]", "outside torch [MiB]")]
    assert shown == ["300", "500", "100"]
    assert "reserved [MiB]" not in complete(summary([model_record(passes=("forward",))]))[0]


def jsons(folder, *records):
    return {name: json.loads(text) for name, text in exported(folder, "cs336", *records).items()}


def test_each_measured_pass_has_json(tmp_path):
    big, _, tiny, _ = made()
    looped = big["cases"][0]
    looped |= {"blocks": [1], "regions_s": {}, "start_offsets_s": None}
    looped |= {"calls_per_sample": 3, "samples_s": [row[:1] for row in looped["samples_s"]]}
    found = jsons(tmp_path, big, tiny)
    assert set(found) == {
        *(f"bench_tiny_ctx64_{name}.json" for name in ("fwd", "fwd_bwd", "train")), "bench_2.7B_ctx128_fwd.json"
    }  # fmt: skip
    content = found["bench_tiny_ctx64_fwd_bwd.json"]
    times = content.pop("trial_times_ms")
    assert len(times) == FEWEST_SAMPLES
    assert content.pop("mean_time_ms") == pytest.approx(1.92)
    assert content.pop("std_time_ms") == pytest.approx(np.std(times, ddof=1))
    assert content == {
        "model_size": "tiny", "vocab": 10000, "context_length": 64, "d_model": 64, "d_ff": 256, "num_layers": 2,
        "num_heads": 4, "batch_size": 4, "num_steps": 1, "num_warmups": 1, "num_trials": FEWEST_SAMPLES,
        "forward_only": False,
        "device": "cpu", "pass": "forward_backward",
    }  # fmt: skip
    looped_json = found["bench_2.7B_ctx128_fwd.json"]
    assert looped_json["trial_times_ms"] == pytest.approx([3 * 1e3 * looped["samples_s"][0][0]])
    assert (looped_json["std_time_ms"], looped_json["num_steps"], looped_json["forward_only"]) == (None, 3, True)


def test_json_tells_ranks_vocabularies_and_runs_apart(tmp_path):
    record, other = shared_record(), model_record("tiny", 64, passes=("forward",))
    record["cases"][0]["samples_s"] = [[1e-3] * FEWEST_SAMPLES, [2e-3] * FEWEST_SAMPLES]
    found = jsons(tmp_path / "ranks", record)
    assert len(found) == 6
    assert found["bench_tiny_ctx128_fwd_ranks-2.json"]["trial_times_ms"] == [2.0] * FEWEST_SAMPLES
    other["config"]["model"]["vocab_size"] = 32000
    found = jsons(tmp_path / "sizes", model_record(passes=("forward",)), other)
    assert set(found) == {
        "bench_tiny-vocab_size-10000_ctx128_fwd.json", "bench_tiny-vocab_size-32000_ctx64_fwd.json"
    }  # fmt: skip
    record = model_record("tiny", 64, passes=("forward",))
    found = jsons(tmp_path / "runs", record, record | {"started_at": "2026-02-01T00:00:00.000+00:00"})
    assert sorted(found) == ["bench_tiny_ctx64_fwd.json", "bench_tiny_ctx64_fwd_2.json"]


def test_parallel_ranks_report_scaling():
    table = tabulate_records([shared_record()])
    both = section(texts_of(table)[SUMMARY], "Results by Model Size")["tiny (1.411 M parameters), ranks 2"]
    assert [row["scaling efficiency [%]"] for row in both] == ["80", "80", "80"]
    assert [row["communication share [%]"] for row in both] == ["20", "6.667", "5"]  # and no row of it alone
    names, figures = drawn(table, "transformer_scaling.png")
    assert set(names) >= FIGURES | set(figures)
    widths = [patch.get_width() for patch in figures["transformer_scaling.png"].axes[0].patches]
    assert widths == pytest.approx([80, 20])


def test_plots_match_table_rows(table):
    names, figures = drawn(table, *FIGURES)
    assert set(figures) == FIGURES
    assert "transformer_scaling.png" not in names  # one rank alone has none
    panels = figures["transformer_step_time.png"].axes
    assert [panel.get_title() for panel in panels] == list(SHARES)
    assert legend_of(figures["transformer_step_time.png"]) == ["tiny", "2.7B"]
    tiny = panels[2].get_lines()[0]
    assert list(tiny.get_xdata()) == [32, 64, 128]
    assert list(tiny.get_ydata()) == pytest.approx([1.28, 2.56, 5.12])
    assert panels[0].get_ylabel().endswith("[ms]")
    mfu = figures["transformer_mfu.png"].axes[2]
    assert [patch.get_width() for patch in mfu.patches][:3] == pytest.approx([125, 62.5, 31.25])
    assert mfu.patches[5].get_width() == pytest.approx(31.25 * 0.9)  # of the pairs seen
    [phases] = figures["transformer_phases.png"].axes  # of train_step, which the larger model has not
    assert phases.get_title() == "tiny"
    assert max(patch.get_x() + patch.get_width() for patch in phases.patches) == pytest.approx(5.12)


def test_one_cell_gets_every_plot():
    _, figures = drawn(tabulate_records([model_record()]), *FIGURES)
    assert set(figures) == FIGURES
    for figure in figures.values():
        figure.canvas.draw()


def test_report_works_without_details():
    records = [model_record("2.7B", 64), model_record("tiny", 64)]
    for record in records:
        for each in record["cases"]:
            each |= {"details": {}, "regions_s": {}}
    table = tabulate_records(records)
    assert not {"peak_bytes", "parameters", "optimizer_s", "peak_from"} & set(table)
    assert list(section(texts_of(table)[SUMMARY], "Results by Model Size")) == ["tiny", "2.7B"]  # by their sizes
    names, _ = drawn(table)
    assert [name for name in names if name.startswith("transformer")] == ["transformer_step_time.png"]


def test_other_suites_are_ignored(table):
    mixed = tabulate_records([make_record(), *made(), make_record(10.0)])
    assert texts_of(mixed)[SUMMARY] == texts_of(table)[SUMMARY]
    other = tabulate_records([make_record()])
    assert not {SUMMARY, "transformer.csv"} & set(texts_of(other))

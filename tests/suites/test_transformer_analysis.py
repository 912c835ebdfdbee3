"""Tables, JSON files and plots of language models' step times."""

import csv
import io
import json
import re

import numpy as np
import pytest
from analysis.__main__ import main
from analysis.records.harvest import harvest
from analysis.report.discover import draw_all
from analysis.report.discover import write_all as tables_of
from analysis.report.sentences import describe
from analysis.suites.transformer import cs336_json
from analysis.suites.transformer import rows as transformer
from analysis.suites.transformer import table as transformer_summary
from analysis.table import combine
from benchkit.statistics.intervals import FEWEST_SAMPLES

from tests.support.markdown import section
from tests.support.records import make_record, tabulate_records, write_all

SIZES = {"tiny": (64, 256, 2, 4, 1_411_392), "2.7B": (2560, 10240, 32, 32, 3_406_809_600)}
SHARES = {"forward": 1.0, "forward_backward": 3.0, "train_step": 4.0}
"""Of each pass the time, in forwards."""
REGIONS = {"forward": 1.0, "loss": 0.5, "backward": 1.5, "optimizer": 1.0}
FIGURES = {f"transformer_{name}" for name in ("step_time", "tokens_per_second", "memory", "mfu", "phases")}
SUMMARY = "benchmark_summary.md"


def case(base, name, seconds, ranks, parameters, **changes):
    """A pass on so many ranks: forward takes a quarter of a training step, the optimizer another."""
    phases = list(REGIONS)[: {"forward": 1, "forward_backward": 3, "train_step": 4}[name]]
    scaled = lambda share: [[share * seconds / 1e-3 * each for each in row] for row in base["samples_s"]]  # noqa: E731
    details = {
        "tokens_per_call": 512, "parameters": parameters, "causal_flops": 1.08e9 * SHARES[name],
        "peak_tflop_per_s": 3.0, "peak_from": "data sheet of X", "peak_bytes": 3 * 10**9,
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
    record["config"] = {
        name: value for name, value in record["config"].items() if name not in ("data_size", "reduce_op")
    }
    sizes = dict(zip(names, dimensions, strict=True)) | {"vocab_size": 10000}
    record["config"] |= {
        "suite": "transformer", "model": sizes | {"name": model},
        "context_length": context, "batch_size": 4, "dtype": "float32", "parallel": "none",
    } | changes  # fmt: skip
    return record | {"suite": "transformer", "point_id": json.dumps([model, context, changes])}


def warmed(record, count):
    """The record of a job with so many warm-ups."""
    record["config"] = record["config"] | {"measure": record["config"]["measure"] | {"warmup_iterations": count}}
    return record | {"point_id": f"{record['point_id']}-{count}"}


def shared_record(kind="ddp"):
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
    return model_record(parallel=kind) | {"world_size": 2, "cases": cases}


def skipped(record, *names):
    """The same job where some passes do not fit."""
    lacking = {"status": "skipped", "reason": "needs 32 GB, 24 GB there", "samples_s": [], "details": {}}
    cases = [each | (lacking if each["labels"]["pass"] in names else {}) for each in record["cases"]]
    return record | {"cases": cases}


def failed(record, status):
    """The same job without any case."""
    return record | {"status": status, "cases": [], "error": {"message": "it is full", "rank": 0}}


@pytest.fixture
def records():
    big = skipped(model_record("2.7B", 128, 1.0), "forward_backward", "train_step")
    return [big, *(model_record("tiny", context, context * 1e-5) for context in (128, 64, 32))]


def summary(records):
    return transformer_summary.write(tabulate_records(records))[SUMMARY]


def test_results_list_every_case_by_model_size(records):
    text = summary(records)
    [rows] = section(text, "Complete Results").values()
    assert [(row["model"], row["context"], row["pass"]) for row in rows] == [
        *(("tiny", context, name) for context in ("32", "64", "128") for name in SHARES),
        *(("2.7B", "128", name) for name in SHARES),
    ]
    step = rows[8]
    assert (step["parameters"], rows[9]["parameters"]) == ("1.411 M", "3.407 B")
    assert step["95 % interval [ms]"].startswith("[5.0")
    shown = {name: float(value) for name, value in step.items() if name.endswith("]") and "interval" not in name}
    assert shown == pytest.approx({
        "median [ms]": 5.12, "mean [ms]": 5.12, "std [ms]": shown["std [ms]"], "forward [ms]": 1.28, "loss [ms]": 0.64,
        "backward [ms]": 1.92, "optimizer [ms]": 1.28, "MFU full [%]": 31.25, "MFU causal [%]": 28.125,
        "peak memory [GB]": 3.0,
    }, rel=1e-3)  # fmt: skip
    assert (step["tokens/s"], step["TFLOP/s"], step["backward/forward"]) == ("100000", "0.9375", "1.5")
    assert step["status"] == "ok"
    assert (rows[10]["status"], rows[10]["reason"], rows[10]["median [ms]"]) == (
        "skipped", "needs 32 GB, 24 GB there", ""
    )  # fmt: skip
    assert "MFU is told against: data sheet of X; full counts every pair" in text
    assert "All rows: device cpu, dtype float32, batch_size 4, parallel none, ranks 1." in text


def test_models_have_separate_tables(records):
    tables = section(summary(records), "Results by Model Size")
    assert list(tables) == ["tiny (1.411 M parameters)", "2.7B (3.407 B parameters)"]
    assert [len(rows) for rows in tables.values()] == [9, 3]


def test_passes_are_not_alternatives():
    assert "fastest" not in describe(tabulate_records([shared_record(), model_record("tiny", 64)]))


def test_passes_compare_when_both_measured(records):
    [rows] = section(summary(records), "Forward-Only vs Forward+Backward").values()
    assert [(row["model"], row["context"]) for row in rows] == [("tiny", "32"), ("tiny", "64"), ("tiny", "128")]
    assert rows[2] == {
        "model": "tiny", "context": "128", "forward [ms]": "1.28", "forward+backward [ms]": "3.84", "ratio": "3",
        "train step [ms]": "5.12", "optimizer [ms]": "1.28", "optimizer share [%]": "25",
    }  # fmt: skip


def test_statistics_count_and_name_extremes(records):
    [rows] = section(summary(records), "Summary Statistics").values()
    forward, backward, step = rows
    assert (forward["measured"], forward["skipped"], forward["failed"]) == ("4", "0", "0")
    assert (backward["measured"], backward["skipped"], backward["failed"]) == ("3", "1", "0")
    assert (forward["fastest [ms]"], forward["slowest [ms]"]) == ("0.32 (tiny, 32)", "1000 (2.7B, 128)")
    assert step["highest tokens/s"] == "400000 (tiny, 32)"
    assert step["highest MFU full [%]"] == "125 (tiny, 32)"


def test_pivot_shows_status_without_time(records):
    tables = section(summary(records), "Median step time by context and model")
    assert list(tables) == [f"{name} [ms]" for name in SHARES]
    assert tables["train_step [ms]"] == [
        {"context": "32", "tiny": "1.28", "2.7B": ""}, {"context": "64", "tiny": "2.56", "2.7B": ""},
        {"context": "128", "tiny": "5.12", "2.7B": "skipped"},
    ]  # fmt: skip


def test_failed_job_appears_in_every_pass(records):
    records.append(failed(model_record("2.7B", 64), "oom"))
    text = summary(records)
    for rows in section(text, "Median step time by context and model").values():
        assert [row["2.7B"] for row in rows][:2] == ["", "oom"]
    [rows] = section(text, "Summary Statistics").values()
    assert (rows[-1]["pass"], rows[-1]["measured"], rows[-1]["failed"]) == ("all", "0", "1")
    alone = summary(records[-1:])
    assert "## Complete Results" in alone
    assert "it is full" in alone
    assert "Forward-Only" not in alone


def test_failed_job_hides_no_time(records):
    other = failed(model_record("tiny", 64), "crash") | {"point_id": "of other limits"}
    pivots = section(summary([*records, other]), "Median step time by context and model")
    assert [row["tiny"] for row in pivots["forward [ms]"]] == ["0.32", "0.64", "1.28"]


def test_failed_job_belongs_to_its_rank_count():
    larger = failed(shared_record(), "crash")
    larger["config"] = larger["config"] | {"context_length": 512}
    pivots = section(summary([shared_record(), larger]), "Median step time by context and model")
    assert [row["tiny"] for row in pivots["forward [ms], ranks 1"]] == ["1"]
    assert [row["tiny"] for row in pivots["forward [ms], ranks 2"]] == ["1.25", "crash"]


def test_point_takes_median_over_runs(records):
    again = model_record("tiny", 64, 9e-3) | {"started_at": "2026-02-01T00:00:00.000+00:00", "run": "b"}
    [rows] = section(summary([again, *records]), "Complete Results").values()
    assert [row["median [ms]"] for row in rows if row["context"] == "64"] == ["4.82", "14.46", "19.28"]
    shown = [row["95 % interval or range of runs [ms]"] for row in rows if row["context"] == "64"]
    assert shown[0] == "2 runs: 0.6 to 9.0"
    [rows] = section(summary([failed(again, "crash"), *records]), "Complete Results").values()
    found = [(row["pass"], row["status"]) for row in rows if row["context"] == "64"]
    assert found == [("forward", "ok"), ("forward_backward", "ok"), ("train_step", "ok"), ("all", "crash")]


def test_warmup_table_needs_several_counts(records):
    assert "Number of Warmup Runs" not in summary(records)
    more = [warmed(model_record("tiny", 64, seconds), count) for count, seconds in ((0, 2e-3), (10, 1e-3))]
    few = warmed(model_record("tiny", 64, 7e-3, ("forward",), batch_size=8), 10)
    for each in few["cases"]:
        each["samples_s"] = [row[:5] for row in each["samples_s"]]
        each["start_offsets_s"] = [row[:5] for row in each["start_offsets_s"]]
    [rows] = section(summary([*records, *more, few]), "Effect of Number of Warmup Runs").values()
    assert [row["pass"] for row in rows] == list(SHARES)
    assert [name for name in rows[0] if "warm-ups" in name] == [f"{n} warm-ups [ms]" for n in (0, 5, 10)]
    assert [rows[0][f"{n} warm-ups [ms]"].split(" [")[0] for n in (0, 5, 10)] == ["2", "0.64", "1"]
    assert re.fullmatch(r"2 \[1.9\d+, 2.0\d+\]", rows[0]["0 warm-ups [ms]"])


def test_tables_split_by_batch_size(records):
    others = [model_record("tiny", context, 5e-3, batch_size=8) for context in (64, 32)]
    text = summary([*records, *others])
    for title in ("Forward-Only vs Forward+Backward", "Summary Statistics"):
        assert list(section(text, title)) == ["batch_size 4", "batch_size 8"]
    assert list(section(text, "Results by Model Size"))[:2] == [
        f"tiny (1.411 M parameters), batch_size {size}" for size in (4, 8)
    ]
    pivots = section(text, "Median step time by context and model")
    assert [row["tiny"] for row in pivots["forward [ms], batch_size 8"]] == ["5", "5"]
    [rows] = section(text, "Complete Results").values()
    assert {row["batch"] for row in rows} == {"4", "8"}


def lines_of(figure, panel=0):
    """The lines of a panel by name: {context: value}."""
    lines = {each.get_label(): each[0] for each in figure.axes[panel].containers}
    return {name: dict(zip(*line.get_data(), strict=True)) for name, line in lines.items()}


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_settings_with_few_values_are_lines(records):
    others = [model_record("tiny", context, 5e-3, batch_size=8) for context in (64, 32)]
    figures = dict(draw_all(tabulate_records([*records, *others]), None))
    assert {name for name in figures if name.startswith("transformer")} == {f"{name}.png" for name in FIGURES}
    figure = figures["transformer_step_time.png"]
    names = ["tiny, batch_size 4", "tiny, batch_size 8", "2.7B, batch_size 4"]
    assert legend_of(figure) == names
    lines = lines_of(figure)
    assert list(lines[names[0]]) == [32, 64, 128]
    assert lines[names[1]] == pytest.approx({32: 5.0, 64: 5.0})
    [tiny] = figures["transformer_phases.png"].axes  # of train_step, which the larger model has not
    assert [label.get_text() for label in tiny.get_yticklabels()][:2] == [
        "batch_size 4, 32 tokens", "batch_size 4, 64 tokens"
    ]  # fmt: skip


def test_lines_of_one_model_have_names_of_settings():
    both = [model_record("tiny", context, 5e-3, batch_size=size) for size in (4, 8) for context in (64, 32)]
    figures = dict(draw_all(tabulate_records(both), None))
    assert legend_of(figures["transformer_step_time.png"]) == ["batch_size 4", "batch_size 8"]


@pytest.mark.slow
def test_settings_with_many_values_split_figures():
    """Six batch sizes and three types would be 18 lines."""
    types = ("float32", "bfloat16", "float16")
    some = [
        model_record("tiny", context, 5e-3, batch_size=size, dtype=dtype)
        for context in (32, 64) for size in range(1, 7) for dtype in types
    ]  # fmt: skip
    figures = dict(draw_all(tabulate_records(some), None))
    drawn = [name for name in figures if name.startswith("transformer_step_time")]
    assert drawn == [f"transformer_step_time_batch_size-{size}.png" for size in range(1, 7)]
    assert legend_of(figures[drawn[0]]) == ["bfloat16", "float16", "float32"]


def test_many_bars_keep_longest_contexts():
    contexts = [2**power for power in range(5, 12)]
    some = [model_record("tiny", context, 5e-3, batch_size=size) for context in contexts for size in range(1, 7)]
    figure = dict(draw_all(tabulate_records(some), None))["transformer_mfu.png"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [f"batch_size {size}, 2048 tokens" for size in range(1, 7)]
    assert "longest context of each line" in " ".join(text.get_text() for text in figure.texts)


def test_csv_has_plain_numbers(records):
    rows = list(csv.DictReader(io.StringIO(transformer.write(tabulate_records(records))["transformer.csv"])))
    assert len(rows) == 12
    step = rows[8]
    numbers = {"median_s": 5.12e-3, "optimizer_s": 1.28e-3, "peak_bytes": 3e9, "mfu_full": 4.8e9 / 5.12e-3 / 3e12}
    assert {name: float(step[name]) for name in numbers} == pytest.approx(numbers)
    assert (step["dtype"], step["context_length"], step["status"]) == ("float32", "128", "ok")
    assert (rows[10]["median_s"], rows[10]["reason"]) == ("", "needs 32 GB, 24 GB there")


def test_memory_of_gpu_has_columns(records):
    shared = "peak memory [GB]"
    before = transformer_summary.write(tabulate_records(records))[SUMMARY]
    for each in records[0]["cases"]:
        each["details"] |= {"reserved_bytes": 5 * 10**9, "outside_bytes": 10**9}
    after = transformer_summary.write(tabulate_records(records))[SUMMARY]
    heads = ("reserved [GB]", "outside torch [GB]")
    assert [head in before for head in (shared, *heads)] == [True, False, False]
    assert [head in after for head in (shared, *heads)] == [True, True, True]


def test_each_measured_pass_has_json(records, tmp_path):
    looped = records[0]["cases"][0]
    looped |= {"blocks": [1], "regions_s": {}, "start_offsets_s": None}
    looped |= {"calls_per_sample": 3, "samples_s": [row[:1] for row in looped["samples_s"]]}
    found = cs336_json.export(combine(harvest([write_all(tmp_path, records)]).rows))
    tiny = {f"bench_tiny_ctx{n}_{name}.json" for n in (32, 64, 128) for name in ("fwd", "fwd_bwd", "train")}
    assert set(found) == tiny | {"bench_2.7B_ctx128_fwd.json"}
    content = json.loads(found["bench_tiny_ctx64_fwd_bwd.json"])
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
    big = json.loads(found["bench_2.7B_ctx128_fwd.json"])
    assert big["trial_times_ms"] == pytest.approx([3 * 1e3 * looped["samples_s"][0][0]])
    assert (big["std_time_ms"], big["num_steps"], big["forward_only"]) == (None, 3, True)


def test_each_run_has_json(records, tmp_path):
    for run, seconds in (("a", 1e-3), ("b", 2e-3)):
        write_all(tmp_path / run, [model_record("tiny", 64, seconds, ("forward",))])
    found = cs336_json.export(combine(harvest([tmp_path]).rows))
    assert sorted(found) == ["bench_tiny_ctx64_fwd.json", "bench_tiny_ctx64_fwd_2.json"]
    trials = [json.loads(found[name])["mean_time_ms"] for name in sorted(found)]
    assert trials[1] == pytest.approx(2 * trials[0])


def test_json_splits_ranks_and_takes_slowest(tmp_path):
    record = shared_record()
    record["cases"][0]["samples_s"] = [[1e-3] * FEWEST_SAMPLES, [2e-3] * FEWEST_SAMPLES]
    found = cs336_json.export(combine(harvest([write_all(tmp_path, [record])]).rows))
    assert len(found) == 6
    assert json.loads(found["bench_tiny_ctx128_fwd_ranks-2.json"])["trial_times_ms"] == [2.0] * FEWEST_SAMPLES
    assert json.loads(found["bench_tiny_ctx128_fwd_ranks-1.json"])["mean_time_ms"] == pytest.approx(1)


def test_json_names_are_plain(tmp_path):
    other = model_record("tiny", 64, passes=("forward",))
    other["config"]["model"]["vocab_size"] = 32000
    found = cs336_json.export(combine(harvest([write_all(tmp_path, [model_record(), other])]).rows))
    assert "bench_tiny-vocab_size-32000_ctx64_fwd.json" in found
    assert len(found) == 4


def test_parallel_ranks_report_scaling(records):
    text = summary([shared_record(), *records])
    tables = section(text, "Results by Model Size")
    both = tables["tiny (1.411 M parameters), world_size 2, parallel ddp, ranks 2"]
    assert [row["scaling efficiency [%]"] for row in both] == ["80", "80", "80"]
    assert [row["communication share [%]"] for row in both] == ["20", "6.667", "5"]
    assert len(both) == 3  # communication alone is no row
    figures = dict(draw_all(tabulate_records([shared_record()]), None))
    assert {f"{name}.png" for name in (*FIGURES, "transformer_scaling")} <= set(figures)  # one rank alone has none
    widths = [patch.get_width() for patch in figures["transformer_scaling.png"].axes[0].patches]
    assert widths == pytest.approx([80, 20])


def test_one_cell_gets_every_plot(records):
    for some in (records, records[1:2]):
        figures = dict(draw_all(tabulate_records(some), None))
        assert {f"{name}.png" for name in FIGURES} <= set(figures)
        assert "transformer_scaling.png" not in figures
        for name in FIGURES:
            figures[f"{name}.png"].canvas.draw()


def test_plots_match_table_rows(records):
    figures = dict(draw_all(tabulate_records(records), None))
    panels = figures["transformer_step_time.png"].axes
    assert [panel.get_title() for panel in panels] == list(SHARES)
    assert [entry.get_text() for entry in figures["transformer_step_time.png"].legends[0].get_texts()] == [
        "tiny",
        "2.7B",
    ]
    tiny = panels[2].get_lines()[0]
    assert list(tiny.get_xdata()) == [32, 64, 128]
    assert list(tiny.get_ydata()) == pytest.approx([1.28, 2.56, 5.12])
    assert panels[0].get_ylabel() == "time of one step [ms]"
    full = [patch.get_width() for patch in figures["transformer_mfu.png"].axes[2].patches]
    assert full[:3] == pytest.approx([125, 62.5, 31.25])
    marks = figures["transformer_mfu.png"].axes[2].get_lines()[0].get_xdata()
    assert marks[2] == pytest.approx(31.25 * 0.9)
    [phases] = figures["transformer_phases.png"].axes  # of train_step, which the larger model has not
    assert phases.get_title() == "tiny"
    assert max(patch.get_x() + patch.get_width() for patch in phases.patches) == pytest.approx(5.12)


def test_report_works_without_details(records):
    for record in records:
        for each in record["cases"]:
            each |= {"details": {}, "regions_s": {}}
    table = tabulate_records(records)
    assert not {"peak_bytes", "parameters", "optimizer_s", "peak_from"} & set(table)
    text = transformer_summary.write(table)[SUMMARY]
    assert "no known peak" in text
    assert list(section(text, "Results by Model Size")) == ["tiny", "2.7B"]  # by their sizes
    figures = {name for name in dict(draw_all(table, None)) if name.startswith("transformer")}
    assert figures == {"transformer_step_time.png"}


def test_other_suites_are_ignored(records):
    mixed = tabulate_records([make_record(), *records, make_record(10.0)])
    assert transformer_summary.write(mixed) == transformer_summary.write(tabulate_records(records))
    assert "ranks 1." in transformer_summary.write(mixed)[SUMMARY]
    other = tabulate_records([make_record()])
    assert [module.write(other) for module in (transformer, transformer_summary)] == [{}, {}]
    assert cs336_json.export(other) == {}
    assert not [name for name in dict(draw_all(other, None)) if name.startswith("transformer")]


def test_report_writes_all_files(records, tmp_path, capsys):
    place = write_all(tmp_path, [*records, shared_record()])
    assert main([str(place)]) == 0
    written = {str(path.relative_to(place / "analysis")) for path in (place / "analysis").rglob("*.*")}
    names = dict(tables_of(combine(harvest([place]).rows)))
    assert {SUMMARY, "transformer.csv"} <= set(names)
    assert set(names) <= written
    assert "train_step" in capsys.readouterr().out

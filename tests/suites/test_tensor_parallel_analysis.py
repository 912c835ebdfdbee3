"""Overlap, limits, the best of a job, and the plots and the table of tensor-parallel products."""

import csv
import io
from statistics import median

import pytest
from analysis.records.columns import COMPARISONS, names_of
from analysis.records.derive import derive_result
from analysis.screen.screen import screen_of
from analysis.suites.tensor_parallel.summary import name_of
from analysis.suites.tp_columnwise.table import show
from analysis.table.variants import compare_suites

from tests.support.records import (
    as_record,
    having,
    make_record,
    tabulate_records,
    without,
)
from tests.support.reports import NARROW, drawn, exported, texts_of

TIMES = {
    "compute_only sharded": 6e-3, "comm_only AG_after default": 4e-3, "pytorch AG_before": 14e-3,
    "pytorch AG_after": 10e-3, "pipeline AG_after": 7e-3, "auto": 7.7e-3,
}  # fmt: skip
WINNER, LIMIT = "tp_columnwise_winner.png", "tp_columnwise_limit.png"
COMPUTATION, COMMUNICATION, BASELINE, *_, AUTO = range(len(TIMES))
"""Positions of its cases."""
COMPONENTS = {"computation": COMPUTATION, "communication": COMMUNICATION}

COMPARED = names_of(COMPARISONS)[:15]  # without those of ranks that are fresh


def product_record(m=1024, n=512, k=256, suite="tp_columnwise", times=TIMES):
    """A job whose components take 6 and 4 ms: 10 one after the other, 7 in a pipeline."""
    record = make_record()
    [base] = record["cases"]
    cases = []
    for name in TIMES:
        implementation, *order = name.split()
        component = implementation.endswith("_only")
        alone = component or order == ["AG_before"]
        option = "size" if implementation == "compute_only" else "order"
        scale = times.get(name, 1.0) / 1e-3
        labels = {"implementation": implementation, "comm_backend": "default"} | ({option: order[0]} if order else {})
        labels |= {"chunks": 4} if implementation == "pipeline" else {}
        cases.append(base | {
            "labels": labels,
            "samples_s": [[scale * sample for sample in row] for row in base["samples_s"]],
            "elapsed_s": scale * base["elapsed_s"], "is_component": component, "payload_bytes": None,
            "baseline": None if alone else BASELINE, "components": {} if alone else COMPONENTS,
            "useful_flops": None if implementation == "comm_only" else 2.0 * m * n * k, "bus_factor": None,
            "executed_flops": 4.0 * m * n * k, "wire_bytes": 1000, "details": {"chosen": "pipeline AG_after 4 chunks"},
        })  # fmt: skip
    record["config"] |= {"suite": suite, "m": m, "n": n, "k": k, "implementations": {"pytorch": {}}}
    record["config"].pop("data_size")
    unknown = [position for position, name in enumerate(TIMES) if name not in times]
    made = {"suite": suite, "title": suite, "cases": without(cases, *unknown), "point_id": f"{m}-{n}-{k}"}
    return record | made


def figures(record):
    """What was derived of each case from others of its job."""
    return [{name: row.get(name) for name in COMPARED} for row in derive_result(as_record(record)).rows()]


def test_overlap_is_hidden_share_of_shorter_part():
    *_, before, after, pipeline, _ = figures(product_record())
    assert pipeline["overlap"] == pytest.approx(0.75)
    assert after["overlap"] == pytest.approx(0.0)
    assert before["overlap"] is None  # its parts were not measured
    assert pipeline["overlap_low"] <= 0.75 <= pipeline["overlap_high"]


def test_figures_give_limit_share_and_regret():
    computation, *_, pipeline, auto = figures(product_record())
    assert pipeline["limit_share"] == pytest.approx(6 / 7)
    assert pipeline["regret"] == 0
    assert auto["regret"] == pytest.approx(0.1)
    assert computation == dict.fromkeys(COMPARED)


def test_regret_spans_all_backends():
    """Each backend has its own baseline."""
    record = product_record()
    cases = []
    for backend, factor in (("gloo", 1), ("nccl", 0.5)):
        first = len(cases)
        for case in record["cases"]:
            samples = [[factor * sample for sample in row] for row in case["samples_s"]]
            labels = case["labels"] | {"comm_backend": backend}
            components = {role: first + position for role, position in case["components"].items()}
            baseline = None if case["baseline"] is None else first + case["baseline"]
            references = {"baseline": baseline, "components": components}
            cases.append(case | references | {"samples_s": samples, "labels": labels})
    found = figures(record | {"cases": cases})
    gloo, nccl = (dict(zip(TIMES, some, strict=True)) for some in (found[: len(TIMES)], found[len(TIMES) :]))
    assert nccl["pipeline AG_after"]["regret"] == 0
    assert gloo["pipeline AG_after"]["regret"] == pytest.approx(1)
    assert gloo["pytorch AG_before"]["regret"] == pytest.approx(3)
    assert gloo["pipeline AG_after"]["paired_speedup"] == pytest.approx(2)
    assert gloo["pipeline AG_after"]["overlap"] == pytest.approx(0.75)


def test_rates_cover_useful_and_executed_flops():
    table = tabulate_records([product_record()]).set_index("implementation")
    useful = 2 * 1024 * 512 * 256 / 7e-3 / 1e12
    assert table.loc["pipeline", "useful_tflop_per_s"] == pytest.approx(useful)
    assert table.loc["pipeline", "executed_tflop_per_s"] == pytest.approx(2 * useful)
    assert table.loc["pipeline", "wire_bytes"] == 1000
    assert table.loc["auto", "chosen"] == "pipeline AG_after 4 chunks"


def test_invalid_component_gives_no_overlap():
    record = product_record()
    record["cases"][COMMUNICATION] |= {"status": "invalid"}
    assert figures(record)[-2]["overlap"] is None
    assert {row["contest"] for row in derive_result(as_record(record)).rows()[:2]} == {None}


def test_only_what_was_measured_is_in_a_contest():
    record = product_record()
    record["cases"][AUTO] |= {"status": "skipped", "samples_s": [], "blocks": []}
    *_, pipeline, auto = derive_result(as_record(record)).rows()
    assert (pipeline["contest"], auto["contest"]) == (
        "{'implementation': 'pytorch', 'order': 'AG_before'}, 2 ranks",
        None,
    )


def test_shares_need_their_components():
    """With communication measured 4 of 7 ms; without, the computation's 6 of 7 ms must not stand for it."""
    record = product_record()
    *_, auto = figures(record)
    assert auto["comm_share"] == pytest.approx(4 / 7.7)
    assert auto["limit_share"] == pytest.approx(6 / 7.7)
    *_, auto = figures(record | {"cases": lacking(record["cases"], COMMUNICATION)})
    assert auto["comm_share"] is None
    assert auto["overlap"] is None
    *_, auto = figures(record | {"cases": lacking(record["cases"], COMPUTATION)})
    assert auto["comm_share"] == pytest.approx(4 / 7.7)
    assert auto["limit_share"] is None


def lacking(cases, position):
    return without(cases, position)


def test_lone_component_is_communication():
    record = product_record()
    record["cases"][AUTO] |= {"components": {"communication": COMMUNICATION}}
    *_, auto = figures(record)
    assert (auto["comm_share"], auto["overlap"]) == (pytest.approx(4 / 7.7), None)


@pytest.fixture(scope="module")
def table():
    return tabulate_records([having(product_record(), cpu="a processor")])


def figure_names(table):
    return {name for name in drawn(table)[0] if name.startswith("tp_columnwise")}


def labels(axis, which):
    return [text.get_text() for text in getattr(axis, f"get_{which}ticklabels")()]


def test_few_shapes_get_bars_many_get_maps(table):
    bars = "tp_columnwise_time.png"
    assert {bars, "tp_columnwise_speedup.png"} <= figure_names(table)
    assert not {WINNER, LIMIT} & figure_names(table)  # maps of one shape
    [axis] = drawn(table, bars)[1][bars].axes
    names, lengths = labels(axis, "y"), [bar.get_width() for bar in sorted(axis.patches, key=lambda bar: bar.get_y())]
    assert set(names[-2:]) == {"compute_only sharded", "comm_only AG_after"}  # parts come last
    assert lengths[:4] == sorted(lengths[:4])
    many = [product_record(m, n, k) for m in (512, 1024) for n in (512, 1024) for k in (512, 1024)]
    table = tabulate_records(many)
    assert bars not in figure_names(table)
    [axis, _] = drawn(table, WINNER)[1][WINNER].axes  # and the colours
    assert [text.get_text() for text in axis.texts] == ["pipeline AG_after\n4 chunks\n2.00×"] * 8


def test_map_of_limits_leaves_auto_out(table):
    table = table.copy()
    fastest = table["median_s"].where(table["implementation"].isin(["pipeline", "auto"])).idxmin()
    table.loc[table["implementation"] == "auto", "median_s"] = table["median_s"].min() / 2
    shown = show(table, None)
    assert shown["tp_columnwise_limit"].points["value"].tolist() == [100 * table["limit_share"][fastest]]


def test_name_counts_chunks():
    names = [name_of({"implementation": "pipeline", "chunks": chunks}) for chunks in (1.0, 8.0)]
    assert names == ["pipeline 1 chunk", "pipeline 8 chunks"]


def test_speedup_plot_omits_baseline(table):
    [figure] = drawn(table, "tp_columnwise_speedup.png")[1].values()
    [axis] = figure.axes
    names = labels(axis, "y")
    assert "pytorch AG_before" not in names
    assert len(names) > 2
    assert "pytorch AG_before" in axis.get_xlabel()


def ddlb_rows(folder, *records):
    [text] = exported(folder, "ddlb", *records).values()
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_ddlb_columns(tmp_path):
    record = product_record()
    record["cases"][COMPUTATION]["useful_flops"] /= 2
    rows = ddlb_rows(tmp_path, record)
    assert [*rows[0]] == [
        "implementation", "mean_time (ms)", "std_time", "min_time", "max_time", "m", "n", "k", "dtype",
        "Throughput (TFLOPS)", "Throughput std (TFLOPS)", "world_size", "hostname", "time_measurement_backend",
        "barrier_at_each_iteration", "option", "valid",
    ]  # fmt: skip
    assert len(rows) == 6
    row = next(row for row in rows if row["implementation"].startswith("pipeline"))
    assert row["implementation"] == f"pipeline ({row['option']})" == "pipeline (order=AG_after, chunks=4, backend=gloo)"
    assert float(row["mean_time (ms)"]) == pytest.approx(7)
    assert float(row["max_time"]) >= 7 >= float(row["min_time"])
    assert (row["m"], row["hostname"], row["valid"]) == ("1024", "here", "True")
    assert (row["time_measurement_backend"], row["barrier_at_each_iteration"]) == ("cpu_clock", "True")
    assert float(row["Throughput (TFLOPS)"]) == pytest.approx(2 * 1024 * 512 * 256 / 7e-3 / 1e12, rel=1e-2)
    assert float(row["Throughput std (TFLOPS)"]) > 0
    own = float(rows[COMPUTATION]["Throughput (TFLOPS)"])  # of its own operations
    assert own == pytest.approx(1024 * 512 * 256 / 6e-3 / 1e12, rel=1e-2)
    assert rows[COMMUNICATION]["Throughput (TFLOPS)"] == ""


def summaries(*records):
    texts = texts_of(tabulate_records(list(records)))
    return {name: text for name, text in texts.items() if name.endswith("_summary.md")}


def test_summary_reports_overlap_and_auto(golden):
    """Once for all shapes: AG_after takes 10 and 10, the pipeline 12 and 7; auto 10 and 7.7."""
    slow_pipeline = TIMES | {"pipeline AG_after": 12e-3, "auto": 10e-3}
    records = [product_record(), product_record(m=512, times=slow_pipeline), product_record(suite="tp_rowwise")]
    texts = summaries(*records)
    assert set(texts) == {"tp_columnwise_summary.md", "tp_rowwise_summary.md"}
    text = texts["tp_columnwise_summary.md"]
    golden(text, NARROW)
    small, large = (line.split("|") for line in text.splitlines() if line.startswith("| m "))
    assert [small[4].strip(), large[4].strip()] == ["pytorch AG_after", "pipeline AG_after 4 chunks"]
    assert [small[5].strip(), large[5].strip(), large[7].strip()] == ["10", "7", "85.71"]
    assert " 1.049 times" in text
    assert " 0.957 times" in text


def test_fastest_per_shape_excludes_components():
    [answer] = screen_of(tabulate_records([product_record(), product_record(m=512)])).answers
    assert answer.startswith("pipeline")
    assert "2 of 2" in answer
    assert "compute_only" not in answer


def test_summary_works_without_auto_or_rivals():
    bounds = {name: seconds for name, seconds in TIMES.items() if "_only" in name}
    [alone] = summaries(product_record(times=bounds)).values()
    assert "|" not in alone
    fixed = {name: seconds for name, seconds in TIMES.items() if name != "auto"}
    [text] = summaries(product_record(times=fixed)).values()
    assert "auto" not in text


def test_unmeasured_values_are_blank():
    """No bounds, no intervals, no baseline, and `auto` over a backend of its own."""
    record = product_record(times={"pytorch AG_after": 10e-3, "pipeline AG_after": 7e-3, "auto": 8e-3})
    for case in record["cases"]:
        case |= {"samples_s": [[median(row)] * 3 for row in case["samples_s"]], "blocks": [1] * 3}
        case["start_offsets_s"] = [row[:3] for row in case["start_offsets_s"]]
        case["labels"] |= {"comm_backend": "gloo"}
    [text] = summaries(record).values()
    cells = [cell.strip() for cell in next(line for line in text.splitlines() if line.startswith("| m ")).split("|")]
    assert cells[2:] == ["10", "pipeline AG_after 4 chunks gloo", "7", "", "", "8", "pipeline AG_after 4 chunks", ""]
    assert " 1.143 times" in text
    names = figure_names(tabulate_records([record]))
    assert not [name for name in names if "limit" in name]


def test_typed_table_compares_the_same_variants():
    table = tabulate_records([product_record()])
    [(_, plain)], [(_, typed)] = (list(compare_suites(each).items()) for each in (table, table.convert_dtypes()))
    assert [side.name for side in typed.variants] == [side.name for side in plain.variants]
    assert any(side.speedup for side in typed.variants)

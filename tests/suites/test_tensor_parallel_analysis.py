"""Overlap, limits, the best of a job, and the plots and the table of tensor-parallel products."""

import csv
import io
import random
from statistics import median

import pytest
from analysis.records.comparisons import FIGURES
from analysis.records.derive import figures_of
from analysis.records.harvest import harvest
from analysis.report.discover import draw_all
from analysis.report.sentences import describe
from analysis.run_spread import ONE_RUN
from analysis.suites.tensor_parallel import charts, ddlb_csv
from analysis.suites.tensor_parallel import table as tensor_parallel
from analysis.suites.tensor_parallel.rows import name_of
from analysis.table import combine
from benchkit.statistics.intervals import FEWEST_ROUNDS
from benchkit.statistics.paired import paired_overlap

from tests.support.records import (
    as_case,
    as_record,
    as_version_2,
    having,
    make_record,
    tabulate_records,
    without,
    write_all,
)

TIMES = {
    "compute_only sharded": 6e-3, "comm_only AG_after default": 4e-3, "pytorch AG_before": 14e-3,
    "pytorch AG_after": 10e-3, "pipeline AG_after": 7e-3, "auto": 7.7e-3,
}  # fmt: skip
COMPUTATION, COMMUNICATION, BASELINE, *_, AUTO = range(len(TIMES))
"""Positions of its cases."""
COMPONENTS = {"computation": COMPUTATION, "communication": COMMUNICATION}


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
            "is_component": component, "payload_bytes": None,
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
    return [{name: row.get(name) for name in FIGURES} for row in figures_of(as_record(record)).rows()]


def test_overlap_is_hidden_share_of_shorter_part():
    *_, before, after, pipeline, _ = figures(product_record())
    assert pipeline["overlap"] == pytest.approx(0.75)
    assert after["overlap"] == pytest.approx(0.0)
    assert before["overlap"] is None  # its parts were not measured
    assert pipeline["overlap_low"] <= 0.75 <= pipeline["overlap_high"]


def test_overlap_is_paired_by_block():
    drift = random.Random(0).choices([1.0, 3.0], k=FEWEST_ROUNDS)
    cases = [as_case(samples_s=[[scale * each for each in drift]], blocks=[1] * len(drift)) for scale in (6, 4, 7)]
    assert paired_overlap(*cases) == (0.75, 0.75, 0.75)


def test_figures_give_limit_share_and_regret():
    computation, *_, pipeline, auto = figures(product_record())
    assert pipeline["limit_share"] == pytest.approx(6 / 7)
    assert pipeline["regret"] == 0
    assert auto["regret"] == pytest.approx(0.1)
    assert computation == dict.fromkeys(FIGURES)


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
    assert {row["contest"] for row in figures_of(as_record(record)).rows()[:2]} == {None}


def test_only_what_was_measured_is_in_a_contest():
    record = product_record()
    record["cases"][AUTO] |= {"status": "skipped", "samples_s": [], "blocks": []}
    *_, pipeline, auto = figures_of(as_record(record)).rows()
    assert (pipeline["contest"], auto["contest"]) == (
        "{'implementation': 'pytorch', 'order': 'AG_before'}, 2 ranks",
        None,
    )


def of_version_3(record):
    return record


def with_listed_parts(record):
    """The record as the oldest of version 1 were: the parts of a case without their roles."""
    old = as_version_2(record)
    return old | {"cases": [case | {"parts": [*filter(None, case["parts"].values())]} for case in old["cases"]]}


@pytest.mark.parametrize("as_read", [of_version_3, as_version_2, with_listed_parts])
def test_shares_need_their_components(as_read):
    """With communication measured 4 of 7 ms; without, the computation's 6 of 7 ms must not stand for it."""
    record = as_read(product_record())
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
    """The cases without one; names of it in old records then lead nowhere."""
    return cases[:position] + cases[position + 1 :] if "name" in cases[0] else without(cases, position)


@pytest.mark.parametrize("as_read", [of_version_3, as_version_2, with_listed_parts])
def test_lone_component_is_communication(as_read):
    record = product_record()
    record["cases"][AUTO] |= {"components": {"communication": COMMUNICATION}}
    *_, auto = figures(as_read(record))
    assert (auto["comm_share"], auto["overlap"]) == (pytest.approx(4 / 7.7), None)


def test_few_shapes_get_bars_many_get_maps():
    few = dict(draw_all(tabulate_records([product_record()]), None))
    stem = "tp_columnwise"
    assert {f"{stem}_{name}.png" for name in ("time", "speedup", "best", "limit")} <= set(few)
    [axis] = few[f"{stem}_time.png"].axes
    assert [text.get_text() for text in axis.get_yticklabels()] == [
        "compute_only sharded", "comm_only AG_after", "pytorch AG_before", "pytorch AG_after",
        "pipeline AG_after 4 chunks", "auto",
    ]  # fmt: skip
    many = [product_record(m, n, k) for m in (512, 1024) for n in (512, 1024) for k in (512, 1024)]
    figures_of_many = dict(draw_all(tabulate_records(many), None))
    assert f"{stem}_time.png" not in figures_of_many
    cells = [text.get_text() for text in figures_of_many[f"{stem}_best.png"].axes[0].texts]
    assert cells == ["pipeline\nAG_after 4 chunks\n2.00×"] * 8


def test_single_shape_map_has_label_not_colorbar():
    record = having(product_record(), cpu="a processor")
    figures = dict(draw_all(tabulate_records([record]), None))
    for name, label in (("best", "speedup over pytorch AG_before"), ("limit", "share of the limit [%]")):
        figure = figures[f"tp_columnwise_{name}.png"]
        assert len(figure.axes) == 1
        words = " ".join(figure.get_supxlabel().split())
        assert words.startswith(f"{label}; ")
        assert "without auto" in words
        assert words.endswith("on a processor")
    several = dict(draw_all(tabulate_records([product_record(), product_record(m=512)]), None))
    assert len(several["tp_columnwise_best.png"].axes) == 2


def test_maps_of_page_and_plot_leave_auto_out():
    table = tabulate_records([product_record()])
    fastest = table["median_s"].where(table["implementation"].isin(["pipeline", "auto"])).idxmin()
    table.loc[table["implementation"] == "auto", "median_s"] = table["median_s"].min() / 2
    shown = charts.show(table, None)
    for name in ("best", "limit"):
        assert "without auto" in shown[f"tp_columnwise_{name}"].note
    assert shown["tp_columnwise_limit"].points["value"].tolist() == [100 * table["limit_share"][fastest]]


@pytest.mark.parametrize(("chunks", "words"), [(1.0, "pipeline 1 chunk"), (8.0, "pipeline 8 chunks")])
def test_name_counts_chunks(chunks, words):
    assert name_of({"implementation": "pipeline", "chunks": chunks}) == words


def test_speedup_plot_omits_baseline():
    [axis] = dict(draw_all(tabulate_records([product_record()]), None))["tp_columnwise_speedup.png"].axes
    names = [text.get_text() for text in axis.get_yticklabels()]
    assert "pytorch AG_before" not in names
    lengths = [bar.get_width() for bar in axis.patches]
    assert len(lengths) == len(names) > 2
    assert lengths == sorted(lengths, reverse=True)
    assert axis.get_xlabel() == "time of pytorch AG_before / time"
    title = axis.get_figure().get_suptitle().replace("\n", " ")
    assert title.endswith("speedup over pytorch AG_before")


def test_shape_labels_are_integers():
    table = tabulate_records([product_record(), make_record()])
    axis = dict(draw_all(table, None))["tp_columnwise_best.png"].axes[0]
    assert [text.get_text() for text in (*axis.get_xticklabels(), *axis.get_yticklabels())] == ["512, 256", "1024"]
    assert "| m 1024 × n 512 × k 256 |" in tensor_parallel.write(table)["tp_columnwise_summary.md"]


def test_csv_has_ddlb_columns(tmp_path):
    table = combine(harvest([write_all(tmp_path, [product_record()])]).rows)
    rows = list(csv.DictReader(io.StringIO(ddlb_csv.write(table)["ddlb_tp_columnwise.csv"])))
    assert [*rows[0]] == [
        "implementation", "mean_time (ms)", "std_time", "min_time", "max_time", "m", "n", "k", "dtype",
        "Throughput (TFLOPS)", "Throughput std (TFLOPS)", "world_size", "hostname", "time_measurement_backend",
        "barrier_at_each_iteration", "option", "valid",
    ]  # fmt: skip
    assert len(rows) == 6
    row = next(row for row in rows if row["implementation"].startswith("pipeline"))
    assert row["implementation"] == "pipeline (order=AG_after, chunks=4, backend=gloo)"
    assert row["option"] == "order=AG_after, chunks=4, backend=gloo"
    assert float(row["mean_time (ms)"]) == pytest.approx(7)
    assert float(row["max_time"]) >= 7 >= float(row["min_time"])
    assert (row["m"], row["hostname"], row["valid"]) == ("1024", "here", "True")
    assert (row["time_measurement_backend"], row["barrier_at_each_iteration"]) == ("cpu_clock", "True")
    assert float(row["Throughput (TFLOPS)"]) == pytest.approx(2 * 1024 * 512 * 256 / 7e-3 / 1e12, rel=1e-2)
    assert float(row["Throughput std (TFLOPS)"]) > 0
    assert ddlb_csv.write(tabulate_records([make_record()])) == {}


def test_ddlb_rates_are_of_a_cases_own_operations(tmp_path):
    record = product_record()
    record["cases"][COMPUTATION]["useful_flops"] /= 2
    table = combine(harvest([write_all(tmp_path, [record])]).rows)
    rows = list(csv.DictReader(io.StringIO(ddlb_csv.write(table)["ddlb_tp_columnwise.csv"])))
    part, communication = rows[COMPUTATION], rows[COMMUNICATION]
    assert float(part["Throughput (TFLOPS)"]) == pytest.approx(1024 * 512 * 256 / 6e-3 / 1e12, rel=1e-2)
    assert communication["Throughput (TFLOPS)"] == ""


def test_summary_reports_overlap_and_auto():
    slow_pipeline = TIMES | {"pipeline AG_after": 12e-3, "auto": 10e-3}
    records = [product_record(), product_record(m=512, times=slow_pipeline), product_record(suite="tp_rowwise")]
    texts = tensor_parallel.write(tabulate_records(records))
    assert set(texts) == {"tp_columnwise_summary.md", "tp_rowwise_summary.md"}
    text = texts["tp_columnwise_summary.md"]
    small, large = (line.split("|") for line in text.splitlines() if line.startswith("| m "))
    assert [small[4].strip(), large[4].strip()] == ["pytorch AG_after", "pipeline AG_after 4 chunks"]
    assert [small[5].strip(), large[5].strip(), large[7].strip()] == ["10", "7", "85.71"]
    assert large[6].strip().startswith("2 [")
    assert "auto took 1.049 times as long as the fastest fixed choice of each shape (geometric mean of 2; " in text
    assert "at most 1.100" in text
    # once for all shapes: AG_after takes 10 and 10, the pipeline 12 and 7; auto 10 and 7.7
    assert "pipeline AG_after 4 chunks is best; auto took 0.957 times as long." in text
    beaten = "beats all plain orders beyond their intervals within the run."
    assert f"m 1024 × n 512 × k 256: pipeline AG_after 4 chunks {beaten}" in text
    assert "m 512 × n 512 × k 256: pipeline" not in text


def test_fastest_per_shape_excludes_components():
    table = tabulate_records([product_record(), product_record(m=512)])
    told = [line for line in describe(table).splitlines() if "fastest" in line]
    assert told == [
        f"- tp_columnwise (m={m}): the fastest of 4 is implementation=pipeline, order=AG_after, chunks=4 with 7 ms, "
        "1.1 times as fast as implementation=auto."
        for m in (1024, 512)
    ]


def test_summary_works_without_auto_or_rivals():
    bounds = {name: seconds for name, seconds in TIMES.items() if "_only" in name}
    alone = tensor_parallel.write(tabulate_records([product_record(times=bounds)]))
    assert alone["tp_columnwise_summary.md"].split("\n\n") == ["# tp_columnwise: 2 ranks, float32", ONE_RUN]
    fixed = {name: seconds for name, seconds in TIMES.items() if name != "auto"}
    assert (
        "auto" not in tensor_parallel.write(tabulate_records([product_record(times=fixed)]))["tp_columnwise_summary.md"]
    )


def test_unmeasured_values_are_blank():
    """No bounds, no intervals, no baseline, and `auto` over a backend of its own."""
    record = product_record(times={"pytorch AG_after": 10e-3, "pipeline AG_after": 7e-3, "auto": 8e-3})
    for case in record["cases"]:
        case |= {"samples_s": [[median(row)] * 3 for row in case["samples_s"]], "blocks": [1] * 3}
        case["start_offsets_s"] = [row[:3] for row in case["start_offsets_s"]]
        case["labels"] |= {"comm_backend": "gloo"}
    [text] = tensor_parallel.write(tabulate_records([record])).values()
    cells = [cell.strip() for cell in next(line for line in text.splitlines() if line.startswith("| m ")).split("|")]
    assert cells[1:] == [
        "m 1024 × n 512 × k 256",
        "10",
        "pipeline AG_after 4 chunks gloo",
        "7",
        "",
        "",
        "8",
        "pipeline AG_after 4 chunks",
        "",
    ]
    assert "auto gloo took 1.143 times as long" in text
    assert "beats" not in text
    assert not [name for name in draw_all_names(record) if "best" in name or "limit" in name or "speedup" in name]


def draw_all_names(record):
    return list(dict(draw_all(tabulate_records([record]), None)))

"""Overlap, limits, the best of a job, and the plots and the table of tensor-parallel products."""

import csv
import io
import random
from statistics import median

import pytest
from analysis.records import comparisons
from analysis.report.discover import draw_all
from analysis.report.sentences import describe
from analysis.run_spread import ONE_RUN
from analysis.suites.tensor_parallel import ddlb_csv
from analysis.suites.tensor_parallel import table as tensor_parallel
from benchkit.statistics.intervals import FEWEST_ROUNDS
from benchkit.statistics.paired import paired_overlap

from tests.support.records import make_record, tabulate_records

TIMES = {
    "compute_only sharded": 6e-3, "comm_only AG_after default": 4e-3, "pytorch AG_before": 14e-3,
    "pytorch AG_after": 10e-3, "pipeline AG_after": 7e-3, "auto": 7.7e-3,
}  # fmt: skip
PARTS = {"computation": "compute_only sharded", "communication": "comm_only AG_after default"}


def product_record(m=1024, n=512, k=256, suite="tp_columnwise", times=TIMES):
    """A job whose parts take 6 and 4 ms: 10 one after the other, 7 in a pipeline."""
    record = make_record()
    [base] = record["cases"]
    cases = []
    for name, seconds in times.items():
        implementation, *order = name.split()
        bound = implementation.endswith("_only")
        whole = bound or order == ["AG_before"]
        option = "size" if implementation == "compute_only" else "order"
        scale = seconds / 1e-3
        labels = {"implementation": implementation, "comm_backend": "default"} | ({option: order[0]} if order else {})
        labels |= {"chunks": 4} if implementation == "pipeline" else {}
        cases.append(base | {
            "labels": labels,
            "samples_s": [[scale * sample for sample in row] for row in base["samples_s"]],
            "name": name, "bound": bound, "payload_bytes": None,
            "against": "" if bound or name == "pytorch AG_before" else "pytorch AG_before",
            "parts": {"computation": "", "communication": ""} if whole else PARTS,
            "useful_flops": None if implementation == "comm_only" else 2.0 * m * n * k, "bus_factor": None,
            "executed_flops": 4.0 * m * n * k, "wire_bytes": 1000, "details": {"chosen": "pipeline AG_after 4"},
        })  # fmt: skip
    record["config"] |= {"suite": suite, "m": m, "n": n, "k": k, "implementations": {"pytorch": {}}}
    record["config"].pop("data_size")
    return record | {"suite": suite, "cases": cases, "point_id": f"{m}-{n}-{k}"}


def figures(name):
    cases = product_record()["cases"]
    return comparisons.figures(next(case for case in cases if case["name"] == name), cases)


def test_overlap_is_what_was_hidden_of_the_shorter_part():
    assert figures("pipeline AG_after")["overlap"] == pytest.approx(0.75)
    assert figures("pytorch AG_after")["overlap"] == pytest.approx(0.0)
    assert figures("pytorch AG_before")["overlap"] is None  # its parts were not measured
    assert figures("pipeline AG_after")["overlap_low"] <= 0.75 <= figures("pipeline AG_after")["overlap_high"]


def test_overlap_is_paired_block_by_block():
    drift = random.Random(0).choices([1.0, 3.0], k=FEWEST_ROUNDS)
    case = lambda scale: {"samples_s": [[scale * each for each in drift]], "blocks": [1] * len(drift)}  # noqa: E731
    assert paired_overlap(case(6), case(4), case(7)) == (0.75, 0.75, 0.75)


def test_the_limit_is_the_longer_part_and_the_best_is_no_bound():
    assert figures("pipeline AG_after")["limit_share"] == pytest.approx(6 / 7)
    assert figures("pipeline AG_after")["behind_best"] == 0
    assert figures("auto")["behind_best"] == pytest.approx(0.1)
    assert figures("compute_only sharded") == dict.fromkeys(comparisons.FIGURES)


def test_the_best_of_a_job_is_the_best_over_all_its_backends():
    """Each backend has its own baseline."""
    cases = []
    for backend, factor in (("gloo", 1), ("nccl", 0.5)):
        for case in product_record()["cases"]:
            references = {name: f"{case[name]} {backend}" for name in ("name", "against") if case[name]}
            samples = [[factor * sample for sample in row] for row in case["samples_s"]]
            labels = case["labels"] | {"comm_backend": backend}
            cases.append(case | references | {"samples_s": samples, "labels": labels})
    found = {case["name"]: comparisons.figures(case, cases) for case in cases}
    assert found["pipeline AG_after nccl"]["behind_best"] == 0
    assert found["pipeline AG_after gloo"]["behind_best"] == pytest.approx(1)
    assert found["pytorch AG_before gloo"]["behind_best"] == pytest.approx(3)
    assert found["pipeline AG_after gloo"]["paired_speedup"] == pytest.approx(2)


def test_rates_are_of_useful_and_of_executed_operations():
    table = tabulate_records([product_record()]).set_index("implementation")
    useful = 2 * 1024 * 512 * 256 / 7e-3 / 1e12
    assert table.loc["pipeline", "useful_tflop_per_s"] == pytest.approx(useful)
    assert table.loc["pipeline", "executed_tflop_per_s"] == pytest.approx(2 * useful)
    assert table.loc["pipeline", "wire_bytes"] == 1000
    assert table.loc["auto", "chosen"] == "pipeline AG_after 4"


def test_a_case_that_was_not_measured_is_nobodys_part():
    record = product_record()
    record["cases"][1] |= {"status": "invalid"}
    assert comparisons.figures(record["cases"][4], record["cases"])["overlap"] is None


@pytest.mark.parametrize("parts", [PARTS, list(PARTS.values())])
def test_without_its_communication_a_case_has_no_share_of_it(parts):
    """With communication measured 4 of 7 ms; without, the computation's 6 of 7 ms must not stand for it."""
    cases = [case | ({"parts": parts} if case["name"] == "auto" else {}) for case in product_record()["cases"]]
    auto = cases[-1]
    assert comparisons.figures(auto, cases)["comm_share"] == pytest.approx(4 / 7.7)
    assert comparisons.figures(auto, cases)["limit_share"] == pytest.approx(6 / 7.7)
    without = [case for case in cases if case["name"] != PARTS["communication"]]
    assert comparisons.figures(auto, without)["comm_share"] is None
    assert comparisons.figures(auto, without)["overlap"] is None
    alone = [case for case in cases if case["name"] != PARTS["computation"]]
    assert comparisons.figures(auto, alone)["comm_share"] == pytest.approx(4 / 7.7)
    assert comparisons.figures(auto, alone)["limit_share"] is None


@pytest.mark.parametrize("parts", [["comm_only AG_after default"], {"communication": "comm_only AG_after default"}])
def test_a_part_alone_is_the_communication(parts):
    cases = [case | {"parts": parts} for case in product_record()["cases"]]
    found = comparisons.figures(cases[-1], cases)
    assert (found["comm_share"], found["overlap"]) == (pytest.approx(4 / 7.7), None)


def test_few_shapes_have_bars_and_many_have_maps():
    few = dict(draw_all(tabulate_records([product_record()]), None))
    stem = "tp_columnwise"
    assert {f"{stem}_{name}.png" for name in ("time", "speedup", "best", "limit")} <= set(few)
    [axis] = few[f"{stem}_time.png"].axes
    assert [text.get_text() for text in axis.get_yticklabels()] == [
        "compute_only sharded", "comm_only AG_after", "pytorch AG_before", "pytorch AG_after", "pipeline AG_after 4",
        "auto",
    ]  # fmt: skip
    many = [product_record(m, n, k) for m in (512, 1024) for n in (512, 1024) for k in (512, 1024)]
    figures_of_many = dict(draw_all(tabulate_records(many), None))
    assert f"{stem}_time.png" not in figures_of_many
    cells = [text.get_text() for text in figures_of_many[f"{stem}_best.png"].axes[0].texts]
    assert cells == ["pipeline\nAG_after 4\n2.00×"] * 8


def test_one_shape_has_no_colour_bar_and_its_map_says_what_and_on_what():
    record = product_record()
    record["environment"]["cpu"] = "a processor"
    figures = dict(draw_all(tabulate_records([record]), None))
    for name, label in (("best", "speedup over the baseline"), ("limit", "share of the limit [%]")):
        figure = figures[f"tp_columnwise_{name}.png"]
        assert len(figure.axes) == 1
        assert figure.get_supxlabel() == f"{label}\non a processor"
    several = dict(draw_all(tabulate_records([product_record(), product_record(m=512)]), None))
    assert len(several["tp_columnwise_best.png"].axes) == 2


def test_the_baseline_of_speedups_is_no_empty_row():
    [axis] = dict(draw_all(tabulate_records([product_record()]), None))["tp_columnwise_speedup.png"].axes
    assert "pytorch AG_before" not in [text.get_text() for text in axis.get_yticklabels()]


def test_shapes_are_whole_numbers_even_beside_rows_without_one():
    table = tabulate_records([product_record(), make_record()])
    axis = dict(draw_all(table, None))["tp_columnwise_best.png"].axes[0]
    assert [text.get_text() for text in (*axis.get_xticklabels(), *axis.get_yticklabels())] == ["512, 256", "1024"]
    assert "| m 1024 × n 512 × k 256 |" in tensor_parallel.write(table)["tp_columnwise_summary.md"]


def test_the_table_has_the_columns_of_ddlb():
    rows = list(csv.DictReader(io.StringIO(ddlb_csv.write(tabulate_records([product_record()]))["ddlb.csv"])))
    assert len(rows) == 6
    row = next(row for row in rows if row["implementation"] == "pipeline")
    assert row["option"] == "order=AG_after;chunks=4;comm_backend=gloo"
    assert float(row["mean_time"]) == pytest.approx(7)
    assert float(row["max_time"]) >= 7 >= float(row["min_time"])
    assert (row["m"], row["hostname"], row["valid"]) == ("1024", "here", "True")
    assert float(row["Throughput (TFLOPS)"]) == pytest.approx(2 * 1024 * 512 * 256 / 7e-3 / 1e12, rel=1e-3)
    assert ddlb_csv.write(tabulate_records([make_record()])) == {}


def test_the_summary_tells_what_overlap_and_auto_are_worth():
    slow_pipeline = TIMES | {"pipeline AG_after": 12e-3, "auto": 10e-3}
    records = [product_record(), product_record(m=512, times=slow_pipeline), product_record(suite="tp_rowwise")]
    texts = tensor_parallel.write(tabulate_records(records))
    assert set(texts) == {"tp_columnwise_summary.md", "tp_rowwise_summary.md"}
    text = texts["tp_columnwise_summary.md"]
    small, large = (line.split("|") for line in text.splitlines() if line.startswith("| m "))
    assert [small[4].strip(), large[4].strip()] == ["pytorch AG_after", "pipeline AG_after 4"]
    assert [small[5].strip(), large[5].strip(), large[7].strip()] == ["10", "7", "85.71"]
    assert large[6].strip().startswith("2 [")
    assert "auto took 1.049 times as long as the fastest fixed choice of each shape (geometric mean of 2; " in text
    assert "at most 1.100" in text
    # once for all shapes: AG_after takes 10 and 10, the pipeline 12 and 7; auto 10 and 7.7
    assert "pipeline AG_after 4 is best; auto took 0.957 times as long." in text
    assert (
        "m 1024 × n 512 × k 256: pipeline AG_after 4 beats all plain orders beyond their intervals within the run."
        in text
    )
    assert "m 512 × n 512 × k 256: pipeline" not in text


def test_the_fastest_is_named_per_shape_and_is_no_part():
    table = tabulate_records([product_record(), product_record(m=512)])
    told = [line for line in describe(table).splitlines() if "fastest" in line]
    assert told == [
        f"- tp_columnwise (m={m}): the fastest of 4 is implementation=pipeline, order=AG_after, chunks=4 with 7 ms, "
        "1.1 times as fast as implementation=auto."
        for m in (1024, 512)
    ]


def test_a_summary_needs_neither_auto_nor_rivals():
    bounds = {name: seconds for name, seconds in TIMES.items() if "_only" in name}
    alone = tensor_parallel.write(tabulate_records([product_record(times=bounds)]))
    assert alone["tp_columnwise_summary.md"].split("\n\n") == ["# tp_columnwise: 2 ranks, float32", ONE_RUN]
    fixed = {name: seconds for name, seconds in TIMES.items() if name != "auto"}
    assert (
        "auto" not in tensor_parallel.write(tabulate_records([product_record(times=fixed)]))["tp_columnwise_summary.md"]
    )


def test_what_was_not_measured_is_left_blank():
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
        "pipeline AG_after 4 gloo",
        "7",
        "",
        "",
        "8",
        "pipeline AG_after 4",
        "",
    ]
    assert "auto gloo took 1.143 times as long" in text
    assert "beats" not in text
    assert not [name for name in draw_all_names(record) if "best" in name or "limit" in name or "speedup" in name]


def draw_all_names(record):
    return list(dict(draw_all(tabulate_records([record]), None)))

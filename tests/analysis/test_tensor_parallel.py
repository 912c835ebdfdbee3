"""Overlap, limits, the best of a job, and the plots and the table of tensor-parallel products."""

import csv
import io

import pytest

from analysis import within_job
from analysis.plots import draw_all
from analysis.tables import ddlb
from benchkit.statistics import paired_overlap
from tests.analysis.records import make_record, tabulate_records

TIMES = {
    "compute_only sharded": 6e-3, "comm_only AG_after default": 4e-3, "pytorch AG_before": 14e-3,
    "pytorch AG_after": 10e-3, "pipeline AG_after": 7e-3, "auto": 7.7e-3,
}  # fmt: skip


def product_record(m=1024, n=512, k=256, suite="tp_columnwise"):
    """A job whose parts take 6 and 4 ms: 10 one after the other, 7 in a pipeline."""
    record = make_record()
    [base] = record["cases"]
    cases = []
    for name, seconds in TIMES.items():
        implementation, *order = name.split()
        bound = implementation.endswith("_only")
        option = "size" if implementation == "compute_only" else "order"
        scale = seconds / 1e-3
        labels = {"implementation": implementation, "comm_backend": "default"} | ({option: order[0]} if order else {})
        cases.append(base | {
            "labels": labels,
            "samples_s": [[scale * sample for sample in row] for row in base["samples_s"]],
            "name": name, "bound": bound, "payload_bytes": None,
            "against": "" if bound or name == "pytorch AG_before" else "pytorch AG_before",
            "parts": [] if bound or order == ["AG_before"] else ["compute_only sharded", "comm_only AG_after default"],
            "useful_flops": None if implementation == "comm_only" else 2.0 * m * n * k, "bus_factor": None,
            "executed_flops": 4.0 * m * n * k, "wire_bytes": 1000, "details": {"chosen": "pipeline AG_after 4"},
        })  # fmt: skip
    record["config"] |= {"suite": suite, "m": m, "n": n, "k": k, "implementations": {"pytorch": {}}}
    record["config"].pop("data_size")
    return record | {"suite": suite, "cases": cases, "point_id": f"{m}-{n}-{k}"}


def figures(name):
    cases = product_record()["cases"]
    return within_job.figures(next(case for case in cases if case["name"] == name), cases)


def test_overlap_is_what_was_hidden_of_the_shorter_part():
    assert figures("pipeline AG_after")["overlap"] == pytest.approx(0.75)
    assert figures("pytorch AG_after")["overlap"] == pytest.approx(0.0)
    assert figures("pytorch AG_before")["overlap"] is None  # its parts were not measured
    assert figures("pipeline AG_after")["overlap_low"] <= 0.75 <= figures("pipeline AG_after")["overlap_high"]


def test_overlap_is_paired_block_by_block():
    drift = [1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0]
    case = lambda scale: {"samples_s": [[scale * each for each in drift]], "block_iterations": 1}  # noqa: E731
    assert paired_overlap(case(6), case(4), case(7)) == (0.75, 0.75, 0.75)


def test_the_limit_is_the_longer_part_and_the_best_is_no_bound():
    assert figures("pipeline AG_after")["limit_share"] == pytest.approx(6 / 7)
    assert figures("pipeline AG_after")["behind_best"] == 0
    assert figures("auto")["behind_best"] == pytest.approx(0.1)
    assert figures("compute_only sharded") == dict.fromkeys(within_job.FIGURES)


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
    assert within_job.figures(record["cases"][4], record["cases"])["overlap"] is None


def test_few_shapes_have_bars_and_many_have_maps():
    few = dict(draw_all(tabulate_records([product_record()]), None))
    stem = "tp_columnwise"
    assert {f"{stem}_{name}.png" for name in ("time", "speedup", "best", "limit")} <= set(few)
    [axis] = few[f"{stem}_time.png"].axes
    assert [text.get_text() for text in axis.get_yticklabels()] == [
        "compute_only sharded", "comm_only AG_after", "pytorch AG_before", "pytorch AG_after", "pipeline AG_after",
        "auto",
    ]  # fmt: skip
    many = [product_record(m, n, k) for m in (512, 1024) for n in (512, 1024) for k in (512, 1024)]
    figures_of_many = dict(draw_all(tabulate_records(many), None))
    assert f"{stem}_time.png" not in figures_of_many
    cells = [text.get_text() for text in figures_of_many[f"{stem}_best.png"].axes[0].texts]
    assert cells == ["pipeline\nAG_after\n2.00×"] * 8


def test_the_table_has_the_columns_of_ddlb():
    rows = list(csv.DictReader(io.StringIO(ddlb.write(tabulate_records([product_record()]))["ddlb.csv"])))
    assert len(rows) == 6
    row = next(row for row in rows if row["implementation"] == "pipeline")
    assert row["option"] == "order=AG_after;comm_backend=default"
    assert float(row["mean_time"]) == pytest.approx(7)
    assert float(row["max_time"]) >= 7 >= float(row["min_time"])
    assert (row["m"], row["hostname"], row["valid"]) == ("1024", "here", "True")
    assert float(row["Throughput (TFLOPS)"]) == pytest.approx(2 * 1024 * 512 * 256 / 7e-3 / 1e12, rel=1e-3)
    assert ddlb.write(tabulate_records([make_record()])) == {}

"""The head of the page: what is asked, and the answer."""

import pytest
from analysis.page.question import question_of, tally_of, verdict_of
from analysis.report.sentences import findings

from tests.support.records import grid, make_record, make_rich_record, tabulate_records


def verdict(records):
    table = tabulate_records(records)
    return verdict_of(table, {title: list(lines) for title, lines in findings(table).items()})


@pytest.mark.parametrize(
    ("records", "asked"),
    [
        (grid(), "How long does allreduce take, by data_size (1 MiB to 100 MiB) and world_size (2, 4)?"),
        (grid()[:1], "How long does allreduce take?"),
        (grid()[:2], "How long does allreduce take, by data_size (1 MiB, 10 MiB)?"),
        ([make_record(), make_record(title="broadcast")], "How long do allreduce and broadcast take?"),
        ([make_record(title=f"suite {n}") for n in range(6)], "How long do 6 benchmarks take?"),
        (
            [make_record(backend=name) for name in ("gloo", "mpi", "ucc", "nccl")],
            "How long does allreduce take, by backend (4 values)?",
        ),
    ],
)
def test_question_names_what_varies(records, asked):
    assert question_of(tabulate_records(records)) == asked


def test_setting_of_points_comes_before_that_of_cases():
    records = [make_rich_record("ring_attention"), make_rich_record("ring_attention")]
    records[1]["config"] |= {"seq_len": 256}
    records[1]["point_id"] = "other"
    assert question_of(tabulate_records(records)) == (
        "How long does ring_attention take, by seq_len (128, 256) and strategy (4 values)?"
    )


def test_verdict_has_few_sentences_of_report():
    lines = verdict(grid())
    assert lines[0].startswith("The highest bus bandwidth is 1.05 GB/s")
    assert len(lines) == 3
    assert "100 times as long" in lines[1]
    assert "2 ranks to 4 ranks" in lines[2]


def test_verdict_without_alternatives_is_range_of_times():
    slow, fast = make_record(1.0, 1, 2e-3), make_record(1.0, 1, 1e-3, backend="mpi")
    for record in (slow, fast):
        record["config"].pop("data_size")
    slow["config"]["dtype"] = "float64"
    assert verdict([slow, fast]) == [
        "allreduce: medians from 1 ms (backend=mpi, dtype=float32) to 2 ms (backend=gloo, dtype=float64)."
    ]
    assert verdict([fast]) == ["allreduce: 1 ms (median)."]
    assert verdict([make_record(status="crash")]) == ["Nothing was measured."]


def test_tally_separates_failures_from_skips():
    records = [*grid(), make_record(status="crash"), make_record(status="unavailable")]
    assert tally_of(tabulate_records(records)) == "6 of 8 cases measured, 1 failed, 1 skipped or not available"
    assert tally_of(tabulate_records(grid())) == "6 of 6 cases measured"

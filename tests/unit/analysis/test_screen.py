"""The first screen: it fits, answers the suite's question, and says the same as every other output."""

import re

import pandas as pd
import pytest
from analysis.discover import questions
from analysis.report.speedups import as_table
from analysis.screen import LINES, WIDTH, screen_of
from analysis.sides import Baseline, all_sides

from tests.support.records import grid, having, job_in_turns, make_record, make_rich_record, tabulate_records
from tests.support.reports import charts

SUITES = sorted(questions())


@pytest.mark.parametrize("suite", SUITES)
def test_screen_fits_and_agrees_with_table_and_figure(suite):
    table = tabulate_records([make_rich_record(suite, samples=40)])
    screen = screen_of(table)
    lines = screen.text().splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert not re.search(r"chance|\[\?\]|e[+-]\d\d|nan", screen.text())
    [(_, sides)] = all_sides(table)
    ratios = {side.name: side.ratio.value for side in sides.sides if side.ratio}
    csv = as_table(table, None)
    told = [] if csv is None else csv["speedup"].tolist()
    assert sorted(told) == pytest.approx(sorted(ratios.values()))
    paired = pd.to_numeric(table["paired_speedup"]).dropna().tolist()
    assert all(min(abs(ratio / each - 1) for each in paired) < 1e-6 for ratio in told if len(told) == len(paired) == 1)
    drawn = charts(table).get(f"{suite}_speedup")
    if drawn is not None:
        assert sorted(drawn.points["value"]) == pytest.approx(sorted(told))


def screens():
    failed = [make_record(1000, 2, status="oom"), make_record(1, 4, status="unavailable")]
    crowded = having(make_record(1, 8, 0.01, spread=0.9), cpu="a")
    gpu = [having(record, host="there") for record in grid(backend="nccl", device="cuda")]
    for record in gpu:
        [case] = record["cases"]
        case["samples_s"] = [[each / 100 for each in rank] for rank in case["samples_s"]]
    doubted = job_in_turns(2.0, 9, 0.02)
    doubted["warnings"] = ["clocks are not locked"]
    yield "sizes and ranks, failures", [*grid(), *failed], None
    yield "two backends", [*grid(), *gpu], None
    yield "over two ranks", grid(), Baseline({"world_size": "2"})
    yield "in turns, with a warning", [doubted], None
    yield "shared cores", [crowded], None
    yield "few samples", [make_record(size, samples=samples) for size, samples in ((1, 5), (2, 20))], None
    yield "nothing", failed, None
    both = [make_record(1, 2, seconds) for seconds in (1e-3, 2e-3)]
    for record, dtype in zip(both, ("float32", "bfloat16"), strict=True):
        record["config"] = record["config"] | {"dtype": dtype}
    yield "two kinds of work", both, None
    once = make_record(suite="collective", title="all_reduce")
    [case] = once["cases"]
    once["cases"] = [case | {"labels": {"timing": timing}} for timing in ("latency", "back_to_back")]
    yield "one size, alone and back to back", [once], None
    yield "two suites", [make_rich_record("auto_shard"), make_rich_record("ring_attention")], None
    yield "transformer", [make_rich_record("transformer")], None


def test_screens(golden):
    golden(
        "\n\n".join(
            f"=== {name}\n{screen_of(tabulate_records(records), base).text()}" for name, records, base in screens()
        )
    )


def test_long_tables_leave_room_for_what_is_known():
    text = screen_of(tabulate_records([make_record(size) for size in range(1, 60)])).text()
    assert len(text.splitlines()) <= LINES
    assert "combined.csv" in text
    assert "How sure" in text


def test_claims_need_turns():
    apart = screen_of(tabulate_records([*grid(), *grid(backend="mpi")])).text()
    assert "nothing is claimed" in apart
    few, enough = (screen_of(tabulate_records([job_in_turns(1.0001, turns, 0.1)])).text() for turns in (5, 9))
    assert "not told apart" in enough
    assert "5 turns" in few

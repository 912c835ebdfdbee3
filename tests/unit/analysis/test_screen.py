"""The first screen: it fits, answers the suite's question, and says the same as every other output."""

import re
from html import unescape

import pandas as pd
import pytest
from analysis.page.content import content_of
from analysis.report.speedups import as_table
from analysis.screen.grid import WIDTH
from analysis.screen.screen import LINES, is_mostly_disturbed, screen_of
from analysis.shared.discover import questions
from analysis.table.combine import oversubscribed_ranks
from analysis.table.variants import Baseline, compare_suites

from tests.support.entries.report import ReportData, with_ids
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
    [(_, sides)] = compare_suites(table).items()
    ratios = {side.name: side.speedup.value for side in sides.variants if side.speedup}
    csv = as_table(table, None)
    told = [] if csv is None else csv["speedup"].tolist()
    assert sorted(told) == pytest.approx(sorted(ratios.values()))
    paired = pd.to_numeric(table["paired_speedup"]).dropna().tolist()
    assert all(min(abs(ratio / each - 1) for each in paired) < 1e-6 for ratio in told if len(told) == len(paired) == 1)
    drawn = charts(table).get(f"{suite}_speedup")
    if drawn is not None:
        assert sorted(drawn.points["value"]) == pytest.approx(sorted(told))


SIZES = {"data_size": 1.0, "m": 8, "size": 64, "seq_len": 128, "context_length": 256}


def several(suite):
    """A suite's cases at two sizes, and alone, too, where a suite times calls both ways."""
    varied = next((name for name in questions()[suite].problem if name in SIZES), "data_size")
    for factor in (1, 2):
        record = make_rich_record(suite, samples=40)
        record["config"] |= {varied: factor * SIZES[varied]}
        for number, case in enumerate(record["cases"]):
            longer = factor * (1 + number / 7)
            case["samples_s"] = [[longer * each for each in rank] for rank in case["samples_s"]]
        if suite == "collective":
            plain = record["cases"][-1] | {"is_component": False}
            both = ("latency", "back_to_back")
            record["cases"] = [plain | {"labels": plain["labels"] | {"timing": each}} for each in both]
        yield record


@pytest.mark.parametrize("suite", SUITES)
def test_cells_agree_on_terminal_in_markdown_and_on_page(suite):
    table = tabulate_records(list(several(suite)))
    shown = screen_of(table).grid
    assert shown.rows
    for line, cells in zip(shown.lines()[-len(shown.rows) :], shown.rows, strict=True):
        assert line.split() == " ".join(cells).split()
    written = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.table().markdown().splitlines()]
    assert written[2:] == shown.rows
    page = content_of(ReportData(with_ids(table)), []).answer_table
    rows = re.findall("<tr>(.*?)</tr>", page, flags=re.DOTALL)
    assert [[unescape(cell) for cell in re.findall("<td.*?>(.*?)</td>", row)] for row in rows[1:]] == shown.rows


@pytest.mark.parametrize("suite", SUITES)
def test_cells_are_figures_of_the_table(suite):
    table = tabulate_records(list(several(suite)))
    shown = screen_of(table).grid
    [(_, sides)] = compare_suites(table).items()
    known = [value for side in sides.variants for value in figures(sides, side)]
    for cells in shown.rows:
        for cell in re.findall(r"\d[\d,.]*", " ".join(cells[shown.num_words :])):
            unit = 10.0 ** -len(cell.partition(".")[2])
            value = float(cell.replace(",", ""))
            assert any(abs(value - each) <= max(0.51 * unit, 0.06 * each) for each in known), (cell, known)


def figures(sides, side):
    """What a row of a screen may say of a case: its metrics, its time, the ends of both and of its speedup."""
    row = side.row
    for metric in sides.question.metrics:
        if not pd.isna(row.get(metric.column)):
            yield metric.scale * float(row[metric.column])
    ends = ("median_s", "ci_low_s", "ci_high_s", "range_low_s", "range_high_s")
    yield from (1e3 * row[name] for name in ends if not pd.isna(row[name]))
    if side.speedup:
        yield from filter(None, (side.speedup.value, side.speedup.low, side.speedup.high))
    yield 1.0


def screens():
    failed = [make_record(1000, 2, status="oom"), make_record(1, 4, status="unavailable")]
    oversubscribed = having(make_record(1, 8, 0.01, spread=0.9), cpu="a")
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
    yield "oversubscribed", [oversubscribed], None
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


def test_next_step_varies_a_key_that_was_not_varied():
    ranks = [make_record(world_size=number, suite="collective") for number in (2, 4)]
    of_one, of_two = (screen_of(tabulate_records(records)).next_steps for records in (ranks[:1], ranks))
    assert [len(of_one), len(of_two)] == [1, 1]
    assert "world_size" in of_one[0]
    assert "world_size" not in of_two[0]


def test_printed_times_have_the_printed_ratio():
    base, fast = screen_of(tabulate_records([job_in_turns(1.72, 9, 0.02)])).grid.rows
    assert float(base[1]) / float(fast[1]) == pytest.approx(float(fast[3]), rel=0.012)


def test_oversubscribed_cases_are_in_no_answer_beside_others():
    few, many = (having(make_record(1, ranks, ranks / 200), cpu="a") for ranks in (2, 8))
    answer, left_out = screen_of(tabulate_records([few, many])).answers
    assert "10.0 ms" in answer
    assert "8 ranks" in left_out
    [alone] = screen_of(tabulate_records([many])).answers
    assert "40.0 ms" in alone


def test_oversubscribed_ranks_are_told_by_their_cores_and_threads(golden):
    records = [make_record(1, ranks) for ranks in (2, 16, 8)]
    records += [make_record(1, ranks, threads_per_rank=3, cores_per_rank=1.25) for ranks in (2, 4)]
    golden(oversubscribed_ranks(tabulate_records(records)))
    assert oversubscribed_ranks(tabulate_records(records[:1])) == ""


def test_others_disturb_and_a_quota_does_not():
    def disturbed_by(**counters):
        record = make_record()
        [case] = record["cases"]
        return tabulate_records([record | {"cases": [case | {"disturbance": counters, "elapsed_s": 10.0}]}])

    others = disturbed_by(steal_s=[5.0, 0.0]), disturbed_by(host_busy_s=[9.0, 9.0], own_busy_s=[1.0, 1.0])
    assert all(map(is_mostly_disturbed, others))
    assert disturbed_by(throttled_s=[5.0, 0.0])["disturbed"].notna().all()
    assert not is_mostly_disturbed(disturbed_by(throttled_s=[5.0, 0.0]))
    assert not is_mostly_disturbed(disturbed_by())


def labelled(record, *labels, **changes):
    cases = [case | {"labels": each} for case, each in zip(record["cases"], labels, strict=True)]
    return record | {"cases": cases, "config": record["config"] | changes, "point_id": f"p{labels}{changes}"}


def test_several_settings_are_counted_by_what_their_ends_leave_to_say():
    ways = {"way": "base"}, {"way": "fast"}
    speedups = {1.0: (2.0, 0.02), 2.0: (0.5, 0.02), 3.0: (1.0001, 0.1)}
    jobs = [labelled(job_in_turns(how, 9, unlike), *ways, data_size=size) for size, (how, unlike) in speedups.items()]
    [answer] = screen_of(tabulate_records(jobs)).answers
    assert re.findall(r"(\w+) in (\d)", answer) == [("ahead", "1"), ("behind", "1"), ("unclear", "1")]


def test_more_than_ideal_is_counted_apart():
    jobs = []
    for workload, speedup in (("w1", 3.0), ("w2", 1.5)):
        of = {"scope": "resident", "workload": workload}
        labels = of | {"ranks": 1, "sharding": "none"}, of | {"ranks": 2, "sharding": "auto"}
        jobs.append(labelled(job_in_turns(speedup, 9, 0.02), *labels) | {"suite": "auto_shard", "title": "auto_shard"})
    [answer] = screen_of(tabulate_records(jobs)).answers
    assert re.findall(r"(ahead|ideal) in (\d)", answer) == [("ahead", "1"), ("ideal", "1")]


def test_variants_that_none_is_ahead_of_have_stars():
    job = job_in_turns(2.0, 9, 0.05)
    base, fast = job["cases"]
    twin = fast | {"labels": {"way": "twin"}, "samples_s": [list(reversed(each)) for each in fast["samples_s"]]}
    slow = fast | {"labels": {"way": "slow"}, "samples_s": [[3 * each for each in rank] for rank in fast["samples_s"]]}
    screen = screen_of(tabulate_records([job | {"cases": [base, fast, twin, slow]}]))
    [answer] = screen.answers
    assert all(way in answer.partition(":")[0] for way in ("fast", "twin"))
    assert [row[0] for row in screen.grid.rows if "*" in " ".join(row)] == [
        row[0] for row in screen.grid.rows if row[0] in ("fast", "twin")
    ]


def test_long_tables_leave_room_for_what_is_known():
    text = screen_of(tabulate_records([make_record(size) for size in range(1, 60)])).text()
    assert len(text.splitlines()) <= LINES
    assert "more rows" in text
    assert "How sure" in text


def test_claims_need_rounds():
    apart = screen_of(tabulate_records([*grid(), *grid(backend="mpi")])).text()
    assert "not judged" in apart
    few, enough = (screen_of(tabulate_records([job_in_turns(1.0001, rounds, 0.1)])).text() for rounds in (5, 9))
    assert "unclear in this run" in enough
    assert "5 of the 6 rounds that a claim needs" in " ".join(few.split())

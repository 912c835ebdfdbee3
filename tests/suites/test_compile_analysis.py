"""When compiling pays: break-even calls of known curves, the table and the figure of records."""

import numpy as np
import pytest
from analysis.suites.compile.table import BreakEven, break_even, round_estimate

from tests.support.records import compiled as record
from tests.support.reports import NARROW, drawn, harvested, texts_of

EAGER = [2.0] * 10


def found(times, baseline=EAGER):
    times, baseline = np.array(times), np.array(baseline)
    return break_even(times, baseline, times[len(times) // 2 :], baseline[len(baseline) // 2 :])


@pytest.mark.parametrize(
    ("times", "outcome", "call"),
    [
        ([2.0] + 9 * [1.0], "within", 1),  # never slower
        ([5.0] + 9 * [1.0], "within", 4),  # 5 + 3 = 4 x 2
        ([5.5] + 9 * [1.0], "within", 5),
        ([5.0, 1.0, 1.0, 1.0, 6.0] + 5 * [1.0], "within", 9),  # a recompilation: what was gained is lost once more
        ([11.0] + 9 * [1.0], "within", 10),
        ([12.0] + 9 * [1.0], "estimated", 11),  # 1 s behind after 10 calls, 1 s faster with each later one
        ([111.5] + 9 * [1.0], "estimated", 111),
        ([12.0] + 9 * [3.0], "never", None),
        ([30.0] + 9 * [1.9, 2.1], "unclear", None),
    ],
)
def test_break_even_of_known_curves(times, outcome, call):
    assert found(times[:10]) == BreakEven(outcome, call, 10)


def test_only_calls_of_both_are_compared():
    assert found([5.5] + 9 * [1.0], [2.0] * 4) == BreakEven("estimated", 5, 4)


def test_break_even_is_told():
    told = [str(found(times)) for times in ([5.0] + 9 * [1.0], [12345.0] + 9 * [1.0], [12.0] + 9 * [3.0])]
    assert told[:2] == ["4", "about 12000"]
    assert "never" in told[2]
    assert [round_estimate(count) for count in (7, 96, 104, 12_345)] == [7, 96, 100, 12_000]


def unavailable(compiler, number):
    made = record(compiler, EAGER, number)
    made["cases"][0] |= {"status": "unavailable", "reason": "CUDA graphs need a GPU", "samples_s": []}
    return made


def running(compiler, number):
    return record(compiler, EAGER, number) | {"status": "running", "cases": []}


def text_of(folder, *records):
    """The table of Markdown; "" where there is none."""
    return texts_of(harvested(folder, *records)).get("compile.md", "")


def cells(text, name):
    """The cells of the row of a compiler, by the heads of the table."""
    lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]
    [row] = [line for line in lines if line[0] == name]
    return dict(zip(lines[0], row, strict=True))


def test_table_and_figure_compare_with_eager(tmp_path, golden):
    fast, late = [5.0] + 9 * [1.0], [30.0] + 9 * [1.0]
    records = [record("eager", EAGER, 0), record("default", fast, 1), record("max-autotune", late, 2)]
    table = harvested(tmp_path, *records, unavailable("cuda_graph", 3), running("aot_eager", 4))
    texts = texts_of(table)
    golden(texts["compile.md"], NARROW)
    shown = cells(texts["compile.md"], "default")
    wanted = {"first step [s]": 5, "steady [ms]": 1000, "steady speedup": 2, "break-even [calls]": 4}
    assert {name: float(shown[name]) for name in wanted} == wanted
    assert "break_even_call" in texts["compile.csv"].splitlines()[0]
    assert set(drawn(table, "compile.png")[1]) == {"compile.png"}


def test_runs_are_one_curve_of_medians(tmp_path):
    firsts = (5.0, 6.0, 100.0)
    records = [record("default", [first] + 9 * [1.0], number) for number, first in enumerate(firsts)]
    for made, seconds in zip(records, (1.0, 2.0, 9.0), strict=True):
        made["cases"][0]["details"]["compile_s"] = seconds
    text = text_of(
        tmp_path, record("eager", EAGER, 9), *records, *(unavailable("cuda_graph", number) for number in (5, 6))
    )
    assert cells(text, "cuda_graph")  # one row
    row = cells(text, "default")
    assert (row["compile time [s]"], row["of each run"]) == ("2", "4, 5, about 99")
    assert (row["runs"], row["first step [s]"], row["break-even [calls]"]) == ("3", "6", "5")


def test_variants_are_told_apart(tmp_path):
    records = [record("default", EAGER, 1, cache=cache) for cache in ("cold", "warm")]
    text = text_of(tmp_path, record("eager", EAGER, 0), *records)
    assert cells(text, "default, cache=warm")["break-even [calls]"] == "1"
    assert cells(text, "eager")


def test_steady_state_is_that_of_last_size(tmp_path):
    times = [9.0, 1.0, 1.0, 1.0, 9.0, 2.0, 2.0, 2.0, 9.0, 0.5, 0.5, 0.5]
    made = record("default", times, 0, batch_sizes=[64, 48, 32])
    assert cells(text_of(tmp_path, made), "default")["steady [ms]"] == "500"


def test_curve_that_ends_before_last_size_says_where(tmp_path):
    whole, short = [3.0, 1.0, 1.0, 9.0, 0.5, 0.5], [3.0, 2.0]
    records = [record("eager", whole, 0, batch_sizes=[64, 32]), record("default", short, 1, batch_sizes=[64, 32])]
    records[1]["cases"][0]["details"]["calls_per_size"] = 3
    row = cells(text_of(tmp_path, *records), "default")
    assert (row["steady [ms]"], row["steady at [rows]"]) == ("2000", "64")
    assert "steady speedup" not in row


def test_warmed_up_calls_have_no_curve(tmp_path):
    made = record("default", EAGER, 0)
    made["config"]["measure"]["mode"] = "per_iteration"
    assert text_of(tmp_path, made) == ""


def test_workloads_and_sizes_have_sections_and_figures(tmp_path):
    other, larger = record("eager", EAGER, 1), record("eager", EAGER, 2, batch_sizes=[128])
    other["config"]["workload"] = "pointwise"
    table = harvested(tmp_path, record("eager", EAGER, 0), other, larger)
    text = texts_of(table)["compile.md"]
    assert len([line for line in text.splitlines() if line.startswith("## workload-")]) == 3
    assert any(name.startswith("compile_workload-pointwise") for name in drawn(table)[0])

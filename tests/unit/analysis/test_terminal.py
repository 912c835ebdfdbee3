"""The table on a terminal: it fits, its digits are those that intervals leave, and nothing is lost."""

import math
import re

import pytest
from analysis.cli import main
from analysis.screen.terminal import View, ViewError, as_text
from analysis.shared.text import (
    format_bounds,
    format_measurement,
    format_number,
    format_with_interval,
    half_width,
    time_text,
)
from analysis.table.combine import format_printed
from analysis.table.repetitions import aggregate_repetitions
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import grid, make_record, make_rich_record, tabulate_records, write_all

NONE = math.nan


@pytest.fixture(scope="module")
def of_grid():
    return tabulate_records(grid())


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (2.178, 0.45, "2.2"), (2.178, 0.012, "2.18"), (12345, 300, "12300"), (0.00123, 0.00005, "0.00123"),
        (2.178, NONE, "2.178"), (123456.7, NONE, "123457"), (5.0, 0.0, "5"), (NONE, 1, ""), (7.0, math.inf, "7"),
        (39.99999999999997, 1e-14, "40"), (0.488, 1.5, "0.49"), (-0.02, 3.0, "-0.020"), (0.0, 3.0, "0"),
        (99.98, 0.9998, "100"), (9.998, 0.09998, "10.0"), (0.09996, 0.0009996, "0.100"), (1.84, 1.2, "1.8"),
        (12345, 30000, "12000"), (2.0, 0.001, "2.000"), (2.0, 0.0001, "2"), (3e12, 1e12, "3000000000000"),
        (1.23456e10, NONE, "1.235e+10"),
    ],
)  # fmt: skip
def test_digits_follow_interval(value, half_width, text):
    assert format_number(value, half_width) == text


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (0.0025641, NONE, "0.00256"), (10794.3, NONE, "10800"), (104856.0, NONE, "104856"),
        (2.3149, 0.2, "2.3"), (0.0, NONE, "0"), (NONE, NONE, ""), (-119.71, NONE, "-120"),
    ],
)  # fmt: skip
def test_measured_figures_without_interval_have_three_digits(value, half_width, text):
    assert format_measurement(value, half_width) == text


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ((2.178e-3, 1.9e-3, 2.8e-3, NONE, NONE), "2.2 [1.9, 2.8]"),
        ((0.66e-3, 0.29e-3, 3.7e-3, NONE, NONE), "0.66 [0.29, 3.7]"),
        ((0.0, 0.0, 0.0, NONE, NONE), "0 [0, 0]"),
        ((2.178e-3, NONE, NONE, 1.9e-3, 2.8e-3), "2.2 (1.9 to 2.8)"),
        ((1.72e-3, NONE, NONE, 1.54e-3, 4.72e-3), "1.7 (1.5 to 4.7)"),
        ((1.97e-3, 1.96e-3, 3e-3, NONE, NONE), "2.0 [1.96, 3.0]"),
        ((1.642, NONE, NONE, 1.642, 1.642), "1642 (1642 to 1642)"),
        ((NONE,) * 5, ""),
    ],
)
def test_time_has_its_interval(cells, text):
    assert time_text(*cells) == text


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ((1.11, 1.06, 1.19), "1.11 [1.06, 1.19]"), ((4.5, 0.0, math.inf), "4.5 [0, inf]"), ((NONE, 1.0, 2.0), ""),
        ((1.114, NONE, 1.2), "1.11"), ((1.2345, 1.2344, 1.2346), "1.234 [1.234, 1.235]"),
    ],
)  # fmt: skip
def test_value_has_its_interval(cells, text):
    assert format_with_interval(*cells) == text


SIZES = st.floats(1e-6, 1e9)
SHARES = st.floats(-5, 2).map(lambda power: 1 + 10**power)
"""Numbers above 1, many of them close to it."""


def ends_in(text):
    """What stands in brackets."""
    return [float(each) for each in re.split(", | to ", text.strip("[()]"))]


@given(SIZES, SHARES, SHARES, st.booleans())
def test_median_is_within_its_ends_as_printed_and_differs_where_they_do(low, up, further, is_interval):
    median, high = low * up, low * up * further
    known, unknown = (low / 1e3, high / 1e3), (NONE, NONE)
    cells = (median / 1e3, *(known + unknown if is_interval else unknown + known))
    value, _, beside = time_text(*cells).partition(" ")
    least, most = ends_in(beside)
    assert least <= float(value) <= most
    assert least <= float(format_number(median)) <= most  # the median has four digits in full_results.md
    assert least < float(value) or up < 1.1
    assert float(value) < most or further < 1.1


@given(SIZES, SHARES, SHARES)
def test_value_of_three_digits_is_within_its_ends_as_printed(low, up, further):
    value, high = low * up, low * up * further
    half = max(half_width(low, high), value / 100)
    least, most = map(float, format_bounds(low, high, half, value))
    assert least <= float(format_number(value, value / 100)) <= most
    assert least <= float(format_number(value, half)) <= most


def test_ends_have_the_digits_of_their_median(of_grid):
    """Half a width of 0.1001 times an end of 0.995 would have a digit more."""
    table = of_grid.iloc[:1].assign(median_s=2.044e-3, ci_low_s=2.035e-3, ci_high_s=2.2352e-3)
    names = ["ci_low_s", "median_s", "ci_high_s"]
    assert as_text(table, names).splitlines()[-1].split() == ["2.0", "2.0", "2.2"]


@given(SIZES, st.floats(1.1001, 1e3), SIZES, SIZES)
def test_digits_never_turn_an_order_round(less, factor, one, other):
    assert float(format_number(less, one)) < float(format_number(less * factor, other))


@given(SIZES | st.integers(-6, 8).map(lambda power: 10.0**power))
def test_three_digits_are_three_after_rounding(value):
    text = format_number(value, value / 100)
    assert len(text.replace(".", "").lstrip("0")) == max(3, len(text.partition(".")[0]))
    assert float(text) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize("suite", ["tp_columnwise", "transformer", "auto_shard"])
def test_table_fits_terminal(suite):
    table = tabulate_records([make_rich_record(suite)] * 2)
    for width in (60, 80, 160):
        lines = as_text(table, width=width).split("\n\n")[-1].splitlines()
        drawn = lines[: 2 + next(number for number, line in enumerate(lines) if "──" in line)]
        assert max(map(len, drawn)) <= width


def test_settings_fit_terminal_by_being_joined(of_grid):
    narrow, wide = (as_text(of_grid, width=width) for width in (50, 160))
    assert max(map(len, narrow.partition("\n\n")[0].splitlines())) <= 50
    assert "world_size" in wide
    assert "case" not in wide
    assert narrow.count("\n") >= len(of_grid)


def test_narrow_terminal_leaves_words_of_cases():
    record = make_rich_record("tp_columnwise")
    for case in record["cases"]:
        case["labels"]["way"] = "pipeline AG_before chunks 8"
    record["cases"][0]["labels"]["way"] = "other"
    words = as_text(tabulate_records([record]), width=24).split()
    assert (words.count("AG_before"), words.count("to")) == (3, 4)


@pytest.mark.parametrize("width", [20, 100])
def test_asked_columns_are_whole_at_any_width(of_grid, width):
    names = ["suite", "data_size", "median_s", "p95_s", "busbw_gb_per_s", "payload_bytes", "started_at"]
    shown, whole = (as_text(of_grid, names, wide).splitlines()[3:] for wide in (width, 400))
    assert [line.split() for line in shown] == [line.split() for line in whole]


def test_wide_letters_and_markup_are_text():
    record = make_record(device="漢字漢字漢字", title="[red]x[/red]")
    record["config"]["dtype"] = "[bold]y"
    table = tabulate_records([record, make_record()])
    assert "漢字漢字漢字" in as_text(table, ["device"])
    assert "[bold]y" in as_text(table)


def runs_of(*seconds, **changes):
    """One point, measured as often as there are times."""
    return [make_record(1.0, 2, each, run=f"s#{n}" if n else "s", **changes) for n, each in enumerate(seconds)]


@pytest.mark.parametrize(
    ("records", "head", "rate"),
    [
        (runs_of(1e-3), "95 % interval", "1.049"),
        (runs_of(1e-3, 2e-3), "range", "0.699"),
        ([*runs_of(1e-3, 2e-3), make_record(5.0)], "95 % interval or range", "0.699"),
        ([*runs_of(1e-3, 2e-3), make_record(5.0, samples=2)], "range", "0.699"),
    ],
)
def test_head_says_what_stands_beside_medians_and_rates_have_their_digits(records, head, rate):
    table = aggregate_repetitions(tabulate_records([{"run": "s", **record} for record in records]))
    lines = as_text(table, width=200).splitlines()
    assert head in [line.strip() for line in lines[2:5] for line in line.split("  ")]
    assert f"{head} [ms]" in format_printed(table)
    assert as_text(table, ["busbw_gb_per_s"]).splitlines()[3].split()[-1] == rate


def test_shared_sizes_have_units():
    assert "data_size 16 MiB" in as_text(tabulate_records([make_record(16.0, 2), make_record(16.0, 4)]))


def test_outcomes_warnings_and_doubts_stand_below_once(golden):
    """Reasons that differ in numbers only share a note."""
    wants = ["needs 2 ranks x 214.7 GB, 23.89 GB there", "needs 2 ranks x 214.7 GB, 23.8 GB there", "no GPU"]
    records = [
        *grid()[:2],
        *(make_record(size, status="timeout") for size in (8.0, 9.0)),
        *(make_record(10.0 + n, status="skipped", error={"message": why}) for n, why in enumerate(wants)),
        *(make_record(size, warnings=["clocks are not locked"]) for size in (20.0, 21.0)),
        make_record(2.0, 8),  # ranks that share cores
        make_record(4.0, 8, status="crash"),
        make_record(30.0, samples=2),
    ]
    table = tabulate_records(records)
    golden(as_text(table, width=110))
    assert len(as_text(table, ["data_size"]).splitlines()) == 2 + len(table)
    assert "outcome" in as_text(table[table["status"] != "ok"])
    assert "cores_per_rank" in format_printed(table)
    assert "cores_per_rank" not in format_printed(table[table["world_size"] == 2])


def test_view_selects_sorts_and_cuts(of_grid):
    view = View(("data_size", "median_s"), ("median_s:desc",), 2, "world_size == 2")
    head, units, _, *rows = view.text_of(of_grid).splitlines()
    assert [head.split(), units.split()] == [["median"], ["data_size", "[ms]"]]
    assert len(rows) == 2
    times = [float(row.split()[-1]) for row in rows]
    expected = of_grid[of_grid["world_size"] == 2]["median_s"].nlargest(2) * 1e3
    assert times == pytest.approx(expected.tolist(), rel=1e-3)


def test_groups_have_median_range_and_count_what_was_not_measured(of_grid):
    head, units, _, *rows = View(group_by=("world_size",)).text_of(of_grid).splitlines()
    assert [head.split(), units.split()] == [["median", "min", "max"], ["world_size", "rows", *["[ms]"] * 3]]
    assert sum(int(row.split()[1]) for row in rows) == len(grid())
    table = tabulate_records([*grid(), make_record(9.0, status="timeout")])
    rows = [line.split() for line in View(group_by=("status",)).text_of(table).splitlines()[3:]]
    assert [row[:3] for row in rows] == [["ok", "6", "6"], ["timeout", "1", "0"]]


def test_groups_have_the_median_of_any_figure(of_grid):
    view = View(("median_s", "mean_s"), ("mean_s:desc",), group_by=("world_size", "dtype"))
    head, units, _, *rows = view.text_of(of_grid).splitlines()
    assert [head.split(), units.split()] == [["median", "mean"], ["world_size", "dtype", "[ms]", "[ms]"]]
    assert [row.split()[:2] for row in rows] == [["4", "float32"], ["2", "float32"]]
    assert [[float(each) for each in row.split()[2:]] for row in rows] == [[20, 20], [10, 10]]
    of_two = View(("world_size", "busbw_gb_per_s"), group_by=("world_size",)).text_of(of_grid.assign(status="oom"))
    assert [row.split() for row in of_two.splitlines()[3:]] == [["2"], ["4"]]  # what failed has no figure


def test_condition_of_truth_values_selects_rows(of_grid):
    table = of_grid.assign(converged=[True, None, False] * 2)
    assert len(View(("suite",), where="converged").text_of(table).splitlines()) == 2 + 2


def test_wrong_view_is_one_line(of_grid, golden):
    errors = []
    for view in (
        View(columns=("median",)), View(sort=("zzz:desc",)), View(group_by=("ranks",)), View(group_by=("median_s",)),
        View(group_by=("min_s",)), View(("backend",), group_by=("dtype",)), View(("mean",), group_by=("dtype",)),
        View(sort=("data_size:desc",), group_by=("dtype",)),
        *(View(where=each) for each in ("world == 2", "suite == gloo", "data_size", '"x"', "(data_size > 1", "[True]")),
    ):  # fmt: skip
        with pytest.raises(ViewError) as error:
            view.text_of(of_grid)
        errors.append(str(error.value))
    golden("\n".join(errors))
    for where in ("1/0", "lambda: 1", "__import__('os')", "@table", "1", "world_size =="):
        with pytest.raises(ViewError) as error:
            View(where=where).text_of(of_grid)
        assert len(str(error.value).splitlines()) == 1


def test_view_prints_and_writes_no_file(tmp_path, capsys, golden):
    folder = write_all(tmp_path, grid())
    assert main([str(folder), "--top", "1", "--columns", "suite, suite,,title"]) == 0
    assert main([str(folder), "--sort", "median"]) == 2
    assert main([str(folder), "--where", "data_size > 1000"]) == 1
    for asked in (["--html"], ["--output-dir", "r"], ["--show", "analysis.txt"], ["--format", "pdf"]):
        assert main([str(folder), "--top", "1", *asked]) == 2
    golden("".join(capsys.readouterr()))
    assert not (folder / "report").exists()


def test_table_is_printed_where_files_cannot_be_written(tmp_path, capsys):
    folder = write_all(tmp_path, grid())
    (folder / "report").write_text("a file in the folder's place")
    assert main([str(folder), "--show", "analysis.txt"]) == 1
    said = capsys.readouterr()
    assert "1 MiB" in said.out
    assert " in " + str(folder) not in said.out
    assert "--output-dir" in said.err
    assert said.err.count("\n") == 1

"""The table on a terminal: it fits, its digits are those that intervals leave, and nothing is lost."""

import math

import pytest
from analysis.__main__ import main
from analysis.cells import figure, measured, time_text
from analysis.repetitions import over_repetitions
from analysis.shown import Shown, column_of
from analysis.table import for_print
from analysis.terminal import CROWDED, as_text, rendered
from analysis.view import View, ViewError, names_in

from tests.support.records import grid, make_record, make_rich_record, tabulate_records, write_all

NONE = math.nan


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (2.178, 0.45, "2.2"), (2.178, 0.012, "2.18"), (12345, 300, "12300"), (0.00123, 0.00005, "0.00123"),
        (2.178, NONE, "2.178"), (123456.7, NONE, "123457"), (5.0, 0.0, "5"), (NONE, 1, ""), (7.0, math.inf, "7"),
        (39.99999999999997, 1e-14, "40"),
    ],
)  # fmt: skip
def test_digits_follow_interval(value, half_width, text):
    assert figure(value, half_width) == text


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ((2.178e-3, 1.9e-3, 2.8e-3, NONE, NONE, NONE), "2.2 [1.9, 2.8]"),
        ((2.178e-3, NONE, NONE, NONE, NONE, NONE), "2.2 [?]"),
        ((2.1e-3, NONE, NONE, 3, 2e-3, 2.2e-3), "2.1 [2.0, 2.2] of 3 runs"),
        ((NONE,) * 6, ""),
    ],
)
def test_time_has_its_interval(cells, text):
    assert time_text(*cells) == text


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("suite", ["tp_columnwise", "transformer", "ring_attention", "auto_shard", "collective"])
def test_table_fits_terminal(suite, width):
    table = tabulate_records([make_rich_record(suite), make_rich_record(suite, status="ok")])
    lines = as_text(table, width=width).split("\n\n")[-1].splitlines()
    drawn = lines[: 2 + next(number for number, line in enumerate(lines) if "──" in line)]
    assert max(map(len, drawn)) <= width


@pytest.mark.parametrize("width", [20, 60, 100])
def test_asked_columns_are_whole_at_any_width(width):
    names = ["suite", "data_size", "median_s", "p95_s", "busbw_gb_per_s", "payload_bytes", "started_at"]
    table = tabulate_records(grid())
    shown, whole = (as_text(table, names, wide).splitlines()[3:] for wide in (width, 400))
    assert [line.split() for line in shown] == [line.split() for line in whole]


def test_wide_letters_are_whole():
    table = tabulate_records([make_record(device="漢字漢字漢字"), make_record()])
    assert "漢字漢字漢字" in as_text(table, ["device"])


def test_narrow_terminal_leaves_words_of_cases():
    columns = [Shown("case", ["pipeline AG_before chunks 8"], is_wrapped=True), Shown("bytes", ["9" * 20])]
    assert "pipeline AG_before" in rendered(columns, 24)


def runs_of(*seconds, **changes):
    """One point, measured as often as there are times."""
    return [make_record(1.0, 2, each, run=f"s#{n}" if n else "s", **changes) for n, each in enumerate(seconds)]


@pytest.mark.parametrize(
    ("records", "head"),
    [
        (runs_of(1e-3), "95 % interval"),
        (runs_of(1e-3, 2e-3), "range of runs"),
        ([*runs_of(1e-3, 2e-3), make_record(5.0)], "95 % interval or range of runs"),
        ([*runs_of(1e-3, 2e-3), make_record(5.0, samples=2)], "range of runs"),
    ],
)
def test_head_says_what_stands_beside_medians(records, head):
    table = over_repetitions(tabulate_records([{"run": "s", **record} for record in records]))
    assert head in [line.strip() for line in as_text(table, width=200).splitlines()[2:5] for line in line.split("  ")]
    assert f"{head} [ms]" in for_print(table)


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (0.0025641, NONE, "0.00256"), (2.3149, NONE, "2.31"), (10794.3, NONE, "10800"), (104856.0, NONE, "104856"),
        (2.3149, 0.2, "2.3"), (0.0, NONE, "0"), (NONE, NONE, ""), (-119.71, NONE, "-120"),
    ],
)  # fmt: skip
def test_measured_figures_without_interval_have_three_digits(value, half_width, text):
    assert measured(value, half_width) == text


@pytest.mark.parametrize("seconds", [(1e-3,), (1e-3, 2e-3)])
def test_rate_has_digits_of_its_time(seconds):
    table = over_repetitions(tabulate_records(runs_of(*seconds)))
    [rate] = column_of(table, "busbw_gb_per_s").cells
    assert rate == {1: "1.05", 2: "0.7"}[len(seconds)]


def test_shared_settings_fit_terminal():
    head, _, _ = as_text(tabulate_records(grid()), width=60).partition("\n\n")
    assert max(map(len, head.splitlines())) <= 60


def test_shared_sizes_have_units():
    assert "data_size 16 MiB" in as_text(tabulate_records([make_record(16.0, 2), make_record(16.0, 4)]))


def test_wide_settings_are_joined():
    narrow, wide = (as_text(tabulate_records(grid()), width=width) for width in (50, 160))
    assert "world_size" in wide
    assert "case" not in wide
    assert narrow.count("\n") >= len(grid())


def test_outcomes_are_numbered_below():
    records = [*grid(), make_record(9.0, status="timeout"), make_record(8.0, status="timeout")]
    text = as_text(tabulate_records(records))
    assert text.count("timeout (1)") == 2
    assert text.count("(1) timeout: it went timeout") == 1
    assert "timeout" not in as_text(tabulate_records(grid()))


def test_outcomes_take_no_column_of_their_own():
    table = tabulate_records([*grid(), make_record(9.0, status="timeout")])
    [cell] = [row.split()[-1] for row in as_text(table).splitlines() if "timeout" in row][:1]
    assert "outcome" not in as_text(table)
    assert "outcome" in as_text(table[table["status"] != "ok"])
    assert cell == "(1)"


def test_reasons_that_differ_in_numbers_share_a_note():
    wants = ["needs 2 ranks x 214.7 GB, 23.89 GB there", "needs 2 ranks x 214.7 GB, 23.8 GB there", "no GPU"]
    ends = [make_record(9.0 + n, status="skipped", error={"message": why}) for n, why in enumerate(wants)]
    text = as_text(tabulate_records([*grid(), *ends]))
    assert [text.count(f"skipped ({number})") for number in (1, 2, 3)] == [2, 1, 0]
    assert f"(1) skipped: {wants[0]} (other numbers in other rows)\n(2) skipped: no GPU" in text


def test_warnings_stand_below_once():
    records = [make_record(size, warnings=["clocks are not locked"]) for size in (1.0, 2.0)]
    assert as_text(tabulate_records(records)).count("warning: clocks are not locked (2 rows)") == 1


def test_markup_is_text():
    record = make_record(title="[red]x[/red]")
    record["config"]["dtype"] = "[bold]y"
    assert "[bold]y" in as_text(tabulate_records([record]))


def test_view_selects_sorts_and_cuts():
    table = tabulate_records(grid())
    view = View(("data_size", "median_s"), ("median_s:desc",), 2, "world_size == 2")
    head, units, _, *rows = view.text_of(table).splitlines()
    assert [head.split(), units.split()] == [["median"], ["data_size", "[ms]"]]
    assert len(rows) == 2
    times = [float(row.split()[-1]) for row in rows]
    expected = table[table["world_size"] == 2]["median_s"].nlargest(2) * 1e3
    assert times == pytest.approx(expected.tolist(), rel=1e-3)


def test_groups_have_median_and_range():
    text = View(group_by=("world_size",)).text_of(tabulate_records(grid()))
    head, units, _, *rows = text.splitlines()
    assert [head.split(), units.split()] == [["median", "min", "max"], ["world_size", "rows", *["[ms]"] * 3]]
    assert sum(int(row.split()[1]) for row in rows) == len(grid())


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (View(columns=("median",)), "--columns median: no such column; did you mean median_s or mean_s?"),
        (View(sort=("zzz:desc",)), "--sort zzz: no such column; combined.csv has the names"),
        (View(group_by=("ranks",)), "--group-by ranks: no such column; "),
        (View(where="world == 2"), "--where 'world == 2': world: no such column; did you mean world_size?"),
        (View(where="suite == gloo"), "--where 'suite == gloo': gloo: no column, but a value; write it in quotes"),
        (View(where="data_size"), "--where 'data_size': not a condition on rows; e.g. \"world_size == 2\""),
        (View(where='"x"'), "--where '\"x\"': not a condition on rows; "),
        (View(where="(data_size > 1"), "--where '(data_size > 1': not a valid expression; "),
        (View(where="1/0"), "--where '1/0': division by zero; "),
        (View(where="lambda: 1"), "--where 'lambda: 1': "),
        (View(where="[True]"), "--where '[True]': not a condition on rows; "),
        (View(group_by=("median_s",)), "--group-by median_s: a figure; allowed are settings, such as world_size"),
        (View(group_by=("min_s",)), "--group-by min_s: a figure; "),
        (View(where="world_size =="), "--where 'world_size ==': not a valid expression; "),
        (View(where="__import__('os')"), "--where \"__import__('os')\": "),
        (View(where="@table"), "--where '@table': "),
        (View(where="1"), "--where '1': "),
    ],
)
def test_wrong_view_is_one_line(view, said):
    with pytest.raises(ViewError) as error:
        view.text_of(tabulate_records(grid()))
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_groups_count_what_was_not_measured():
    table = tabulate_records([*grid(), make_record(9.0, status="timeout")])
    rows = [line.split() for line in View(group_by=("status",)).text_of(table).splitlines()[3:]]
    assert [row[:3] for row in rows] == [["ok", "6", "6"], ["timeout", "1", "0"]]
    rows = [line.split() for line in View(group_by=("data_size",)).text_of(table).splitlines()[3:]]
    assert [row[-1] for row in rows] == ["2", "20", "200", "0"]


def test_condition_of_truth_values_selects_rows():
    table = tabulate_records(grid()).assign(converged=[True, None, False] * 2)
    assert len(View(("suite",), where="converged").text_of(table).splitlines()) == 2 + 2


def test_names_are_taken_once():
    assert names_in("timing, timing,,suite") == ("timing", "suite")


def test_view_of_columns_has_no_notes():
    table = tabulate_records([make_record(samples=2, warnings=["hot"]), make_record(9.0, status="timeout")])
    assert "[?]: too few" in as_text(table)
    assert len(as_text(table, ["data_size"]).splitlines()) == 2 + len(table)


def test_no_row_is_one_line(tmp_path, capsys):
    folder = write_all(tmp_path, grid())
    assert main([str(folder), "--where", "data_size > 1000"]) == 1
    assert capsys.readouterr() == ("", "analysis: --where 'data_size > 1000': no row of 6 matches\n")


@pytest.mark.parametrize("asked", [["--html"], ["--output-dir", "r"], ["--show", "analysis.txt"], ["--format", "pdf"]])
def test_view_excludes_files(tmp_path, capsys, asked):
    folder = write_all(tmp_path, grid())
    assert main([str(folder), "--top", "1", *asked]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"analysis: {asked[0]}: --columns, --sort, --top, --where, --group-by print a table")
    assert said.err.count("\n") == 1


def test_table_is_printed_where_files_cannot_be_written(tmp_path, capsys):
    folder = write_all(tmp_path, grid())
    (folder / "analysis").write_text("a file in the folder's place")
    assert main([str(folder), "--show", "analysis.txt"]) == 1
    said = capsys.readouterr()
    assert "median [ms]" in said.out
    assert "wrote" not in said.out
    assert said.err.endswith("; --output-dir D writes elsewhere\n")
    assert said.err.count("\n") == 1


def test_view_writes_no_file(tmp_path, capsys):
    folder = write_all(tmp_path, grid())
    assert main([str(folder), "--top", "1", "--columns", "suite"]) == 0
    assert capsys.readouterr().out.split()[-1] == "allreduce"
    assert not (folder / "analysis").exists()
    assert main([str(folder), "--sort", "median"]) == 2
    assert capsys.readouterr().err.startswith("analysis: --sort median: no such column")


@pytest.mark.parametrize(("median_s", "text"), [(0.1694, "170 [?]"), (1.642, "1600 [?]"), (3.4e-4, "0.34 [?]")])
def test_median_without_interval_has_two_digits(median_s, text):
    unknown = [math.nan] * 5
    assert time_text(median_s, *unknown) == text


def test_wide_interval_leaves_digit_of_lower_end():
    assert time_text(0.66e-3, 0.29e-3, 3.7e-3, *[math.nan] * 3) == "0.7 [0.3, 3.7]"
    assert time_text(0.0, 0.0, 0.0, *[math.nan] * 3) == "0 [0, 0]"


def test_rows_of_crowded_ranks_are_marked():
    calm, crowded, failed = make_record(1.0), make_record(2.0, 8), make_record(4.0, 8, status="crash")
    table = tabulate_records([calm, crowded, failed])
    marked = [CROWDED in line for line in as_text(table, width=200).splitlines() if "MiB" in line]
    assert marked == [False, True, False]
    assert f"\n{CROWDED}: " in as_text(table)
    assert CROWDED not in as_text(tabulate_records([calm, failed]))
    assert "cores_per_rank" in for_print(table)
    assert "cores_per_rank" not in for_print(tabulate_records([calm]))

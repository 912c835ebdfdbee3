"""The table of a suite on the page."""

import pandas as pd
import pytest
from analysis.page.filters import filters_of
from analysis.page.measurements import measurements_of
from analysis.report.chart import PAGE_ROW

from tests.support.records import grid, make_record, tabulate_records

SAMPLE = {"counts": [1, 2, 4]}


def table_of(records):
    table = tabulate_records(records)
    return table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})


def test_numbers_are_those_of_csv():
    table = table_of([*grid(), make_record(5.0, status="crash")])
    shown = measurements_of(table, {})
    columns = [column.name for column in shown.columns]
    assert {"median_s", "busbw_gb_per_s", "data_size", "world_size", "status", "reason"} <= set(columns)
    rows = table.set_index(PAGE_ROW)
    num_compared = 0
    for row in shown.rows:
        for column, cell in zip(shown.columns, row.cells, strict=True):
            if cell.value:
                assert float(cell.value) == rows.loc[row.id, column.name]
                num_compared += 1
    assert num_compared > 60


def test_kinds_of_columns():
    shown = measurements_of(table_of([*grid(), make_record(5.0, status="crash")]), {})
    kinds = {column.name: column.kind for column in shown.columns}
    assert (kinds["median_s"], kinds["status"], kinds["reason"]) == ("number", "", "long")
    heads = {column.name: column.head for column in shown.columns}
    assert heads["median_s"] == "median [ms]"


def test_shared_settings_are_above_table():
    shown = measurements_of(table_of(grid()), {})
    assert shown.shared["backend"] == "gloo"
    assert not {"backend", "status"} & {column.name for column in shown.columns}
    assert measurements_of(table_of(grid()[:1]), {}).shared == {}


def test_histogram_stands_for_samples():
    table = table_of(grid())
    shown = measurements_of(table, {"r0": SAMPLE})
    assert [bool(row.spark) for row in shown.rows] == [True] + 5 * [False]


def test_repetitions_are_one_row_with_all_their_samples():
    records = [
        make_record(size, run=run) | {"started_at": f"2026-01-0{day}T00:00:00.000+00:00"}
        for day, run in ((1, "s"), (2, "s#2"), (3, "s#3"))
        for size in (1.0, 2.0)
    ]
    shown = measurements_of(table_of(records), {})
    assert shown.members == {"r4": ["r0", "r2", "r4"], "r5": ["r1", "r3", "r5"]}
    assert [row.id for row in shown.rows] == ["r4", "r5"]


def test_filters_have_values_in_order():
    filters = {each.column: each.values for each in filters_of(tabulate_records(grid()))}
    assert filters == {"world_size": ["2", "4"], "data_size": ["1 MiB", "10 MiB", "100 MiB"]}
    many = tabulate_records([make_record(float(size)) for size in range(1, 30)])
    assert filters_of(many) == []


def test_missing_setting_is_a_choice():
    table = tabulate_records([*grid()[:2], make_record(suite="other", dtype=None)])
    table["dtype"] = pd.Series(["float32", None, "float32"], dtype=object)
    assert ("dtype", ["float32", "–"]) in [(each.column, each.values) for each in filters_of(table)]


@pytest.mark.parametrize("column", ["world_size", "data_size"])
def test_chosen_values_are_those_of_filters(column):
    shown = measurements_of(table_of(grid()), {})
    [values] = [each.values for each in shown.filters if each.column == column]
    assert {chosen[column] for chosen in shown.chosen.values()} == set(values)

"""The table of a suite on the page, and its filters."""

import pandas as pd
from analysis.page.measurements import filters_of, measurements_of

from tests.support.entries.report import with_ids
from tests.support.records import grid, make_record, tabulate_records


def shown_of(records):
    return measurements_of(with_ids(tabulate_records(records)), {})


def test_columns_have_kinds():
    shown = shown_of([*grid(), make_record(5.0, status="crash")])
    kinds = {column.name: column.kind for column in shown.columns}
    assert (kinds["median_s"], kinds["status"], kinds["reason"]) == ("number", "", "long")
    assert not {"backend", "dtype"} & set(kinds)
    assert shown_of(grid()[:1]).shared == {}


def test_large_numbers_are_printed_whole():
    shown = shown_of([make_record(1.0, seconds=30.59, samples=3), make_record(2.0, seconds=41.0, samples=3)])
    texts = [cell.text for row in shown.rows for cell in row.cells]
    assert not any("e+" in text for text in texts)
    assert any(text.startswith("30590") for text in texts)


def test_repetitions_are_one_row_with_all_their_samples():
    records = [
        make_record(size, run=run) | {"started_at": f"2026-01-0{day}T00:00:00.000+00:00"}
        for day, run in ((1, "s"), (2, "s#2"), (3, "s#3"))
        for size in (1.0, 2.0)
    ]
    shown = shown_of(records)
    assert shown.members == {"r4": ["r0", "r2", "r4"], "r5": ["r1", "r3", "r5"]}
    assert [row.id for row in shown.rows] == ["r4", "r5"]


def test_filters_have_values_in_order_which_rows_have():
    shown = shown_of(grid())
    filters = {each.column: each.values for each in shown.filters}
    assert filters == {"world_size": ["2", "4"], "data_size": ["1 MiB", "10 MiB", "100 MiB"]}
    for column, values in filters.items():
        assert {chosen[column] for chosen in shown.chosen.values()} == set(values)
    assert shown_of([make_record(float(size)) for size in range(1, 30)]).filters == []


def test_missing_setting_is_a_choice():
    table = tabulate_records([*grid()[:2], make_record(suite="other", dtype=None)])
    table["dtype"] = pd.Series(["float32", None, "float32"], dtype=object)
    assert ("dtype", ["float32", "–"]) in [(each.column, each.values) for each in filters_of(table)]

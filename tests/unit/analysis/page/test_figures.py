"""Charts as the page draws and describes them."""

import json
import re
from dataclasses import replace
from itertools import product

import altair as alt
import pandas as pd
import pytest
from analysis.page import figures
from analysis.page.figures import sample_specs
from benchkit.suites.transformer.suite import PASSES

from tests.support.entries.report import PAGE_ROW, chart, draw, modules_with, with_ids
from tests.support.records import grid, make_rich_record, tabulate_records
from tests.support.reports import charts

SUITES = ("collective", "ring_attention", "tp_columnwise", "transformer", "auto_shard")


def make_chart(mark=chart.LINES, names=("a", "b"), panels=("",), scale=chart.NAMES, **changes):
    cells = [(panel, name, x, float(x + 1)) for panel in panels for name in names for x in range(3)]
    rows = pd.DataFrame(cells, columns=["panel", "series", "x", "value"])
    x = rows["x"].astype(str) if scale == chart.NAMES else rows["x"]
    points = chart.chart_points(rows, x, ("value",), rows["series"], rows["panel"]).assign(text="word")
    axes = {"x": chart.Axis("x", scale), "y": chart.Axis("y [ms]")}
    return chart.Chart(mark=mark, title="T", note="", points=points, **axes, **changes)


def is_valid(spec):
    """Whether a specification is one by the schema of Vega-Lite."""
    return alt.Chart.from_dict({"$schema": alt.SCHEMA_URL, **spec}) is not None


def kind_of(each):
    """What decides how a specification looks."""
    return (
        each.mark,
        each.x,
        each.y,
        len(each.panels) > 1,
        each.curves is None,
        each.reference,
        len(each.all_series) > 1,
    )


@pytest.fixture(scope="module")
def charts_of_suites():
    """The charts of each suite."""
    tables = {suite: with_ids(tabulate_records([make_rich_record(suite)])) for suite in SUITES}
    modules = [module for _, module in modules_with("show")]
    return {
        suite: (table, [each for module in modules for each in module.show(table, None).values()])
        for suite, table in tables.items()
    }


def test_every_kind_of_chart_of_every_suite_is_valid(charts_of_suites):
    kinds = set()
    for _, found in charts_of_suites.values():
        assert found
        for each in [*found, *map(chart.simplified, found)]:
            made = figures.figure_of(each)
            assert made == json.loads(json.dumps(made))
            if kind_of(each) not in kinds:
                assert is_valid(made["spec"])
            kinds.add(kind_of(each))
    assert {mark for mark, *_ in kinds} >= {chart.LINES, chart.DOTS, chart.STACKS, chart.CELLS}


def test_notes_name_hardware(charts_of_suites):
    for table, found in charts_of_suites.values():
        [name] = table["device_name"].unique()
        assert {each.small_print.count(name) for each in found} == {1}


def test_points_have_values_of_table():
    table = with_ids(tabulate_records(grid()))
    points = charts(table)["allreduce_time_vs_datasize"].points
    measured = table.set_index(["world_size", "data_size"])["median_s"]
    for _, point in points.iterrows():
        ranks = int(point["series"].split()[0])
        assert point["value"] == 1e3 * measured[ranks, point["x"] / 2**20]
    assert set(points[PAGE_ROW]) == set(table[PAGE_ROW])


@pytest.mark.parametrize(("y", "order"), [("time [ms]", ["b", "c", "a"]), ("rate [GB/s]", ["a", "c", "b"])])
@pytest.mark.parametrize(("most", "mark"), [(4.0, chart.BARS), (400.0, chart.DOTS)])
def test_points_over_one_setting_become_sorted_marks_beside_their_names(y, order, most, mark):
    made = make_chart(names=("a", "b", "c"), scale=chart.LOG)
    points = made.points[made.points["x"] == 1].assign(value=[most, 1.0, 2.0])
    made = chart.simplified(replace(made, points=points, y=chart.Axis(y, chart.LOG)))
    assert (made.mark, list(made.points["x"])) == (mark, order)
    assert "1" in made.note
    assert figures.legend_of(made) == []
    assert is_valid(figures.spec_of(made))


def test_panels_far_apart_have_axes_of_their_own():
    for factor, is_shared in ((2, True), (100, False)):
        made = make_chart(panels=("p", "q"))
        points = made.points.assign(value=made.points["value"].where(made.points["panel"] == "p", factor))
        assert chart.simplified(replace(made, points=points)).is_shared == is_shared


def test_series_have_one_number_in_all_charts():
    """Those of charts that share a series are numbered together, others from 0 on."""
    names = (("10 ranks", "2 ranks"), ("2 ranks", "4 ranks"), ("lut", "even"))
    assert chart.number_series([make_chart(names=each) for each in names]) == {
        "2 ranks": 0, "4 ranks": 1, "10 ranks": 2, "even": 0, "lut": 1,
    }  # fmt: skip


def test_columns_hold_points_then_curves():
    curve = pd.DataFrame({"panel": "", "series": "ideal", "x": [0.0, 2.0], "value": [1.0, 3.0]})
    columns = figures.columns_of(make_chart(scale=chart.LOG, curves=curve))
    assert columns["kind"] == ["point"] * 6 + ["curve"] * 2
    assert columns["value"] == [1, 2, 3, 1, 2, 3, 1, 3]
    assert columns["text"][-1] is None
    assert "low" not in columns  # no point has an interval


def test_legend_keeps_colours_where_series_are_missing():
    made = make_chart(names=("b", "c"), style_numbers={"b": 1, "c": 2})
    assert [(each["name"], each["colour"]) for each in figures.legend_of(made)] == [
        ("b", "var(--series-1)"), ("c", "var(--series-2)"),
    ]  # fmt: skip
    assert figures.legend_of(make_chart(names=("a",))) == []
    assert figures.legend_of(make_chart(mark=chart.CELLS)) == []


def test_too_many_names_or_series_are_not_drawn():
    assert figures.too_large(make_chart()) == ""
    assert figures.too_large(make_chart(names=[str(number) for number in range(101)]))
    points = make_chart().points.head(1)
    many = pd.concat([points.assign(x=str(number)) for number in range(61)])
    assert figures.too_large(replace(make_chart(), points=many))


def test_description_names_series_and_panels(golden):
    golden(figures.describe(make_chart(panels=("p", "q"))))


@pytest.mark.parametrize(("mark", "panels"), [*product(draw.MARKS, [("",), ("p", "q")])])
def test_spec_has_panels_and_no_data(mark, panels):
    spec = figures.spec_of(make_chart(mark=mark, panels=panels, reference=1.0))
    assert ("facet" in spec) == (len(panels) > 1)
    assert spec["data"] == {"name": figures.ROWS}
    assert {param["name"] for param in spec["params"]} == {"x_ticks", "y_ticks"}
    assert not re.findall("#[0-9a-fA-F]{3,8}", json.dumps(spec))  # colours are properties, which follow the theme


def test_logarithm_of_bytes_has_powers_of_two():
    assert figures.scale_of(chart.Axis("x", chart.LOG, chart.BYTES)).to_dict()["base"] == 2
    assert figures.scale_of(chart.Axis("x", chart.LOG)).to_dict()["base"] == 10
    assert figures.scale_of(chart.Axis("x")).to_dict() == {"zero": True}


def test_sample_figures_are_valid():
    assert set(sample_specs()) == {"times", "histogram", "ranks"}
    assert all(map(is_valid, sample_specs().values()))


def test_transformer_settings_are_beside_each_other():
    first, second = make_rich_record("transformer"), make_rich_record("transformer")
    for record in (first, second):
        for case in record["cases"]:
            case["labels"] |= {"pass": PASSES[0], "ranks": 2}
    second["config"] |= {"batch_size": 4}
    made = charts(with_ids(tabulate_records([first, second])))["transformer_step_time"]
    assert made.all_series == ["batch 2", "batch 4"]

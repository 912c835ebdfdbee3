"""Charts as the page draws and describes them."""

import json
import re
from dataclasses import replace

import altair as alt
import pandas as pd
import pytest
from analysis.page import figures, specs, suites
from analysis.page.sample_specs import sample_specs
from analysis.report.chart import BYTES, CELLS, LINES, LOG, MARKS, NAMES, PAGE_ROW, Axis, Chart, points_of
from analysis.report.discover import modules_with
from benchkit.suites.transformer.names import PASSES

from tests.support.records import grid, make_rich_record, tabulate_records

SUITES = ("collective", "ring_attention", "matmul_lut", "tp_columnwise", "transformer", "auto_shard")


def charts_of(records):
    table = tabulate_records(records)
    table = table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
    return {name: chart for _, module in modules_with("show") for name, chart in module.show(table, None).items()}


def make_chart(mark=LINES, names=("a", "b"), panels=("",), scale=NAMES, **changes):
    cells = [(panel, name, x, float(x + 1)) for panel in panels for name in names for x in range(3)]
    rows = pd.DataFrame(cells, columns=["panel", "series", "x", "value"])
    x = rows["x"].astype(str) if scale == NAMES else rows["x"]
    points = points_of(rows, x, ("value",), rows["series"], rows["panel"])
    return Chart(
        mark=mark,
        title="T",
        note="",
        x=Axis("x", scale),
        y=Axis("y [ms]"),
        points=points.assign(text="word"),
        **changes,
    )


def is_valid(spec):
    """Whether a specification is one by the schema of Vega-Lite."""
    return alt.Chart.from_dict({"$schema": alt.SCHEMA_URL, **spec}) is not None


@pytest.mark.parametrize("suite", SUITES)
def test_every_chart_of_every_suite_is_valid(suite):
    charts = charts_of([make_rich_record(suite)])
    assert charts
    for chart in charts.values():
        made = figures.figure_of(chart)
        assert made == json.loads(json.dumps(made))
        assert is_valid(made["spec"])


def test_points_have_values_of_table():
    table = tabulate_records(grid())
    chart = charts_of(grid())["allreduce_time_vs_datasize"]
    measured = table.set_index(["world_size", "data_size"])["median_s"]
    for _, point in chart.points.iterrows():
        ranks = int(point["series"].split()[0])
        assert point["value"] == 1e3 * measured[ranks, point["x"] / 2**20]
    assert set(chart.points[PAGE_ROW]) == {f"r{number}" for number in range(6)}


@pytest.mark.parametrize("suite", ["collective", "ring_attention", "transformer"])
def test_notes_name_hardware(suite):
    table = tabulate_records([make_rich_record(suite)])
    table = table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
    [name] = table["device_name"].unique()
    charts = list(suites.charts_of(table, None))
    assert charts
    assert [chart.note.count(name) for chart in charts] == [1] * len(charts)


@pytest.mark.parametrize(("count", "is_apart"), [(1, True), (2, False)])
def test_marks_of_one_name_stand_side_by_side(count, is_apart):
    chart = make_chart()
    points = chart.points[chart.points["x"].isin(["0", "1"][:count])]
    spec = specs.spec_of(replace(chart, points=points))
    assert is_valid(spec)
    dots = spec["layer"][-1]["encoding"]
    assert ("xOffset" in dots) == is_apart


def test_columns_hold_points_then_curves():
    curve = pd.DataFrame({"panel": "", "series": "ideal", "x": [0.0, 2.0], "value": [1.0, 3.0]})
    columns = figures.columns_of(make_chart(scale=LOG, curves=curve))
    assert columns["kind"] == ["point"] * 6 + ["curve"] * 2
    assert columns["value"] == [1, 2, 3, 1, 2, 3, 1, 3]
    assert columns["text"][-1] is None
    assert "low" not in columns  # no point has an interval


def test_legend_keeps_colours_where_series_are_missing():
    chart = make_chart(names=("b", "c"), series=("a", "b", "c"))
    assert [(each["name"], each["colour"]) for each in figures.legend_of(chart)] == [
        ("b", "var(--series-1)"), ("c", "var(--series-2)"),
    ]  # fmt: skip
    assert figures.legend_of(make_chart(names=("a",))) == []
    assert figures.legend_of(make_chart(mark=CELLS)) == []


def test_too_many_names_or_series_are_not_drawn():
    names = [str(number) for number in range(figures.MOST_NAMES + 1)]
    points = pd.DataFrame({"panel": "", "series": "", "x": names, "value": 1.0, "low": None, "high": None})
    chart = make_chart()
    assert figures.too_large(chart) == ""
    many = Chart(mark=LINES, title="T", note="", x=Axis("x", NAMES), y=Axis("y"), points=points)
    assert figures.too_large(many) == "61 names; at most 60 are drawn"
    series = make_chart(names=[str(number) for number in range(101)])
    assert figures.too_large(series) == "101 series; at most 100 are drawn"


def test_description_says_what_is_seen():
    words = figures.describe(make_chart(panels=("p", "q")))
    assert words == "T. 12 points; y [ms] from 1 to 3, over x; 2 series: a, b; 2 panels: p, q."


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("panels", [("",), ("p", "q")])
def test_spec_has_panels_and_no_data(mark, panels):
    spec = specs.spec_of(make_chart(mark=mark, panels=panels, reference=1.0))
    assert ("facet" in spec) == (len(panels) > 1)
    assert spec["data"] == {"name": specs.ROWS}
    assert {param["name"] for param in spec["params"]} == {"x_ticks", "y_ticks"}
    colours = set(re.findall("#[0-9a-fA-F]{3,8}", json.dumps(spec)))
    assert not colours  # all are custom properties, which follow the theme


def test_logarithm_of_bytes_has_powers_of_two():
    chart = make_chart(scale=LOG)
    assert specs.scale_of(Axis("x", LOG, BYTES)).to_dict()["base"] == 2
    assert specs.scale_of(chart.x).to_dict()["base"] == 10
    assert specs.scale_of(chart.y).to_dict() == {"zero": True}


def test_sample_figures_are_valid():
    assert set(sample_specs()) == {"times", "histogram", "ranks"}
    assert all(map(is_valid, sample_specs().values()))


def test_transformer_settings_are_beside_each_other():
    first, second = make_rich_record("transformer"), make_rich_record("transformer")
    for record in (first, second):
        for case in record["cases"]:
            case["labels"] |= {"pass": PASSES[0], "ranks": 2}
    second["config"] |= {"batch_size": 4}
    chart = charts_of([first, second])["transformer_step_time"]
    assert chart.all_series == ["batch_size 2", "batch_size 4"]

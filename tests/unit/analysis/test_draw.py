"""How charts are drawn: what is cut, hidden or left out shows, and equal settings have equal places."""

import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from tests.support.entries.report import chart, draw

LOG_TIME = chart.Axis("time [ms]", chart.LOG)


def chart_of(mark, points, **more):
    """A chart of points given as (panel, series, x, value, low, high)."""
    rows = pd.DataFrame(points, columns=list(chart.POINT[:-1]))
    x = more.pop("x", chart.Axis("setting", chart.NAMES))
    return chart.Chart(mark=mark, title="title", note="note", x=x, points=rows, **{"y": LOG_TIME, **more})


def heads_of(axis):
    """Where arrow heads are."""
    heads = [each for each in axis.collections if isinstance(each, PathCollection)]
    return [place for each in heads for place in each.get_offsets().tolist()]


@pytest.mark.parametrize("mark", [chart.LINES, chart.DOTS])
def test_bar_beyond_the_axis_ends_in_an_arrow(mark):
    near = [("", "one", "a", 1.0, 0.9, 1.1), ("", "one", "b", 2.0, 1.9, 2.1)]
    far = [("", "one", "a", 1.0, 1e-3, 1.1), ("", "one", "b", 2.0, 1.9, 90.0)]
    whole, cut = (draw.figure_of(chart_of(mark, points)) for points in (near, far))
    assert heads_of(whole.axes[0]) == []
    low, high = sorted(cut.axes[0].get_ylim() if mark == chart.LINES else cut.axes[0].get_xlim())
    along = int(mark == chart.LINES)
    assert [place[along] for place in heads_of(cut.axes[0])] == pytest.approx([low, high])
    assert whole.get_supxlabel() != cut.get_supxlabel()


def names_shown(axis, along="yaxis"):
    return [tick.label1.get_text() for tick in getattr(axis, along).get_major_ticks() if tick.label1.get_visible()]


def test_each_bar_has_a_name_below_a_long_title_and_above_a_long_label():
    names = ["pytorch AG_after", "pytorch AG_after gloo"]
    points = [(f"a panel whose name is long {n}", "one", name, 1.0, 0.9, 1.1) for n in range(3) for name in names]
    label = chart.Axis("time of pytorch AG_before or pytorch AG_before gloo or pytorch AG_before ucc / time")
    figure = draw.figure_of(chart_of(chart.BARS, points, y=label))
    assert names_shown(figure.axes[0]) == names


@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("mark", [chart.LINES, chart.CELLS])
def test_names_below_a_panel_are_all_there(mark, count):
    names = [f"setting number {number}" for number in range(count)]
    rows = chart_of(mark, [("", "one", name, 1.0, 0.9, 1.1) for name in names], y=chart.Axis("value"))
    rows.points["text"] = "1"
    figure = draw.figure_of(rows)
    assert [" ".join(name.split()) for name in names_shown(figure.axes[0], "xaxis")] == names


def test_names_that_find_no_room_are_counted():
    names = [f"name {number}" for number in range(100)]
    points = [(panel, "one", name, 1.0, 0.9, 1.1) for panel in "abc" for name in names]
    figure = draw.figure_of(chart_of(chart.LINES, points))
    count = len(names_shown(figure.axes[0], "xaxis"))
    assert f"{3 * count} of {3 * len(names)} names" in figure.get_supxlabel()


RAGGED = {"first": ("a", "c"), "second": ("a", "b", "c"), "third": ("c",)}
"""Settings by panel, as an interrupted sweep leaves them."""


def ragged(mark, places, **more):
    points = [
        (panel, series, places[name], 1.0, 0.9, 1.1)
        for panel, names in RAGGED.items()
        for name in names
        for series in ("one", "two")
    ]
    return draw.figure_of(chart_of(mark, points, **more)).axes


@pytest.mark.parametrize("scale", [chart.LOG, chart.LINEAR])
def test_equal_numbers_have_equal_places_and_room_for_a_marker(scale):
    axes = ragged(chart.LINES, {"a": 1, "b": 10, "c": 100}, x=chart.Axis("size", scale))
    [(low, high)] = {axis.get_xlim() for axis in axes}
    assert low < 1 < 100 < high
    pixels = axes[0].transData.transform([(low, 1), (1, 1), (100, 1), (high, 1)])[:, 0]
    assert pixels[1] - pixels[0] == pytest.approx(pixels[3] - pixels[2])
    assert pixels[1] - pixels[0] > 5


@pytest.mark.parametrize("mark", [chart.LINES, chart.DOTS, chart.BARS, chart.STACKS])
def test_equal_names_have_equal_places_in_their_order(mark):
    axes = ragged(mark, dict(zip("abc", "abc", strict=True)))
    along = "x" if mark == chart.LINES else "y"
    assert len({tuple(getattr(axis, f"get_{along}lim")()) for axis in axes}) == 1
    for axis in axes:
        assert names_shown(axis, f"{along}axis") in (["a", "b", "c"], [])
    assert names_shown(axes[0], f"{along}axis") == ["a", "b", "c"]


def test_panels_of_other_names_have_these_alone():
    points = [(panel, "", f"{name} of {panel}", 1.0, 0.9, 1.1) for panel in ("first", "second") for name in "ab"]
    axes = draw.figure_of(chart_of(chart.BARS, points)).axes
    assert [names_shown(axis) for axis in axes] == [["a of first", "b of first"], ["a of second", "b of second"]]


def test_map_with_long_names_keeps_its_cells_and_says_what_these_lack():
    rows = chart_of(
        chart.CELLS, [("", f"row {n} {'of many words ' * 6}", x, 1.0, 1.0, 1.0) for n in (1, 2) for x in "abc"]
    )
    rows.points["text"] = "some words"
    figure = draw.figure_of(rows)
    assert len(names_shown(figure.axes[0])) == 2
    assert figure.axes[0].bbox.width / figure.dpi > 2
    assert [text.get_text() for text in figure.axes[0].texts] == ["some words"] * 6
    rows.points["text"] = "some words " * 6
    without = draw.figure_of(rows)
    assert len(without.axes[0].texts) == 0
    assert without.get_supxlabel() != figure.get_supxlabel()


@pytest.mark.parametrize(
    ("parts", "order"),
    [
        (["ac", "bc"], "abc"),
        (["ac", "abc", "c"], "abc"),
        (["bcd", "acd", "abd", "abc"], "abcd"),  # each to all others
        (["abyz", "acbyz", "abxyz"], "acbxyz"),
        (["abc", "bac"], "abc"),  # in order of value, the first decides
        (["abc", "cab"], "abc"),
        (["ab", "cd"], "abcd"),
    ],
)
def test_order_holds_in_all_panels_that_agree(parts, order):
    points = [(panel, "", name, 1.0, 0.9, 1.1) for panel, names in enumerate(parts) for name in names]
    assert "".join(chart_of(chart.LINES, points).names) == order


def test_map_has_its_columns_in_their_order():
    rows = chart_of(
        chart.CELLS, [("", s, x, 1.0, 1.0, 1.0) for s, x in (("1", "a"), ("1", "c"), ("2", "b"), ("2", "c"))]
    )
    rows.points["text"] = ""
    assert names_shown(draw.figure_of(rows).axes[0], "xaxis") == ["a", "b", "c"]

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

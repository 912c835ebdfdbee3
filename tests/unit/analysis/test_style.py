"""What every plot shares: intervals, ticks, titles, legends, the hardware."""

import math

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from benchkit.record.naming import format_seconds

from tests.support.entries.report import chart, style

COLUMNS = ("value", "low", "high")


def frame(*rows):
    return pd.DataFrame(rows, columns=COLUMNS, dtype=float)


def test_missing_interval_draws_no_bar():
    below, above = style.interval_bars(frame((2, 1, 4), (3, math.nan, math.nan)), *COLUMNS)
    assert (below[0], above[0]) == (1, 2)
    assert math.isnan(below[1])
    assert math.isnan(above[1])
    assert style.interval_bars(frame((2, math.nan, math.nan)), *COLUMNS) is None


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.02), (1.1, 40), (1e-3, 1e3), (5, 5)])
def test_log_axis_has_labeled_ticks(low, high):
    axis = plt.figure().add_subplot()
    axis.plot([1, 2], [low, high])
    style.log_values(axis)
    least, most = axis.get_ylim()
    assert axis.get_yscale() == "log"
    ticks = [tick for tick in axis.get_yticks() if least <= tick <= most]
    assert 3 <= len(ticks) <= 9
    axis.figure.canvas.draw()
    texts = [text.get_text() for text in axis.get_yticklabels() if least <= text.get_position()[1] <= most]
    assert len(set(texts)) == len(ticks)


def test_texts_stand_above_and_below_panels_of_any_number():
    style.apply()
    title, note = " ".join(["title"] * 40), " ".join(["note"] * 80)
    for count in (1, 2, 7):
        figure, axes = style.panels(count)
        for axis in axes:
            axis.plot([1, 2], [1, 2], label="a series")
        style.lay_out(figure, title, note, axes)
        figure.canvas.draw()
        head, foot = (text.get_window_extent() for text in (figure._suptitle, figure._supxlabel))
        inner = [axis.get_window_extent() for axis in axes]
        [legend] = figure.legends
        assert head.y0 > legend.get_window_extent().y1 > legend.get_window_extent().y0 > max(box.y1 for box in inner)
        assert foot.y1 < min(box.y0 for box in inner)
        assert max(head.x1, foot.x1) <= figure.bbox.width == style.WIDTH * figure.dpi
        assert figure.get_suptitle().replace("\n", " ") == title


def test_labels_that_touch_are_hidden():
    figure, [axis] = style.panels(1)
    axis.set_xlim(0, 10)
    axis.set_xticks([1, 1.1, 5, 9], ["a long label", "hidden", "kept", "kept"])
    style.lay_out(figure, "title", "")
    assert [tick.label1.get_visible() for tick in axis.xaxis.get_major_ticks()] == [True, False, True, True]


def test_hardware_that_is_known_is_named():
    rows = pd.DataFrame({"device_name": ["a processor", None, "a GPU", "a processor"]})
    assert chart.hardware(rows) == "on a processor, a GPU"
    assert chart.hardware(rows.iloc[1:2]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5e-9, "2.5 ns"), (1e-4, "100 µs"), (0.001, "1 ms"), (30.0, "30 s"), (12346.0, "12350 s")]
)
def test_readable_time_picks_unit(seconds, text):
    assert format_seconds(seconds) == text

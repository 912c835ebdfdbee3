"""What every plot shares: intervals, ticks, titles, legends, the hardware."""

import math

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from benchkit.record.naming import readable_time

from tests.support.entries.report import style

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


@pytest.mark.parametrize("width", [3.0, 9.0])
def test_titles_fit_figure(width):
    figure = plt.figure(figsize=(width, 3.0))
    title, note = " ".join(["title"] * 12), " ".join(["note"] * 20)
    style.caption(figure, title, note)
    figure.canvas.draw()
    for text in (figure._suptitle, figure._supxlabel):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
    assert figure.get_suptitle().replace("\n", " ") == title


def test_caption_names_known_hardware():
    rows = pd.DataFrame({"device_name": ["a processor", None, "a GPU", "a processor"]})
    assert style.hardware(rows) == "on a processor, a GPU"
    assert style.hardware(rows.iloc[1:2]) == ""
    figure = plt.figure(figsize=(9, 3))
    style.caption(figure, "title", "median", rows)
    assert figure.get_supxlabel() == "median\non a processor, a GPU"


@pytest.mark.parametrize(("seconds", "text"), [(2.5e-9, "2.5 ns"), (1e-4, "100 µs"), (0.001, "1 ms"), (30.0, "30 s")])
def test_readable_time_picks_unit(seconds, text):
    assert readable_time(seconds) == text

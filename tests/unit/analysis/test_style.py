"""What every plot shares: intervals, ticks, titles, legends, the hardware."""

import math

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from analysis.report import style

COLUMNS = ("value", "low", "high")


def frame(*rows):
    return pd.DataFrame(rows, columns=COLUMNS, dtype=float)


def test_missing_interval_draws_no_bar():
    below, above = style.interval_bars(frame((2, 1, 4), (3, math.nan, math.nan)), *COLUMNS)
    assert (below[0], above[0]) == (1, 2)
    assert math.isnan(below[1])
    assert math.isnan(above[1])


def test_plot_without_intervals_has_no_bars():
    bars = style.interval_bars(frame((2, math.nan, math.nan)), *COLUMNS)
    assert bars is None
    drawn = plt.figure().add_subplot().errorbar([1], [2], bars)
    assert not drawn.has_yerr


def test_partial_intervals_are_drawn(tmp_path):
    rows = frame((2, 1, 4), (3, math.nan, math.nan))
    bars = style.interval_bars(rows, *COLUMNS)
    figure, (left, right) = style.panels(2)
    left.errorbar([1, 2], rows["value"], bars, **style.look(0))
    right.barh([1, 2], rows["value"], xerr=bars, capsize=3)
    [path] = style.save(figure, tmp_path / "drawn.png")
    assert path.stat().st_size > 5_000


@pytest.mark.parametrize(("low", "high"), [(0.94, 1.48), (1.0, 1.02), (0.3, 2.0), (1.1, 40), (1e-3, 1e3), (5, 5)])
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
    title = "tp_columnwise: 2 ranks, float32: how near the limit"
    style.caption(figure, title, "median of paired blocks, its 95 % interval, and more words than fit a line")
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


def test_single_line_has_inner_legend():
    figure, (axis,) = style.panels(1)
    width = figure.get_figwidth()
    axis.plot([1, 2], [1, 2], label="2 ranks")
    style.shared_legend(figure, axis)
    assert figure.get_figwidth() == width
    assert axis.get_legend() is not None


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5e-9, "2.5 ns"), (1e-4, "100 µs"), (0.1, "100 ms"), (0.001, "1 ms"), (30.0, "30 s")]
)
def test_readable_time_picks_unit(seconds, text):
    assert style.readable_time(seconds) == text

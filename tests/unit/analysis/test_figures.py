"""Every figure of every suite, of records of awkward shape: all data lie within the axes."""

import math
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from analysis.discover import questions

from tests.support.entries.report import style
from tests.support.records import make_record, make_rich_record, tabulate_records
from tests.support.reports import charts, plots

SUITES = [*sorted(questions()), "unknown"]


def one(suite):
    return [make_rich_record(suite)]


def far_apart(suite):
    """Two backends of which one is a hundred times as fast, over three sizes."""
    found = []
    for backend, factor in (("gloo", 1.0), ("nccl", 0.01)):
        for size in (1, 10, 100):
            record = make_rich_record(suite, backend=backend, point_id=f"{backend} {size}")
            record["config"] |= {"data_size": size, "seq_len": 128 * size, "m": 8 * size, "context_length": 64 * size}
            for case in record["cases"]:
                case["samples_s"] = [[factor * size * each for each in rank] for rank in case["samples_s"]]
            found.append(record)
    return found


def few(suite):
    """Two samples each: no interval, hardly a range."""
    found = [make_rich_record(suite, samples=2, point_id=f"{size}") for size in (1, 2)]
    found[1]["config"] |= {"data_size": 2, "seq_len": 256, "m": 16, "context_length": 512}
    return found


SHAPES = {shape.__name__: shape for shape in (one, far_apart, few)}


def drawn_of(suite, records):
    if suite == "unknown":
        records = [make_record(size, ranks, suite=suite) for size in (1, 10) for ranks in (2, 4)] + records[:1]
    table = tabulate_records(records)
    style.apply()
    for name, draw in plots(table).items():
        yield name, draw()
    return charts(table)


def outside(axis):
    """Finite data beyond the limits of an axis."""
    (left, right), (low, high) = sorted(axis.get_xlim()), sorted(axis.get_ylim())
    slack_x, slack_y = 1e-9 * abs(right - left), 1e-9 * abs(high - low)
    points = [point for line in axis.lines for point in zip(*line.get_data(), strict=True) if len(line.get_xdata()) > 2]
    for container in axis.containers:
        if getattr(container, "lines", [None])[0] is not None:
            points += list(zip(*container.lines[0].get_data(), strict=True))
    for x, y in points:
        if not (np.issubdtype(type(x), np.number) and np.issubdtype(type(y), np.number)):
            continue
        is_known = math.isfinite(x) and math.isfinite(y)
        is_within = left - slack_x <= x <= right + slack_x and low - slack_y <= y <= high + slack_y
        if is_known and not is_within:
            yield float(x), float(y)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("suite", SUITES)
def test_data_lie_within_axes(suite, shape):
    faults = []
    for name, figure in drawn_of(suite, SHAPES[shape](suite)):
        with warnings.catch_warnings():  # as `style.save` does
            warnings.simplefilter("ignore", UserWarning)
            figure.canvas.draw()
        faults += [(name, point) for axis in figure.axes for point in outside(axis)]
        plt.close(figure)
    assert faults == []

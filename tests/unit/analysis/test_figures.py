"""Every figure of every suite, of records of awkward shape: data within the axes, texts apart and whole."""

import math
import warnings
from itertools import chain, combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from analysis.shared.discover import questions
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tests.support import acceptance
from tests.support.entries.report import style
from tests.support.records import compiled, make_record, make_rich_record, write_all
from tests.support.reports import plots, table_in

SUITES = [*sorted(questions()), "unknown"]
LONG = "a name of some forty letters, with words"
SLACK = 1.5
"""Pixels by which the boxes of two texts may meet: letters do not fill theirs."""


def one(suite):
    return [make_rich_record(suite)]


def few(suite):
    """Two samples each: no interval, hardly a range."""
    return [sized(make_rich_record(suite, samples=2, point_id=f"{size}"), size) for size in (1, 2)]


def far_apart(suite):
    """Two backends of which one is a hundred times as fast, over three sizes."""
    found = []
    for backend, factor in (("gloo", 1.0), ("nccl", 0.01)):
        for size in (1, 10, 100):
            record = sized(make_rich_record(suite, backend=backend, point_id=f"{backend} {size}"), size)
            for case in record["cases"]:
                case["samples_s"] = [[factor * size * each for each in rank] for rank in case["samples_s"]]
            found.append(record)
    return found


def many_series(suite):
    """Forty of what a suite compares."""
    record = make_rich_record(suite)
    whole, base, *_ = record["cases"]
    record["cases"] = [whole, base] + [
        whole
        | {"labels": whole["labels"] | {name: f"{whole['labels'][name]} {number}" for name in names_in(whole)}}
        | {"samples_s": [[each * 1.1**number for each in row] for row in whole["samples_s"]]}
        for number in range(38)
    ]
    kinds = [make_rich_record(suite, point_id=f"dtype {number}") for number in range(40)]
    for number, kind in enumerate(kinds):
        kind["config"] |= {"dtype": f"type{number}"}
    return [record, *kinds] if suite in ("collective", "unknown", "matmul_lut") else [record]


def many_sizes(suite):
    """Sizes of which some are next to each other."""
    sizes = (0.001, 0.0011, 0.0012, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1000)
    return [sized(make_rich_record(suite, point_id=f"{size}"), size) for size in sizes]


def unknown_parts(suite):
    """No hardware is known, half of the cases failed, and the others lack what they may lack."""
    record, other = make_rich_record(suite), make_rich_record(suite, point_id="other")
    for made in (record, sized(other, 2)):
        made["agents"] = [{"host": "here"}]
        made["environment"] = {"host": "here"}
        for number, case in enumerate(made["cases"]):
            case |= {"details": {}, "regions_s": {}, "useful_flops": None, "payload_bytes": None, "bus_factor": None}
            case |= {"status": "invalid", "samples_s": [], "start_offsets_s": []} if number % 2 == 0 else {}
    return [record, other]


def long_names(suite):
    """Settings, labels and hardware with long names."""
    found = []
    for kind in (f"{LONG}, first", f"{LONG}, second"):
        record = make_rich_record(suite, point_id=kind, backend=kind)
        record["config"] |= {"dtype": kind, "model": record["config"]["model"] | {"name": kind}}
        record["agents"] = [record["agents"][0] | {"cpu": f"{LONG} {LONG}", "gpus": []}]
        for case in record["cases"]:
            case["labels"] |= {name: f"{case['labels'][name]}, {LONG}" for name in names_in(case)}
        found.append(record)
    return found


def names_in(case):
    """The labels that a user may call as he likes."""
    return case["labels"].keys() & {"strategy", "implementation", "workload", "sharding", "timing"}


SCALES = {
    "ring_attention": ("seq_len", 128), "ring_model": ("seq_len", 128), "tp_columnwise": ("m", 8),
    "tp_rowwise": ("m", 8), "transformer": ("context_length", 256), "matmul_lut": ("size", 64),
}  # fmt: skip
"""Of a suite, and its value in a rich record."""


def sized(record, size):
    name, whole = SCALES.get(record["suite"], ("data_size", 1))
    record["config"] |= {name: size if name == "data_size" else max(1, round(whole * size))}
    return record


SHAPES = {shape.__name__: shape for shape in (one, few, far_apart, many_series, many_sizes, unknown_parts, long_names)}
NUMBERS_OF_HOSTS = {"one": 1, "few": 2, "far_apart": 4, "many_series": 40, "many_sizes": 16}


def records_of(suite, shape):
    """Records of a suite; of those whose figures ask for more than a rich record has, others of their shape."""
    if suite in ("pair_matrix", "rank_speed"):
        name = LONG if shape == "long_names" else "n"
        hosts = [f"{name}{rank // 2}" for rank in range(2 * NUMBERS_OF_HOSTS.get(shape, 2))]
        make = acceptance.pairs if suite == "pair_matrix" else acceptance.speeds
        return [make(hosts=hosts, devices=shape != "unknown_parts")]
    if suite == "compile":
        names = [LONG, f"{LONG} again"] if shape == "long_names" else ["default", "max-autotune"]
        names = [f"compiler {number}" for number in range(40)] if shape == "many_series" else names
        first = {"far_apart": 5000.0, "one": 3.0}.get(shape, 12.0)
        compilers = [compiled(name, [first] + 9 * [1.0], number) for number, name in enumerate(names, 1)]
        return [compiled("eager", [2.0] * 10, 0), *compilers]
    records = SHAPES[shape](suite)
    if suite == "unknown":
        records += [make_record(size, ranks, suite=suite) for size in (1, 10) for ranks in (2, 4)]
    return records


def outside(axis):
    """Finite data beyond the limits of an axis."""
    (left, right), (low, high) = sorted(axis.get_xlim()), sorted(axis.get_ylim())
    slack_x, slack_y = 1e-9 * abs(right - left), 1e-9 * abs(high - low)
    for x, y in data_of(axis):
        is_within = left - slack_x <= x <= right + slack_x and low - slack_y <= y <= high + slack_y
        if math.isfinite(x) and math.isfinite(y) and not is_within:
            yield float(x), float(y)


def data_of(axis):
    """The points of lines and of marks, without lines of reference."""
    lines = [line for line in axis.lines if len(line.get_xdata()) > 2]
    held = [getattr(container, "lines", [None])[0] for container in axis.containers]
    for line in chain(lines, filter(None, held)):
        for x, y in zip(*line.get_data(), strict=True):
            if np.issubdtype(type(x), np.number) and np.issubdtype(type(y), np.number):
                yield x, y


def shown_texts(figure):
    """Each text that is drawn, with its box in pixels."""
    drawn = {text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()}
    for axis in figure.axes:
        for along in (axis.xaxis, axis.yaxis):
            low, high = sorted(along.get_view_interval())
            for tick in (*along.get_major_ticks(), *along.get_minor_ticks()):
                if not (tick.get_visible() and low <= tick.get_loc() <= high):
                    drawn -= {tick.label1, tick.label2}
    return [(text, text.get_window_extent()) for text in drawn]


def shrunk(box):
    return Bbox.from_extents(box.x0 + SLACK, box.y0 + SLACK, box.x1 - SLACK, box.y1 - SLACK)


def unreadable(figure):
    """Texts on another text, on the data of a panel of others, or cut off, and legends on data."""
    texts = [(text, shrunk(box)) for text, box in shown_texts(figure)]
    edge = figure.bbox
    for text, box in texts:
        if box.x0 < edge.x0 or box.x1 > edge.x1 or box.y0 < edge.y0 or box.y1 > edge.y1:
            yield "cut off", text.get_text()
        for axis in figure.axes:
            if text.axes is not axis and axis.get_window_extent().overlaps(box):
                yield "on a panel", text.get_text()
    for (text, box), (other, its) in combinations(texts, 2):
        if box.overlaps(its):
            yield "on each other", text.get_text(), other.get_text()
    legends = [*figure.legends, *filter(None, (axis.get_legend() for axis in figure.axes))]
    for legend in legends:
        box, own = legend.get_window_extent(), set(legend.findobj(Text))
        covered = [text.get_text() for text, its in texts if text not in own and box.overlaps(its)]
        for axis in figure.axes:
            covered += [point for point in data_of(axis) if box.contains(*axis.transData.transform(point))]
        if covered:
            yield "below a legend", covered[:3]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("suite", SUITES)
def test_figures_can_be_read(suite, shape, tmp_path):
    table = table_in(write_all(tmp_path, records_of(suite, shape)))
    style.apply()
    faults = []
    for name, draw in plots(table).items():
        figure = draw()
        with warnings.catch_warnings():  # as `style.save` does
            warnings.simplefilter("ignore", UserWarning)
            figure.canvas.draw()
        faults += [(name, "beyond the axes", point) for axis in figure.axes for point in outside(axis)]
        faults += [(name, *fault) for fault in unreadable(figure)]
        faults += [] if figure.get_figwidth() == style.WIDTH else [(name, "letters of another size")]
        plt.close(figure)
    assert faults == []

"""Pictures of an acceptance: pairs by node, groups, ranks; and the times that they show."""

import numpy as np
import pytest
from analysis.records.places import Place
from analysis.suites.pair_matrix import plot
from analysis.suites.pair_matrix.matrix import Level, Matrix, log_halves
from analysis.suites.rank_speed.plot import bars
from analysis.suites.rank_speed.speeds import Speeds


def matrix_of(hosts, missing=()):
    pairs = [(i, j) for i in range(len(hosts)) for j in range(len(hosts)) if i != j and (i, j) not in missing]
    sender, receiver = np.array(pairs).T
    seconds = np.where([hosts[i] == hosts[j] for i, j in pairs], 1e-3, 3e-3)
    seconds[pairs.index((0, 1))] *= 2
    places = [Place(rank, host) for rank, host in enumerate(hosts)]
    return Matrix(4.0, sender, receiver, np.log(np.stack([seconds, seconds])), np.zeros(len(pairs), int), places)


def texts(figure):
    return {text.get_text() for axis in figure.axes for text in axis.texts}


def test_ratios_are_to_pairs_of_the_same_kind():
    ratios = matrix_of(["a", "b", "a", "b"], missing=[(2, 3)]).ratios()
    assert ratios[0, 1] == pytest.approx(2)
    assert np.isnan(ratios[[0, 2], [0, 3]]).all()
    others = ratios[np.isfinite(ratios)]
    assert sorted(np.round(others, 9)) == [1.0] * 10 + [2.0]


def test_heat_map_shows_ranks_by_node():
    figure = plot.heat_map(matrix_of(["b", "a", "b", "a"]))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["0 b", "2 b", "1 a", "3 a"]
    assert texts(figure) == {"1", "3", "6"}


def test_heat_map_of_many_ranks_names_nodes():
    figure = plot.heat_map(matrix_of([f"n{rank // 8}" for rank in range(40)]))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["n0", "n1", "n2", "n3", "n4"]
    assert texts(figure) == set()


def test_tree_has_box_per_group():
    places = [Place(rank, f"n{rank // 2}") for rank in range(4)]
    pairs, every = np.log([[1e-3, 2e-3]] * 2), np.log([[5e-3]] * 2)
    levels = [Level("pairs", [0, 0, 1, 1], pairs), Level("all", [0] * 4, every)]
    figure = plot.tree(levels, places)
    assert len(figure.axes[0].patches) == 3
    assert texts(figure) == {"1\nms", "2\nms", "5\nms"}


def test_bars_have_line_of_data_sheet():
    places = [Place(rank, "n0", "NVIDIA H200") for rank in range(3)]
    halves = np.log([[1e-3, 1e-3, 2e-3], [1e-3, 1e-3, 2e-3]])
    figure = bars([Speeds("copy", "", halves, 4e9, False, places, {})])
    [axis] = figure.axes
    assert [round(bar.get_height()) for bar in axis.patches] == [4000, 4000, 2000]
    assert [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == "--"] == [4800]


@pytest.mark.parametrize(
    ("runs", "halves"),
    [([[1, 1, 4, 4]], (1, 4)), ([[2]], (2, 2)), ([[1], [1], [4]], (1, 2.5))],
)
def test_halves_are_in_order_of_time(runs, halves):
    assert np.exp(log_halves(runs)) == pytest.approx(halves)

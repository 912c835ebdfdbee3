"""Pictures of an acceptance: pairs by node, groups, ranks; and the times that they show."""

import analysis
import numpy as np
import pytest
from analysis.suites.pair_matrix import plot as pair_plot
from analysis.suites.pair_matrix.matrix import log_halves
from analysis.suites.rank_speed import plot as rank_plot

from tests.support.acceptance import pairs, speeds
from tests.support.records import write_all


@pytest.fixture
def drawn(tmp_path):
    """The panels of the figures that a suite draws of a record, by name of their files."""

    def draw(module, record):
        drawings = module.draw(analysis.load(write_all(tmp_path, [record])), None)
        return {name: make().axes[0] for name, make in drawings.items()}

    return draw


def texts(axis):
    return {text.get_text() for text in axis.texts}


def test_heat_map_shows_ratios_of_ranks_by_node(drawn):
    slow = pairs(lambda i, j: 2.0 if (i, j) == (0, 1) else 1.0, hosts=["b", "a", "b", "a"])
    for targets in (case["details"].get("sends_to") for case in slow["cases"]):
        if targets and targets[2] == 3:
            targets[2] = -1
    axis = drawn(pair_plot, slow)["pairs_4MiB.png"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["0 b", "2 b", "1 a", "3 a"]
    ratios = axis.images[0].get_array().filled(np.nan)
    assert ratios[0, 2] == pytest.approx(2, rel=0.05)
    assert np.isnan(ratios[[0, 1], [0, 3]]).all()  # itself, and what was not measured
    others = np.sort(ratios[np.isfinite(ratios)])
    assert others[:-1] == pytest.approx(1, rel=0.05)
    assert len(axis.texts) == len(others) == 11
    assert {round(float(ms)) for ms in texts(axis)} == {1, 3, 6}


def test_heat_map_of_many_ranks_names_nodes(drawn):
    axis = drawn(pair_plot, pairs(hosts=[f"n{rank // 8}" for rank in range(24)]))["pairs_4MiB.png"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["n0", "n1", "n2"]
    assert texts(axis) == set()


def test_tree_has_box_per_group(drawn):
    axis = drawn(pair_plot, pairs())["groups.png"]
    assert len(axis.patches) == len(axis.texts) == 2
    assert {(round(float(number)), unit) for number, unit in map(str.split, texts(axis))} == {(1, "ms")}


def test_bars_have_line_of_data_sheet(drawn):
    axis = drawn(rank_plot, speeds(lambda rank: 2.0 if rank == 2 else 1.0))["ranks.png"]
    assert np.divide([bar.get_height() for bar in axis.patches], 0.9 * 4800) == pytest.approx(
        [1, 1, 0.5, 1, 1, 1, 1, 1], rel=0.05
    )
    assert [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == "--"] == [4800]


@pytest.mark.parametrize(("runs", "halves"), [([[1, 1, 4, 4]], (1, 4)), ([[2]], (2, 2)), ([[1], [1], [4]], (1, 2.5))])
def test_halves_are_in_order_of_time(runs, halves):
    assert np.exp(log_halves(runs)) == pytest.approx(halves)

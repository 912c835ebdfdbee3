"""Figures of an acceptance: pairs by node, groups, ranks; and the times that they show."""

import analysis
import numpy as np
import pytest
from analysis.suites.pair_matrix import charts as of_pairs
from analysis.suites.pair_matrix.matrix import log_halves
from analysis.suites.rank_speed import charts as of_ranks

from tests.support.acceptance import pairs, speeds
from tests.support.records import write_all


@pytest.fixture
def points(tmp_path):
    """The points of the charts that a suite shows of a record, by name."""

    def show(module, record):
        charts = module.show(analysis.load(write_all(tmp_path, [record])), None)
        return {name: chart.points for name, chart in charts.items()}

    return show


def test_map_shows_ratios_of_ranks_by_node(points):
    slow = pairs(lambda i, j: 2.0 if (i, j) == (0, 1) else 1.0, hosts=["b", "a", "b", "a"])
    for targets in (case["details"].get("sends_to") for case in slow["cases"]):
        if targets and targets[2] == 3:
            targets[2] = -1
    shown = points(of_pairs, slow)["pairs_4MiB"]
    assert list(dict.fromkeys(shown["x"])) == ["0 b", "2 b", "1 a", "3 a"]
    ratios = shown.set_index(["series", "x"])["value"]
    assert ratios.pop(("0 b", "1 a")) == pytest.approx(2, rel=0.05)
    assert ratios.to_numpy() == pytest.approx(1, rel=0.05)
    assert len(ratios) == 10  # without those to itself, and the one that was not measured
    assert {round(float(ms)) for ms in shown["text"]} == {1, 3, 6}


def test_messages_both_ways_at_once_have_a_map_of_their_own(points):
    shown = points(of_pairs, pairs(at_once=lambda i, j: 2.0 if {i, j} == {2, 3} else 1.0))
    ratios = {name: shown[name].set_index(["series", "x"])["value"] for name in ("pairs_4MiB", "pairs_4MiB_both_ways")}
    found = {name: sorted(each.index[each > 1.5]) for name, each in ratios.items()}
    assert [len(each) for each in found.values()] == [0, 2]


def test_map_of_groups_has_time_of_each_rank(points):
    shown = points(of_pairs, pairs())["groups"]
    assert len(shown) == 8
    assert shown["text"].astype(float).to_numpy() == pytest.approx(1, rel=0.05)


def test_bars_are_over_median_rank_and_name_share_of_data_sheet(points):
    shown = points(of_ranks, speeds(lambda rank: 2.0 if rank == 2 else 1.0))["ranks"]
    assert shown["value"].to_numpy() == pytest.approx([100, 100, 50, 100, 100, 100, 100, 100], rel=0.05)
    [panel] = set(shown["panel"])
    assert int(panel.split()[-6]) == pytest.approx(90, abs=2)
    assert set(shown["series"]) == {"n0", "n1", "n2", "n3"}


@pytest.mark.parametrize(("runs", "halves"), [([[1, 1, 4, 4]], (1, 4)), ([[2]], (2, 2)), ([[1], [1], [4]], (1, 2.5))])
def test_halves_are_in_order_of_time(runs, halves):
    assert np.exp(log_halves(runs)) == pytest.approx(halves)

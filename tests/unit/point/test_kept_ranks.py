"""Which points share ranks, and when ranks that stay are compared with fresh ones."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from benchkit.api.keys import BackendConfig

from tests.support import fakes
from tests.support.configs import agent_group, config
from tests.support.entries.point import FRESH_EVERY, ReusableRanks, is_reusable, leaves_ranks_sound, place_ranks
from tests.support.entries.point import ranks as kept_ranks

GROUP = agent_group("n1")


class Ranks:
    """Ranks that only count what they are asked."""

    num_points, are_reusable, pids = 0, True, (1, 2)


@pytest.fixture
def events(monkeypatch):
    """Starts and ends of ranks, in order."""
    noted = []

    @contextmanager
    def fresh_ranks(group):
        noted.append("start")
        try:
            yield Ranks()
        finally:
            noted.append("end")

    monkeypatch.setattr(kept_ranks, "fresh_ranks", fresh_ranks)
    return noted


def run(kept, wanted, are_reusable=True):
    """Runs a point; returns whether fresh ranks are to measure it, too."""
    with kept.for_point(wanted, place_ranks(wanted, GROUP)) as ranks:
        ranks.num_points += 1
        ranks.are_reusable = are_reusable
    return kept.is_fresh_run_due()


OTHER_WORLDS = (
    {"world_size": 3},
    {"threads_per_rank": 3},
    {"private_network": False},
    {"hardware": config(slowdown=2).hardware},
    {"timeout_s": 11.0},
    {"start_method": "spawn"},
    {"suite": "matmul_lut"},
    {"backend": BackendConfig("gloo", ["cpu"], {"A": "c"})},
)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([{"ranks": "fresh"}], ["start", "end"]),
        ([{}, {"seed": 1}, {"seed": 2}], ["start"]),
        ([{}, {"ranks": "fresh"}, {}], ["start", "start", "end"]),
        ([{"are_reusable": False}, {}], ["start", "end", "start"]),
        *(([{}, other], ["start", "end", "start"]) for other in OTHER_WORLDS),
    ],
)
def test_points_of_one_world_share_ranks_that_are_sound(events, points, expected):
    with ReusableRanks(GROUP) as kept:
        for changes in points:
            are_reusable = changes.get("are_reusable", True)
            keys = {name: value for name, value in changes.items() if name != "are_reusable"}
            run(kept, replace(config(ranks="reuse"), **keys), are_reusable)
        assert events == expected
        assert bool(kept.idle_pids) == (expected.count("start") > expected.count("end"))
    assert events.count("start") == events.count("end")


def test_ranks_end_with_interrupted_point(events):
    wanted, kept = config(ranks="reuse"), ReusableRanks(GROUP)
    with pytest.raises(KeyboardInterrupt), kept.for_point(wanted, place_ranks(wanted, GROUP)):
        raise KeyboardInterrupt
    assert events == ["start", "end"]
    assert kept.idle_pids == ()


def test_first_and_then_every_tenth_reused_point_is_checked(events):
    with ReusableRanks(GROUP) as kept:
        due = []
        for _ in range(2 * FRESH_EVERY + 2):
            due.append(run(kept, config(ranks="reuse")))
            kept.num_checked += due[-1]
    assert [index for index, is_due in enumerate(due) if is_due] == [1, 1 + FRESH_EVERY, 1 + 2 * FRESH_EVERY]


def test_cases_are_timed_alone_of_first_point_and_then_every_tenth(events):
    with ReusableRanks(GROUP) as kept:
        due = []
        for _ in range(2 * FRESH_EVERY + 2):
            run(kept, config(ranks="reuse"))
            due.append(kept.is_isolated_run_due())
        assert [index for index, is_due in enumerate(due) if is_due] == [0, FRESH_EVERY, 2 * FRESH_EVERY]
        run(kept, config(ranks="reuse", world_size=3))
        assert kept.is_isolated_run_due()  # the first point of other ranks
        for _ in range(3):
            run(kept, config(ranks="fresh"))
            assert kept.is_isolated_run_due()


@pytest.mark.parametrize(
    ("changes", "reused"),
    [
        ({}, False),
        ({"device": "cuda"}, True),
        ({"device": "cuda", "repeat": 2}, False),
        ({"device": "cuda", "profile": "nsys"}, False),
        ({"device": "cuda", "ranks": "fresh"}, False),
        ({"device": "cuda", "measure": fakes.plan(mode="cold")}, False),
        ({"ranks": "reuse"}, True),
    ],
)
def test_auto_keeps_ranks_on_gpus(changes, reused):
    assert is_reusable(config(**changes)) is reused


@pytest.mark.parametrize(
    ("statuses", "mode", "is_sound"),
    [
        (["ok", "unavailable"], "loop", True),
        (["ok", "invalid"], "loop", False),
        (["oom", "ok"], "loop", False),
        (["ok", "ok"], "graph", True),
        (["ok", "unavailable"], "graph", False),  # its capture may have failed
    ],
)
def test_ranks_that_may_be_damaged_do_not_stay(statuses, mode, is_sound):
    assert leaves_ranks_sound([SimpleNamespace(status=status) for status in statuses], mode) is is_sound

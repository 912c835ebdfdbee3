"""Every pair of values of the axes: what is shown follows from what was planted."""

from datetime import date

import pytest

from tests.support.planted import combinations
from tests.support.planted.axes import covering
from tests.support.planted.world import planted_world

TURNS = 4
"""Days in which `make test` goes through all combinations; each day the others are slow tests."""


def in_turn(number, chosen):
    name = "-".join(map(str, chosen.values()))
    is_today = number % TURNS == date.today().toordinal() % TURNS
    composed_once = pytest.mark.xdist_group(f"planted {chosen['suite']}")
    return pytest.param(chosen, id=name, marks=[composed_once, *([] if is_today else [pytest.mark.slow])])


@pytest.mark.parametrize("chosen", [in_turn(*each) for each in enumerate(covering(2))])
def test_what_is_shown_follows_from_what_was_planted(chosen, tmp_path):
    with planted_world() as stage:
        found = combinations.measure(stage, chosen, tmp_path / "sweep")
    assert found.num_figures
    assert list(map(str, found.differences)) == []

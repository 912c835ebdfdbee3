"""Every pair of values of the axes: what is shown follows from what was planted."""

import pytest

from tests.support.planted import combinations
from tests.support.planted.axes import covering
from tests.support.planted.world import planted_world


@pytest.mark.parametrize("chosen", covering(2), ids=lambda chosen: "-".join(map(str, chosen.values())))
def test_what_is_shown_follows_from_what_was_planted(chosen, tmp_path):
    with planted_world() as stage:
        found = combinations.measure(stage, chosen, tmp_path / "sweep")
    assert found.num_figures
    assert list(map(str, found.differences)) == []

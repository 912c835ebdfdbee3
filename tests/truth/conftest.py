"""Planted points for tests: measured in one sweep, in virtual time."""

import pytest

from tests.support.planted import runs
from tests.support.planted.world import planted_world


@pytest.fixture
def measured(tmp_path):
    """Measures points in one sweep: overrides of each, and plants of each or one for all."""

    def run(points, *plants, repeat=1, folder="sweep"):
        with planted_world() as stage:
            return runs.run(stage, tmp_path / folder, points, plants, repeat)

    return run

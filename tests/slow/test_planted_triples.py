"""Every triple of values of the axes: what is shown follows from what was planted."""

from functools import cache

import pytest

from tests.support.planted import combinations
from tests.support.planted.axes import covering
from tests.support.planted.world import planted_world

CHUNKS = 32
"""Tests that share the triples: each takes seconds."""


@cache
def triples():
    return covering(3)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_shown_follows_from_what_was_planted(chunk, tmp_path):
    found = {}
    for number, chosen in enumerate(triples()[chunk::CHUNKS]):
        with planted_world() as stage:
            compared = combinations.measure(stage, chosen, tmp_path / str(number))
        assert compared.num_figures
        if differences := list(map(str, compared.differences)):
            found["-".join(map(str, chosen.values()))] = differences
    assert found == {}

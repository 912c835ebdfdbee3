"""Planted truth sees breakages of benchkit."""

from contextlib import ExitStack

import pytest

from tests.support.planted import combinations
from tests.support.planted.mutants import MUTANTS, SELECTION
from tests.support.planted.runs import Failed
from tests.support.planted.world import planted_world


def is_seen(chosen, folder, mutant=None):
    """Whether a combination, measured by benchkit with a breakage, shows what was not planted."""
    with ExitStack() as held:
        stage = held.enter_context(planted_world())
        patch = held.enter_context(pytest.MonkeyPatch.context())
        if mutant:
            mutant.apply(patch)
        try:
            return bool(combinations.measure(stage, chosen, folder).differences)
        except Failed:
            return True


@pytest.mark.parametrize("chosen", SELECTION, ids=lambda chosen: chosen["suite"])
def test_sound_code_shows_what_was_planted(chosen, tmp_path):
    assert not is_seen(chosen, tmp_path / "sweep")


@pytest.mark.parametrize("name", MUTANTS)
def test_breakage_is_seen(name, tmp_path):
    assert any(is_seen(chosen, tmp_path / "sweep", MUTANTS[name]) for chosen in SELECTION)

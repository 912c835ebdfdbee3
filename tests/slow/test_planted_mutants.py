"""Planted truth sees what is broken on purpose: each breakage changes a figure of some combination."""

import pytest

from tests.support.planted import combinations
from tests.support.planted.mutants import MUTANTS, SELECTION
from tests.support.planted.world import planted_world


def differs(chosen, folder):
    with planted_world() as stage:
        try:
            return bool(combinations.measure(stage, chosen, folder).differences)
        except Exception:  # a broken benchkit may fail as well
            return True


def test_sound_benchkit_agrees(tmp_path):
    assert [chosen for number, chosen in enumerate(SELECTION) if differs(chosen, tmp_path / str(number))] == []


@pytest.mark.parametrize("name", MUTANTS)
def test_breakage_is_seen(name, tmp_path, monkeypatch):
    MUTANTS[name].apply(monkeypatch)
    assert any(differs(chosen, tmp_path / str(number)) for number, chosen in enumerate(SELECTION))

import pytest

from tests.support.breakages import BREAKAGES
from tests.support.cli import ROOT


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.sound.split("\n")[0])
def test_breakage_has_its_place(breakage):
    assert len(breakage.places()) == 1
    assert (ROOT / "tests" / f"{breakage.tests}.py").is_file()

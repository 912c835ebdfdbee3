"""The breakages of docs/results/tests.md can be made."""

import pytest

from tests.support.breakages import BREAKAGES
from tests.support.cli import ROOT


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: f"{breakage.file}-{breakage.sound}")
def test_breakage_has_its_place(breakage):
    assert (ROOT / breakage.file).read_text().count(breakage.sound) == 1
    assert (ROOT / "tests" / f"{breakage.tests}.py").is_file()

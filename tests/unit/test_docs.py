"""Pages name files, and tests, that are there."""

import re
from dataclasses import fields

import pytest
from benchkit.record.record import CLOCK_REASONS, GPU_READINGS, AgentReport, RankDevice

from tests.support.cli import ROOT
from tests.support.entries.rank import devices

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FILE = re.compile(r"(?<![\w/.-])((?:benchkit|launch|analysis|tests|conf|hydra_plugins)/[a-z0-9_/]+\.(?:py|yaml|txt))")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
TO_BE_MADE = {
    "benchkit/suites/broadcast/suite.py",
    "conf/hardware/b200.yaml",
    "conf/suite/broadcast.yaml",
    "conf/suite/kernel.yaml",
}
"""By the recipes of CONTRIBUTING.md and docs/ci.md."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_files_that_exist(page):
    text = page.read_text()
    named = set(FILE.findall(text)) - TO_BE_MADE
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
    tests = [(file, name) for file, name in TEST.findall(text) if (ROOT / file).exists()]
    assert [name for file, name in tests if f"def {name}" not in (ROOT / file).read_text()] == []


def test_page_of_records_names_every_key():
    page = (ROOT / "docs" / "record.md").read_text()
    keys = (ROOT / "tests" / "golden" / "record_keys.txt").read_text().split()
    named = [key.removeprefix("cases.") for key in keys if not key.startswith("environment.")]
    named += [each.name for kind in (AgentReport, RankDevice) for each in fields(kind)]
    named += [*devices.torch_settings({}), CLOCK_REASONS, *(f"gpu_{name}" for name in GPU_READINGS)]
    assert [name for name in named if f"`{name}`" not in page] == []

"""The documentation: relative links lead somewhere, and every page can be reached."""

import importlib.util
import re

import pytest
import yaml

from tests.support.cli import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_readme_fits_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def hooks():
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages_of(nav):
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else pages_of(value)


def test_navigation_has_every_page():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text()) | {"docs_dir": str(ROOT / "docs")}
    listed = list(pages_of(hooks().on_config(config)["nav"]))
    assert sorted(listed) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


def test_reference_has_keys_and_columns():
    text = hooks().reference()
    assert "| `data_size` | size S of nccl-tests" in text
    assert "| `busbw_gb_per_s` | busbw [GB/s] |" in text
    assert "| `timeout_s` | time allowed to one point" in text

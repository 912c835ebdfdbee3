"""The recipes of CONTRIBUTING.md."""

import re
import textwrap

from tests.support.cli import ROOT

RECIPES = (ROOT / "CONTRIBUTING.md").read_text()


def snippet(language: str, indent: str = "   ") -> str:
    """The first block of a language in CONTRIBUTING.md."""
    found = re.search(rf"^{indent}```{language}\n(.*?)^{indent}```", RECIPES, re.DOTALL | re.MULTILINE)
    assert found
    return textwrap.dedent(found[1])

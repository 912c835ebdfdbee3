"""The container definitions copy what exists, all that the wheel is built from, and install declared extras."""

import re

import pytest

from tests.support.cli import ROOT

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def copied(name):
    """The paths that a definition copies, as they are in the repository."""
    text = (ROOT / "containers" / name).read_text()
    if name == "Dockerfile":
        lines = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY ")]
    else:
        section = text[text.index("%files") : text.index("%post")]
        lines = [line.split()[:1] for line in section.splitlines()[1:] if line.strip()]
    return [path for line in lines for path in line]


@pytest.mark.parametrize("name", ["Dockerfile", "benchkit.def"])
def test_definition_agrees_with_project(name):
    paths = copied(name)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    needed = {*WHEEL["packages"], *WHEEL["force-include"], "pyproject.toml", PROJECT["project"]["readme"]}
    assert needed <= set(paths)
    text = (ROOT / "containers" / name).read_text()
    [extras] = re.findall(r'"\.\[([a-z,]+)\]"', text)
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    [python] = re.findall(r"python:(\d+\.\d+)-slim", text)
    assert f">={python}" >= PROJECT["project"]["requires-python"]

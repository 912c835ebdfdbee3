"""What tests of the command line share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchkit import cli as app

from tests.support.cli import SUITES

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Told:
    """Runs a command line in this process, in an empty folder; returns its exit code, output and complaint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCHKIT_SUITES", SUITES)
    monkeypatch.setattr(app, "handle", lambda numbers, handler: None)

    def run(*arguments: str, **variables: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["benchkit", *arguments])
        with monkeypatch.context() as during:
            for name, value in variables.items():
                during.setenv(name, value)
            code = app.main()
        return code, *capsys.readouterr()

    return run

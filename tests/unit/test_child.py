"""Which command a user is told to type."""

import os

import pytest
from benchkit import child


@pytest.mark.parametrize(("is_installed", "is_on_path", "typed"), [
    (True, True, "benchkit-analysis"), (True, False, "venv/bin/benchkit-analysis"), (False, True, "python -m analysis"),
    (False, False, "python -m analysis"),
])  # fmt: skip
def test_analysis_is_typed_as_this_user_can(tmp_path, monkeypatch, is_installed, is_on_path, typed):
    """Another installation's program, which comes first in PATH, is not this one's."""
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / "venv" / "bin", tmp_path / "other"]
    for folder in folders if is_installed else folders[1:]:
        folder.mkdir(parents=True)
        (folder / "benchkit-analysis").touch(mode=0o755)
    monkeypatch.setattr(child.sys, "executable", str(folders[0] / "python"))
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders if is_on_path else folders[1:])))
    assert child.analysis_program() == typed

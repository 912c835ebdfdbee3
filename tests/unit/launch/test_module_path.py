"""What is started finds modules where its parent does: not in the working directory before all else."""

import os
import subprocess
import sys

import pytest
from launch.module_path import path_in_environment, path_options

WHERE = "import json, mine; print(mine.__file__)"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A module `mine` in the working directory, and another one on the path."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "there"), *(each for each in sys.path if each)])
    return tmp_path


def found(*options):
    done = subprocess.run([sys.executable, *options, "-c", WHERE], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no such option")
def test_working_directory_is_left_out_where_parent_leaves_it_out(folders, monkeypatch):
    assert path_options() == ["-P"]
    monkeypatch.setenv("PYTHONPATH", str(folders / "there"))
    assert found(*path_options()) == str(folders / "there" / "mine.py")
    for entry in ("", os.getcwd()):
        monkeypatch.setattr(sys, "path", [*sys.path, entry])
        assert path_options() == []
        sys.path.pop()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not read PYTHONSAFEPATH")
def test_environment_carries_path(folders, monkeypatch):
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", "before")
    with path_in_environment():
        assert found() == str(folders / "there" / "mine.py")
    assert os.environ["PYTHONPATH"] == "before"
    assert "PYTHONSAFEPATH" not in os.environ
